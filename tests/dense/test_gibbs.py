"""The Gibbs sampler by simulation and against integrals; its evidence and its draws in cones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.stats import chisquare

from sparsegp.dense import Gibbs, Mixture, Problem, Variational
from sparsegp.dense.orthant import draw_given_labels, log_evidence
from sparsegp.kernels import RBF, Linear
from sparsegp.likelihoods import MultinomialProbit, Probit
from tests.dense.references import integrated
from tests.dense.test_variational import CASES, problem

BINS = 10


def simulated(groups, rows, kind):
    """Return many small problems as one, and the weights (I + K)^-1 y from which labels come.

    Rows are in groups so far apart that they are independent; y are noisy latent values.
    """
    rng = np.random.default_rng(11)
    x = rng.normal(size=(groups, rows, 1)) + 1000.0 * np.arange(groups)[:, np.newaxis, np.newaxis]
    x = x.reshape(-1, 1)
    kernels = [v * RBF(w) for v, w in ((4.0, 1.0), (1.0, 0.5), (9.0, 2.0))]
    n_latent = 1 if kind == "binary" else 3
    kernels = kernels if kind == "per class" else kernels[:1]
    shift = {"biased": (0.8, 0.0, -0.8), "binary": (0.5,)}.get(kind, (0.0,) * 3)
    likelihood = Probit(0.5) if kind == "binary" else MultinomialProbit(12, shift)
    y, weights = np.empty((2, len(x), n_latent))
    for r in range(n_latent):
        covariance = kernels[r % len(kernels)](x, x) + np.eye(len(x))
        y[:, r] = np.linalg.cholesky(covariance) @ rng.normal(size=len(x))
        weights[:, r] = np.linalg.solve(covariance, y[:, r])
    labels = y + np.array(shift)
    target = labels.argmax(axis=1) if n_latent > 1 else (labels[:, 0] > 0).astype(int)
    return Problem(x, target, kernels, likelihood, n_latent, seed=4), weights


@pytest.mark.parametrize("kind", ["shared", "per class", "biased", "binary"])
def test_calibration_by_simulation(kind):
    """The ranks of the true weights among draws are uniform, for one row of each group."""
    some, weights = simulated(80, 4, kind)
    method = Gibbs(chains=1, samples=39, burn_in=30, thin=5, particles=0)
    found = method.fit(some).components[0].coefficients
    contrast = np.array([1.0, -0.5, -0.5]) if some.n_latent == 3 else np.ones(1)
    for row in range(2):
        truth, draws = weights[row::4] @ contrast, found[:, row::4] @ contrast
        rank = (draws < truth).sum(axis=0)
        count = np.bincount(rank * BINS // (len(draws) + 1), minlength=BINS)
        assert chisquare(count).pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("per_class", "binary"), CASES)
def test_against_integrals(per_class, binary):
    some = problem(2, per_class, binary)
    new = np.array([[0.3, -0.2], [1.0, 1.0]])
    exact, probabilities = integrated(some, new, 2 if binary else 3)
    found = Gibbs(chains=2, samples=200, burn_in=50, thin=2, particles=1000).fit(some)
    assert found.log_evidence == pytest.approx(exact, abs=0.02)
    log_p = Mixture(found.components, some.x).log_probabilities(new, probabilities.shape[1])
    assert_allclose(np.exp(log_p), probabilities, atol=0.025)
    assert found.report["mean"]["r_hat"] < 1.05
    assert found.report["mean"]["effective_draws"] > 100


@pytest.mark.slow
def test_estimates_have_the_right_mean_for_few_particles():
    """Also with particles drawn anew, which 12 rows and 20 particles bring about."""
    some = problem(12, variance=5.0)
    many = log_evidence((some, 10_000), 0)
    few = np.exp([log_evidence((some, 20), number) - many for number in range(1, 65)])
    assert few.mean() == pytest.approx(1.0, abs=4.0 * few.std() / 8.0 + 0.02)
    assert few.std() > 0.2
    assert Variational().fit(some).log_evidence < many


@pytest.mark.slow
def test_kernel_parameters_against_their_density():
    """Two rows of one class: p(t) = 1/4 + asin(k / (1 + v)) / (2 pi) for covariance k."""
    x = np.array([[0.0], [1.0]])
    some = Problem(x, np.array([1, 1]), [RBF(1.0)], Probit(), 1, seed=3)
    method = Gibbs(chains=2, samples=400, burn_in=100, thin=2, metropolis=True, spread=1.5)
    found = method.fit(some)
    logs = np.log([draw["0:rbf.length_scale"] for draw in found.trace])
    grid = np.linspace(-8.0, 8.0, 2001)
    covariance = np.exp(-0.5 * np.exp(-2.0 * grid))
    density = 0.25 + np.arcsin(covariance / 2.0) / (2.0 * np.pi)
    density *= np.exp(-0.5 * (grid / 1.5) ** 2)
    density /= trapezoid(density, grid)
    mean = trapezoid(grid * density, grid)
    spread = np.sqrt(trapezoid((grid - mean) ** 2 * density, grid))
    effective = found.report["parameters"]["effective_draws"]
    assert effective > 100
    assert logs.mean() == pytest.approx(mean, abs=4.0 * spread / np.sqrt(effective))
    assert logs.std() == pytest.approx(spread, rel=0.15)
    assert 0.15 < found.report["accepted"] < 0.5
    assert np.isnan(found.log_evidence)
    drawn = [c.kernels[0].parameters()[0] for c in found.components for _ in c.coefficients]
    assert_allclose(np.sort(drawn), np.sort(logs), atol=1e-12)
    assert len(found.components) < len(logs)  # where a step is refused the kernel stays


def test_a_row_without_variance_has_no_figures_of_its_own():
    some = problem(8)
    x = np.concatenate([some.x, np.zeros((1, 2))])
    linear = Problem(x, np.append(some.target, 0), [Linear()], some.likelihood, 3, seed=1)
    found = Gibbs(chains=2, samples=60, burn_in=50, thin=2, particles=10).fit(linear)
    assert np.isfinite(list(found.report["mean"].values())).all()
    new = np.zeros((1, 2))  # where all latent values are zero
    log_p = Mixture(found.components, x).log_probabilities(new, 3)
    assert_allclose(np.exp(log_p), 1.0 / 3.0, atol=1e-5)


DRAWS = 40_000
MEANS = [[0, 0, 0], [3, -1, 0.5], [0, 10, 3], [-10, 0, 0.2], [0, 1, 2, 9]]


@pytest.mark.parametrize(
    ("mean", "scale", "label"),
    [
        *(([mean], [2.0], label) for mean in (-60.0, -2.0, 0.3, 10.0) for label in (0, 1)),
        *((mean, [1.0] * len(mean), 0) for mean in MEANS),
        *((mean, np.linspace(1.2, 3.0, len(mean)), 0) for mean in MEANS),
    ],
)
def test_draws_given_a_label_have_its_moments(mean, scale, label):
    """Within five standard errors."""
    shape, square, labels = (DRAWS, len(mean)), np.square(scale), np.array([label])
    likelihood = MultinomialProbit(24) if len(mean) > 1 else Probit()
    some = Problem(np.zeros((1, 1)), labels, [RBF(1.0)], likelihood, len(mean))
    centre, width = np.broadcast_to(mean, shape), np.broadcast_to(scale, shape)
    rng = np.random.default_rng(3)
    y = draw_given_labels(some, centre, width, labels.repeat(DRAWS), rng)
    assert ((y.argmax(axis=1) if len(mean) > 1 else y[:, 0] >= 0.0) == label).all()
    found = likelihood.moments(np.array([mean], float), square[np.newaxis] - 1.0, labels)
    variance = square * (1.0 - square * found.curvature[0])
    error = np.sqrt(variance / DRAWS)
    assert (np.abs(y.mean(axis=0) - mean - square * found.slope[0]) < 5.0 * error).all()
    assert_allclose(y.var(axis=0), variance, rtol=0.06)
