"""What stands for rows that are gone, against these rows; and which active rows could go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sparsegp
from sparsegp.kernels import parse
from sparsegp.likelihoods import LIKELIHOODS, MultinomialProbit
from sparsegp.posterior import ActiveRows, Calibration, PosteriorWeights, sites
from sparsegp.posterior.past import JITTER, PastRows, mean_curvature
from sparsegp.posterior.removal import rows_to_remove

SCALE = 3.0
rng = np.random.default_rng(0)
X, Y = rng.normal(scale=2.0, size=(90, 2)), rng.normal(size=(90, 3))


def active_rows(x, n_kernels=1):
    rng = np.random.default_rng(3)
    kernels = [parse(f"{5 * (c + 2)}*rbf({c + 1})") for c in range(n_kernels)]
    precision = rng.uniform(0.5, 2.0, size=(len(x), n_kernels))
    site = rng.normal(size=(len(x), 3))
    return ActiveRows(kernels, MultinomialProbit(), x, np.zeros(len(x), int), site, precision)


def features(active, X):
    """L^-1 k of every kernel, (d, n)."""
    pairs = zip(active.kernels, active.factors(), strict=True)
    return [np.linalg.solve(L, np.asarray(kernel(active.x, X))) for kernel, L in pairs]


def regression(active, X, y):
    """The maximum of -|y - w^T c|^2 / 2 - tr(c^T P c) / 2 s, for numbers y (n, 3)."""
    coefficients, gain = [], []
    penalties = active.penalties(active.factors())
    for w, P, columns in zip(features(active, X), penalties, active.columns(), strict=True):
        B = P / SCALE + w @ w.T
        coefficients.append(np.linalg.solve(B, w @ y[:, columns]))
        gain.append(np.linalg.cholesky(B))
    return PosteriorWeights(coefficients, gain, calibration=Calibration(prior_scale=SCALE))


def past(active, kept):
    """The first 60 rows, and those of the active ones that are kept."""
    weights = regression(active, X[:60], Y[:60])
    return PastRows(active, weights, kept, numbers=kept - 100, curvature=1.0)


@pytest.mark.parametrize("n_kernels", [1, 3])
def test_of_a_quadratic_nothing_is_lost(n_kernels):
    """With the same active rows, old sums and new rows give the maximum of all rows together."""
    active = active_rows(X[:12], n_kernels)
    known = past(active, np.arange(12))
    grams, forces = known.projected_onto(active, active.factors())
    together = regression(active, X, Y).coefficients
    penalties = active.penalties(active.factors())
    for c, columns in enumerate(active.columns()):
        w_old, w = features(active, X[:60])[c], features(active, X[60:])[c]
        assert_allclose(grams[c], w_old @ w_old.T, atol=1e-9)
        anchor = penalties[c] / SCALE + grams[c]
        alone = np.linalg.solve(anchor, forces[c])
        assert_allclose(alone, known.weights.coefficients[c], atol=1e-8)
        both = np.linalg.solve(anchor + w @ w.T, forces[c] + w @ Y[60:, columns])
        assert_allclose(both, together[c], atol=1e-8)


def test_fresh_rows_are_told_from_the_former_ones():
    """Their kernel values at an old row are interpolated from those of the former ones."""
    kept, active = np.array([0, 5]), active_rows(X[:12])
    more = active_rows(np.concatenate([X[kept], X[50:53]]))
    (gram,), _ = past(active, kept).projected_onto(more, more.factors())
    kernel = active.kernels[0]
    A = np.asarray(kernel(active.x, active.x))
    A += JITTER / SCALE * A.diagonal().mean() * np.eye(len(A))
    k = np.asarray(kernel(more.x, X[:60]))
    k[2:] = np.asarray(kernel(more.x[2:], active.x)) @ np.linalg.solve(A, kernel(active.x, X[:60]))
    w = np.linalg.solve(more.factors()[0], k)
    assert_allclose(gram, w @ w.T, atol=1e-8)


def test_the_active_rows_that_stay_give_the_stub_of_any_row():
    kept, active = np.arange(2, 11), active_rows(X[:12])
    found = past(active, kept).active_set(4, np.float64)
    assert [len(found), found.rows.tolist()] == [9, list(range(-98, -89))]
    site, precision = found.sites(3)
    stay = active.take(kept)
    step = np.concatenate([each.step[0, : each.count] for each in found.included])
    mean = features(stay, X)[0].T @ step
    gain = np.linalg.solve(np.diag(1 / precision[:, 0]) + stay.kernels[0](stay.x, stay.x), site)
    assert_allclose(mean, np.asarray(stay.kernels[0](X, stay.x)) @ gain, atol=1e-9)


def test_an_update_ends_where_no_slope_is_left():
    """The slope of new rows and of what stands for old ones, by dense products."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=500), [-0.5, 0.5])
    exact = {"calibration": "none", "precision": "float64", "tolerance": 1e-19, "n_nodes": 24}
    model = sparsegp.train(X[:300], y[:300], kernel="5*rbf(1)", n_active=25, **exact)
    updated = sparsegp.update(model, X[300:], y[300:])
    stayed = updated.rows[updated.rows < 300]
    kept = np.array([model.rows.tolist().index(row) for row in stayed])
    new, codes = model.scaling.apply(X[300:]), y[300:]
    mean = model.posterior.latent(new)[0]
    kappa = mean_curvature(model.likelihood, mean, codes)
    assert 0.0 < kappa < 1.0
    known = PastRows(model.active, model.weights, kept, stayed - 300, kappa)
    (gram,), (force,) = known.projected_onto(updated.active, updated.active.factors())
    (P,), (w,) = updated.active.penalties(updated.active.factors()), features(updated.active, new)
    c = updated.weights.coefficients[0]
    p = updated.likelihood.gradient(w.T @ c, codes)[1]
    slope = w @ p + force - (P + kappa * gram) @ c
    assert np.abs(slope).max() < 1e-4 * np.abs(w @ p).max()


@pytest.mark.parametrize("name", ["logistic", "probit", "multinomial_probit"])
def test_curvature_by_differences(name):
    """Of two latent values it is that along their difference, of which the trace has two."""
    mean, step, codes = np.array([[-1.0], [0.3], [2.0]]), 1e-4, np.array([0, 1, 1])
    likelihood = MultinomialProbit(n_nodes=24)
    apart, times = np.array([-0.5, 0.5]), 2.0
    if name != likelihood.name:
        likelihood, apart, times = LIKELIHOODS[name].start(2), np.ones(1), 1.0

    def log_p(gap):
        return np.asarray(likelihood.log_density(gap * apart, codes))

    bend = -(log_p(mean + step) - 2 * log_p(mean) + log_p(mean - step)) / step**2
    assert_allclose(mean_curvature(likelihood, mean * apart, codes), times * bend.mean(), rtol=1e-4)


def loss(active, gone, gain):
    """By how much the posterior is lower where these rows have no weight, with the best others.

    It is a quadratic with the matrix W about alpha; the sites' is that of the sum of
    pi (site - C alpha)^2 / 2 and alpha^T C alpha / 2.
    """
    total, kept = 0.0, [i for i in range(len(active.x)) if i not in gone]
    for c, (kernel, columns) in enumerate(zip(active.kernels, active.columns(), strict=True)):
        C, pi = np.asarray(kernel(active.x, active.x)), active.precision[:, c]
        A = C + np.diag(1.0 / pi)
        alpha = np.linalg.solve(A, active.site[:, columns])
        W = C @ np.diag(pi) @ C + C
        if gain is not None:
            L = np.linalg.cholesky(A)
            W = L @ gain[c] @ gain[c].T @ L.T
        # best others: W_kk (a - alpha_k) = W_kg alpha_g
        best = np.zeros_like(alpha)
        lost = W[np.ix_(kept, gone)] @ alpha[gone]
        best[kept] = alpha[kept] + np.linalg.solve(W[np.ix_(kept, kept)], lost)
        total += 0.5 * float(np.vdot(best - alpha, W @ (best - alpha)))
    return total


@pytest.mark.parametrize("n_kernels", [1, 3])
@pytest.mark.parametrize("of_all_rows", [False, True])
def test_rows_go_one_by_one_by_what_is_lost(n_kernels, of_all_rows):
    rng = np.random.default_rng(0)
    active = active_rows(rng.normal(scale=2.0, size=(12, 2)), n_kernels)
    weights, gain = sites.regression(active, active.site), None
    if of_all_rows:
        halves = rng.normal(size=(n_kernels, 12, 12))
        gain = [np.linalg.cholesky(half @ half.T + np.eye(12)) for half in halves]
        weights = PosteriorWeights(weights.coefficients, gain)
    expected = []
    for _ in range(5):
        left = [i for i in range(12) if i not in expected]
        expected.append(min(left, key=lambda i: loss(active, [*expected, i], gain)))
    for count in (0, 5):
        assert rows_to_remove(active, weights, count).tolist() == expected[:count]
