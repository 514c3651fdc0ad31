"""The all-data posterior of numbers beside the exact one, and rows that are left out."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import sparsegp
from sparsegp.posterior import ActiveRows
from sparsegp.posterior.past import PastRows
from sparsegp.posterior.regression import LeftOut, Spectrum, sums_of_rows
from sparsegp.settings import TrainSettings
from tests.runs import selected

N = 120
SETTINGS = {
    "task": "regression",
    "posterior": "all",
    "likelihood": "gaussian",
    "kernel": "30*matern32(1)",
    "scaling": "none",
    "precision": "float64",
}


X = np.random.default_rng(0).normal(size=(N + 50, 2))
Y = 7.0 + 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.4 * norm.rvs(size=len(X), random_state=1)
SMOOTH = product(("30*rbf(1)", "1000*rbf(3)", "30*matern52(1)"), (1e-2, 1e-5, 1e-8), (0.01,))


@pytest.mark.parametrize(
    ("kernel", "noise", "rtol"),
    [("30*matern32(1)", None, 1e-5), ("30*matern32(1)", 0.05, 1e-5), *SMOOTH],
)
def test_with_all_rows_active_it_is_exact(kernel, noise, rtol):
    """Beside the dense solution, with noise that is learnt, or labels as smooth as the kernel."""
    y = Y
    if noise is not None and rtol == 0.01:
        y = np.sin(2.0 * X[:, 0]) + np.sqrt(noise) * norm.rvs(size=len(X), random_state=2)
    likelihood = "gaussian" if noise is None else f"gaussian({noise})"
    settings = {**SETTINGS, "kernel": kernel, "likelihood": likelihood, "n_active": N}
    model = sparsegp.train(X[:N], y[:N], **settings)
    if len(model.rows) < N:
        pytest.skip("no latent variance is left for the others")
    K, found, s = model.kernels[0], model.report["noise_variance"], model.report["prior_scale"]
    assert noise is None or (found, s) == (noise, 1.0)
    assert model.likelihood.parameters() == np.log(found)
    offset, scale = y[:N].mean(), y[:N].std()
    root = np.linalg.cholesky(s * K(X[:N], X[:N]) + found * np.eye(N))
    cross = np.linalg.solve(root, s * K(X[:N], X[N:]))
    variance = s * K.diag(X[N:]) - np.square(cross).sum(axis=0) + found
    mean = cross.T @ np.linalg.solve(root, (y[:N] - offset) / scale)
    predicted = model.predictive_mean_and_variance(X[N:])
    assert_allclose(predicted[1] / scale**2, variance, rtol=rtol)
    assert (np.abs((predicted[0] - offset) / scale - mean) < rtol * np.sqrt(variance)).all()


@pytest.mark.parametrize(("n_active", "rtol"), [(30, 1e-3), (N - 1, 0.01), (N, 1e-3)])
def test_variance_keeps_its_digits_beside_a_wide_prior(n_active, rtol):
    settings = {**SETTINGS, "kernel": "1000*rbf(4)", "likelihood": "gaussian(0.01)"}
    model = sparsegp.train(X[:N], Y[:N], n_active=n_active, **settings)
    kernel, x = model.kernels[0], X[:N][model.rows]
    K = kernel(x, x)
    root = np.linalg.cholesky(K + 1e-9 * np.eye(n_active))
    span, new = (np.linalg.solve(root, kernel(x, each)) for each in (X[:N], X[N:]))
    left = np.linalg.solve(np.eye(n_active) + span @ span.T / 0.01, new)
    variance = 1000.0 - np.square(new).sum(axis=0) + (new * left).sum(axis=0)
    found = model.latent_mean_and_variance(X[N:])[1][:, 0]
    assert_allclose(found / Y[:N].var() + 0.01, variance + 0.01, rtol=rtol)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_rows_are_those_of_fits_without_them(weighted):
    x, y = X[:N], (Y[:N] - Y[:N].mean()) / Y[:N].std()
    weights = np.linspace(0.5, 2.0, N)
    settings = TrainSettings.given(**SETTINGS, n_active=25)
    with selected((x, y), settings) as run:
        active = ActiveRows.of(run.block_settings, run.active)
        (factor,), target = active.factors(), run.data.target
        (penalty,), (gram, pull, error) = active.penalties([factor]), sums_of_rows(active, run)
        M = np.linalg.solve(factor, active.kernels[0](active.x, x))
        assert np.linalg.norm(gram - M @ M.T, 2) < error
        if weighted:  # the sums that blocks make of rows with weights
            gram, pull, run.weights = (M * weights) @ M.T, (M * weights) @ target, weights
        left_out = LeftOut(active, run, factor, Spectrum(penalty, gram, pull))
    w, kernel, ratio = weights if weighted else np.ones(N), active.kernels[0], 0.02
    nlpp, noise = left_out.negative_log_density(np.log(ratio))
    K, cross = kernel(active.x, active.x), kernel(active.x, x)
    terms, squares = np.empty(N), np.empty(N)
    for i in range(N):
        others = np.arange(N) != i
        A = ratio * K + (cross[:, others] * w[others]) @ cross[:, others].T
        rest = target[i] - cross[:, i] @ np.linalg.solve(A, cross[:, others] @ (w * target)[others])
        spread = 1.0 + cross[:, i] @ np.linalg.solve(A, cross[:, i])
        spread += (30.0 - cross[:, i] @ np.linalg.solve(K, cross[:, i])) / ratio
        terms[i], squares[i] = np.log(2.0 * np.pi * spread), rest**2 / spread
    more = (20.0 / N) ** 2 / N**2  # one more row, off by one standard deviation
    mean = (np.average(squares, weights=w) + more) / (1.0 + more)
    assert noise == pytest.approx(mean, rel=1e-4)
    expected = 0.5 * np.average(terms + np.log(noise) + squares / noise, weights=w)
    assert nlpp == pytest.approx(expected, rel=1e-4)


def test_sums_of_rows_that_are_gone_are_exact():
    x, y = X[:N], Y[:N]
    model = sparsegp.train(x, y, n_active=30, **SETTINGS)
    active, noise, (factor,) = model.active, model.report["noise_variance"], model.active.factors()
    past = PastRows(active, model.weights, np.arange(30), np.arange(-30, 0), curvature=1.0)
    (gram,), (force,) = past.projected_onto(active, [factor])
    M = np.linalg.solve(factor, active.kernels[0](active.x, x))
    assert_allclose(noise * gram, M @ M.T, atol=1e-5 * N)
    assert_allclose(noise * force[:, 0], M @ ((y - y.mean()) / y.std()), atol=1e-5 * N)


@pytest.mark.parametrize("size", [100, 400])
def test_an_update_without_the_old_rows(size):
    """Noise and prior scale follow new rows that are many enough to tell them."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.0, 2.0, size=(1600, 2))
    truth = 5.0 + np.sin(2.0 * X[:, 0]) * X[:, 1]
    y = truth + 0.2 * rng.normal(size=1600)
    model = first = sparsegp.train(X[:400], y[:400], n_active=80, **SETTINGS)
    for start in range(400, 1200, size):
        new = slice(start, start + size)
        model = sparsegp.update(model, X[new], y[new])
    whole = sparsegp.update(first, X[400:1200], y[400:1200], old=(X[:400], y[:400]))
    known = {name: first.report[name] for name in ("noise_variance", "prior_scale")}
    assert (known.items() <= model.report.items()) == (size < 300)
    assert model.report["noise_variance"] * y[:400].var() == pytest.approx(0.04, rel=0.2)
    assert model.report["rows"] == 1200

    def error(each):
        mean, _ = each.predictive_mean_and_variance(X[1200:])
        return float(np.mean((mean - truth[1200:]) ** 2))

    assert error(model) < 1.3 * error(whole)
    assert error(model) < 0.7 * error(first)


def test_active_rows_alone_stand_for_the_rows_of_an_evidence():
    model = sparsegp.train(X[:N], Y[:N], task="regression", kernel="1*rbf", n_active=60)
    updated = sparsegp.update(model, X[N:], Y[N:])
    noise = model.likelihood.parameters()
    assert (updated.settings["posterior"], updated.likelihood.parameters()) == ("all", noise)
    both = [each.predictive_mean_and_variance(X)[0] for each in (model, updated)]
    assert np.mean((both[1] - Y) ** 2) < np.mean((both[0] - Y) ** 2)


def test_a_copy_of_a_row_does_not_predict_it():
    """With copies that are left out one by one, the noise would seem to vanish."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=120)
    how = {"task": "regression", "learn": "none", "kernel": "10*rbf(1)"}
    model = sparsegp.train(np.tile(X, (2, 1)), np.tile(y, 2), **how, posterior="all")
    assert np.mean((model.predict(X) - y) ** 2) > 0.1
    _, variance = model.predictive_mean_and_variance(X)
    assert variance.min() > 0.1
