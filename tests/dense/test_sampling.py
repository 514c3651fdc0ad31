"""Hybrid Monte Carlo over kernel parameters against integrals over a grid of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from sklearn.datasets import load_breast_cancer

import sparsegp
from sparsegp.dense import METHODS, Mixture, Problem
from sparsegp.dense.exact import Exact
from sparsegp.dense.sampling import Schedule, Target, kernel_prior
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Gaussian
from tests.runs import assert_same

PRIOR = "l: lognormal(0.2, 0.5)"
rng = np.random.default_rng(4)
X = rng.uniform(-2, 2, size=(12, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=12)
REGRESSION = Problem(X, Y, [RBF(1.0)], Gaussian(0.1), 1, seed=3)


@pytest.mark.slow
def test_one_parameter_against_a_grid():
    some, method = REGRESSION, Exact()
    prior = kernel_prior(PRIOR, some)
    grid = np.linspace(-2.0, 2.0, 41)
    new = np.linspace(-1.9, 1.9, 7)[:, np.newaxis]
    at = [some.with_parameters(np.array([t])) for t in grid]
    logs = np.array([method.evidence(each).value - prior(each.parameters())[0] for each in at])
    density = np.exp(logs - logs.max())
    density /= trapezoid(density, grid)
    mean = trapezoid(grid * density, grid)
    sd = np.sqrt(trapezoid((grid - mean) ** 2 * density, grid))

    plan = Schedule(chains=2, burn_in=60, draws=250, kept=200, leapfrogs=5)
    found = plan.fit(Target(method, some, prior))
    (row,) = found.report["parameters"]
    assert row["name"] == "rbf.length_scale"
    assert row["effective_draws"] > 200
    assert row["r_hat"] < 1.05
    assert row["mean"] == pytest.approx(mean, abs=4 * sd / np.sqrt(row["effective_draws"]))
    assert row["sd"] == pytest.approx(sd, rel=0.2)
    assert all(0.5 < rate < 0.99 for rate in found.report["acceptance"])

    latents = [Mixture(method.fit(each).components, some.x).latent(new) for each in at]
    means, spreads = np.array(latents)[..., 0].swapaxes(0, 1)
    expected = trapezoid(means * density[:, np.newaxis], grid, axis=0)
    square = trapezoid((spreads + means**2) * density[:, np.newaxis], grid, axis=0)
    latent, variance = Mixture(found.components, some.x).latent(new)
    assert len(found.components) == 200
    assert_allclose(latent[:, 0], expected, atol=0.05)
    assert_allclose(variance[:, 0], square - expected**2, rtol=0.25, atol=0.01)


class Fragile(Exact, name=""):
    """Fails where the length scale is above a bound."""

    def start(self, problem, near=None):
        if problem.parameters()[0] > 0.0:
            raise NumericalError("too long")
        return super().start(problem, near)


def test_parameters_for_which_the_method_fails_are_left_out():
    some = REGRESSION.with_parameters(np.array([-0.2]))
    plan = Schedule(chains=2, burn_in=30, draws=30, kept=15)
    found = plan.fit(Target(Fragile(), some, kernel_prior(PRIOR, some)))
    assert all(each.kernels[0].parameters()[0] <= 0.0 for each in found.components)
    assert min(found.report["acceptance"]) > 0.2
    beyond = some.with_parameters(np.array([5.0]))
    with pytest.raises(NumericalError, match="too long"):
        plan.fit(Target(Fragile(), beyond, kernel_prior(PRIOR, some)))


def test_sampled_kernels_are_a_mixture(tmp_path):
    rows, y = load_breast_cancer(return_X_y=True)
    rows, y = rows[:30, :4], y[:30]
    options = {"method": "laplace", "learn": "hmc", "steps": 4}
    model = sparsegp.train(rows, y, **options, hyperprior="v: lognormal(0, 4); l: lognormal(0, 1)")
    assert model.report["components"] == 16
    assert len({str(each.kernels[0]) for each in model.mixture.components}) > 5
    model.save(tmp_path / "model")
    assert_same(sparsegp.load(tmp_path / "model"), model, rows)


def test_refusals():
    some, prior = REGRESSION, kernel_prior(PRIOR, REGRESSION)
    both = Problem(some.x, some.target, [2.0 * RBF(1.0)], some.likelihood, 1)
    with pytest.raises(SettingsError, match=r"must have a hyperprior.*got none of constant\.value"):
        Target(Exact(), both, kernel_prior(PRIOR, both))
    without = METHODS["softmax_ep"](moments="laplace")
    with pytest.raises(SettingsError, match="has no gradient of a marginal likelihood"):
        Target(without, some, prior)
