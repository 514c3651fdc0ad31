"""Hybrid Monte Carlo over kernel parameters against integrals over a grid of them."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid

from sparsegp.dense import METHODS, Alone, Mixture, Problem
from sparsegp.dense.base import Fit, Method, Watch
from sparsegp.dense.exact import Exact
from sparsegp.dense.sampling import Schedule, kernel_prior, sample
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Gaussian, Probit
from tests.dense.watches import StoppedError, Watched

PRIOR = "l: lognormal(0.2, 0.5)"


def regression(n: int = 12) -> Problem:
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, size=(n, 1))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)
    return Problem(x, y, [RBF(1.0)], Gaussian(0.1), 1, seed=3)


def test_one_parameter_against_a_grid() -> None:
    some = regression()
    prior, method = kernel_prior(PRIOR, some), Exact()
    grid = np.linspace(-2.0, 2.0, 81)
    logs, means = [], []
    new = np.linspace(-1.9, 1.9, 7)[:, np.newaxis]
    for t in grid:
        at = some.with_parameters(np.array([t]))
        logs.append(method.evidence(at).value - prior(np.array([t]))[0])
        means.append(Mixture(method.fit(at, Alone()).components, some.x).latent(new))
    density = np.exp(np.array(logs) - max(logs))
    density /= trapezoid(density, grid)
    mean = trapezoid(grid * density, grid)
    sd = np.sqrt(trapezoid((grid - mean) ** 2 * density, grid))

    found = sample(
        method,
        some,
        prior,
        Alone(),
        Schedule(chains=2, burn_in=60, draws=300, kept=200, leapfrogs=5),
    )
    (row,) = found.report["parameters"]
    assert row["name"] == "rbf.length_scale"
    assert row["effective_draws"] > 200
    assert row["r_hat"] < 1.05
    assert row["mean"] == pytest.approx(mean, abs=4 * sd / np.sqrt(row["effective_draws"]))
    assert row["sd"] == pytest.approx(sd, rel=0.2)
    assert all(0.5 < rate < 0.99 for rate in found.report["acceptance"])

    each = np.array([latent for latent, _ in means])[:, :, 0]
    expected = trapezoid(each * density[:, np.newaxis], grid, axis=0)
    spread = np.array([variance for _, variance in means])[:, :, 0]
    square = trapezoid((spread + each**2) * density[:, np.newaxis], grid, axis=0)
    latent, variance = Mixture(found.components, some.x).latent(new)
    assert len(found.components) == 200
    assert_allclose(latent[:, 0], expected, atol=0.05)
    assert_allclose(variance[:, 0], square - expected**2, rtol=0.25, atol=0.01)


def test_without_data_the_prior_comes_out() -> None:
    """Labels with very much noise tell nothing of the kernel."""
    some = regression(3)
    some = Problem(some.x, some.target, [2.0 * RBF(1.0)], Gaussian(1e9), 1)
    prior = kernel_prior("v: lognormal(-1, 0.25); l: lognormal(1, 0.09)", some)
    plan = Schedule(chains=2, burn_in=100, draws=250, leapfrogs=6)
    found = sample(Exact(), some, prior, Alone(), plan)
    (v, length) = found.report["parameters"]
    for row, mean, sd in ((v, -1.0, 0.5), (length, 1.0, 0.3)):
        assert row["mean"] == pytest.approx(mean, abs=5 * sd / np.sqrt(row["effective_draws"]))
        assert row["sd"] == pytest.approx(sd, rel=0.25)


def assert_same(one: Fit, other: Fit) -> None:
    assert one.trace == other.trace
    assert one.report == other.report
    for first, second in zip(one.components, other.components, strict=True):
        assert_array_equal(first.coefficients, second.coefficients)
        assert first.kernels == second.kernels


@pytest.mark.parametrize("method", ["exact", "laplace"])
def test_goes_on_with_the_same_bits_however_chains_are_dealt_out(method: str) -> None:
    some = regression(8)
    if method == "laplace":
        some = Problem(some.x, (some.target > 0).astype(int), [RBF(1.0)], Probit(), 1, seed=3)
    prior, chosen = kernel_prior(PRIOR, some), METHODS[method]()
    plan = Schedule(chains=3, burn_in=12, draws=13, kept=7, leapfrogs=3)

    def run(watch: Watch) -> Fit:
        return sample(chosen, some, prior, watch, plan)

    whole = run(Alone())
    assert len(whole.trace) == 3 * 25
    stopped = Watched(last=1)
    with pytest.raises(StoppedError):
        run(stopped)
    assert_same(whole, run(Watched(stopped.states[-1])))
    assert_same(whole, run(Watched()))


class Fragile(Exact, name=""):
    """Fails where the length scale is above a bound."""

    def evidence(self, problem: Problem, start: Any = None) -> Any:
        """Return the evidence, or fail."""
        if problem.parameters()[0] > 0.0:
            raise NumericalError("too long")
        return super().evidence(problem, start)


def test_parameters_for_which_the_method_fails_are_left_out() -> None:
    some = regression().with_parameters(np.array([-0.2]))
    plan = Schedule(chains=2, burn_in=50, draws=50, kept=20)
    found = sample(Fragile(), some, kernel_prior(PRIOR, some), Alone(), plan)
    assert all(each.kernels[0].parameters()[0] <= 0.0 for each in found.components)
    assert min(found.report["acceptance"]) > 0.2
    beyond = some.with_parameters(np.array([5.0]))
    with pytest.raises(NumericalError, match="too long"):
        sample(Fragile(), beyond, kernel_prior(PRIOR, some), Alone(), plan)


def test_refusals() -> None:
    some = regression()
    prior = kernel_prior(PRIOR, some)
    both = Problem(some.x, some.target, [2.0 * RBF(1.0)], some.likelihood, 1)
    with pytest.raises(SettingsError, match=r"got none of constant\.value"):
        sample(Exact(), both, kernel_prior(PRIOR, both), Alone())
    with pytest.raises(SettingsError, match="must be of a parameter that is learnt"):
        kernel_prior("noise: gamma(1, 1)", some)
    without: Method = METHODS["softmax_ep"](moments="laplace")  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="has no gradient of a marginal likelihood"):
        sample(without, some, prior, Alone())
    for options, text in (
        ({"chains": 0}, "chains must be at least 1"),
        ({"draws": 3}, "draws must be at least 4"),
        ({"burn_in": -1}, "burn_in must not be negative"),
        ({"acceptance": 1.0}, "acceptance must be between 0 and 1"),
        ({"kept": 5000}, "must not exceed chains=4 times draws=250"),
    ):
        with pytest.raises(SettingsError, match=text):
            Schedule(**options)  # type: ignore[arg-type]
