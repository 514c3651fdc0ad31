"""Annealed importance sampling against closed forms and integrals over few rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

from sparsegp.dense import METHODS, Mixture, Problem, SoftmaxEP
from sparsegp.dense.annealing import Bridge, LogMarginal, log_marginal, slice_step
from sparsegp.dense.exact import Exact
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Gaussian, Probit, Softmax
from tests.dense.references import by_product_rule


def test_from_the_exact_posterior_all_weights_are_the_evidence():
    some = Problem(np.arange(5.0)[:, np.newaxis], np.ones(5), [3.0 * RBF(1.0)], Gaussian(0.1), 1)
    fit = Exact().fit(some)
    found = log_marginal(Bridge(some, fit.components[0]), runs=4, temperatures=3)
    assert_allclose(found.log_weights, fit.log_evidence, atol=1e-9)
    assert found.error < 1e-9


def test_the_base_is_the_gaussian_that_it_says():
    rng = np.random.default_rng(3)
    some = Problem(rng.normal(size=(4, 1)), np.array([0, 1, 2, 0]), [2.0 * RBF(1.0)], Softmax(), 3)
    component = SoftmaxEP().fit(some).components[0]
    base = Bridge(some, component)
    draws = np.array([base.deviation(np.random.default_rng([1, k])) for k in range(2500)])
    mean, variance = Mixture([component], some.x).latent(some.x)
    assert_allclose(base.mean, mean, atol=1e-10)
    assert_allclose(draws.mean(axis=0), 0.0, atol=0.1)
    assert_allclose(draws.var(axis=0), variance, rtol=0.12)


X = np.array([[0.0], [0.4], [1.5]])
BINARY = Problem(X, np.array([1, 0, 1]), [6.0 * RBF(1.0)], Probit(bias=0.3), 1)
EACH = [v * RBF(1.0) for v in (1.0, 2.0, 4.0)]
PER_CLASS = Problem(X[[0, 2]] / 2.0, np.array([0, 2]), EACH, Softmax(), 3)
FEW = {"binary": (BINARY, 60), "per class": (PER_CLASS, 8)}
"""Problems, and how many nodes for each latent value suffice."""


@pytest.mark.parametrize(
    ("name", "method", "error"),
    [
        *(("binary", *case) for case in (("", 0.2), ("laplace", 0.2), ("ep", 0.02))),
        ("per class", "", 0.15),
        pytest.param("per class", "laplace", 0.05, marks=pytest.mark.slow),
        pytest.param("per class", "softmax_ep", 0.05, marks=pytest.mark.slow),
    ],
)
def test_few_rows_by_quadrature(name, method, error):
    """From the posterior of a method, or from the prior."""
    some, nodes = FEW[name]
    component = METHODS[method]().fit(some).components[0] if method else None
    found = log_marginal(Bridge(some, component), runs=20, temperatures=150)
    assert found.error < error
    assert found.value == pytest.approx(by_product_rule(some, nodes)[0], abs=3.5 * found.error)


def test_steps_leave_the_tempered_posterior_as_it_is():
    """One latent value, drawn from the posterior at a temperature and moved a few times."""
    some = Problem(np.zeros((1, 1)), np.ones(1), [4.0 * RBF(1.0)], Gaussian(0.02), 1)
    bridge, inverse = Bridge(some), 0.6
    precision = 1 / 4.0 + inverse / 0.02
    centre, spread = inverse / 0.02 / precision, 1 / np.sqrt(precision)
    draws = centre + spread * np.random.default_rng(5).standard_normal(1000)
    moved = np.empty_like(draws)
    for number, draw in enumerate(draws):
        latent = np.array([[draw]])
        for step in range(3):
            rng = np.random.default_rng([number, step])
            latent, _ = slice_step(bridge, latent, bridge.log_ratio(latent), inverse, rng)
        moved[number] = latent[0, 0]
    assert kstest((moved - centre) / spread, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(draws, moved)[0, 1]) < 0.5  # they do move


def test_one_temperature_is_the_mean_likelihood_of_the_prior():
    some = Problem(np.zeros((1, 1)), np.array([1]), [RBF(1.0)], Probit(), 1, seed=9)
    found = log_marginal(Bridge(some), runs=2000, temperatures=1)
    assert found.value == pytest.approx(np.log(0.5), abs=3.5 * found.error)
    # Phi(u) of a standard normal u is uniform: standard deviation over mean is 1 / 3^(1/2)
    assert found.error == pytest.approx(1 / np.sqrt(3 * 2000), rel=0.1)
    assert found.effective_runs == pytest.approx(2000 * 3 / 4, rel=0.05)
    weights = np.array([-1000.0, -1001.0, -1002.0])
    direct = np.log(np.exp(weights + 1000.0).mean()) - 1000.0
    assert LogMarginal.of(weights).value == pytest.approx(direct, abs=1e-12)
