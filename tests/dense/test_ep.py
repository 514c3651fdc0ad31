"""Expectation propagation against quadrature, exact regression and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.dense import EP, Exact, Laplace, Mixture, Problem
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Gaussian, Logistic, OrderedProbit, Probit
from tests.dense.references import by_product_rule

SMALL = [Probit(0.3), Logistic(-0.2), OrderedProbit((-0.7, 0.5))]
BOTH = [EP(), EP(schedule="parallel", damping=0.8)]


def problem(likelihood, n=20, variance=4.0, seed=1):
    rng = np.random.default_rng(seed)
    classes = 3 if isinstance(likelihood, OrderedProbit) else 2
    target = rng.integers(0, classes, n)
    if likelihood.numeric:
        target = rng.normal(size=n)
    return Problem(rng.normal(size=(n, 2)), target, [variance * RBF(1.1)], likelihood, 1)


@pytest.mark.parametrize("likelihood", SMALL, ids=lambda each: each.name)
@pytest.mark.parametrize(("n", "error"), [(1, 1e-6), (3, 4e-3)])
def test_quadrature_on_few_rows(likelihood, n, error):
    """One row is exact; of more the error is that of EP, and far below that of Laplace."""
    x = 1.6 * np.arange(n)[:, np.newaxis]
    some = Problem(x, np.arange(n) % 2, [2.0 * RBF(1.0)], likelihood, 1)
    evidence, mean, variance = by_product_rule(some, 61)
    found = EP().fit(some)
    found_mean, found_variance = Mixture(found.components, x).latent(x)
    assert found.log_evidence == pytest.approx(evidence, abs=error)
    assert_allclose(found_mean, mean, atol=error)
    assert_allclose(found_variance, variance, rtol=5 * error)
    if not isinstance(likelihood, OrderedProbit):
        laplace = Laplace().fit(some)
        assert abs(laplace.log_evidence - evidence) > 2 * abs(found.log_evidence - evidence)


@pytest.mark.parametrize("method", BOTH, ids=str)
def test_gaussian_noise_is_exact(method):
    some = problem(Gaussian(0.3))
    ours, exact = method.evidence(some), Exact().evidence(some)
    assert ours.value == pytest.approx(exact.value, abs=1e-8)
    assert_allclose(ours.gradient, exact.gradient, atol=1e-7)
    new = np.random.default_rng(3).normal(size=(6, 2))
    pairs = [Mixture(each.fit(some).components, some.x).latent(new) for each in (method, Exact())]
    assert_allclose(*pairs, atol=1e-7)


@pytest.mark.parametrize("likelihood", SMALL, ids=lambda each: each.name)
def test_schedules_end_in_the_same_point(likelihood):
    some = problem(likelihood, n=45, variance=1e3)  # more than a block of rows
    fits = [method.fit(some) for method in BOTH]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-6)
    first, second = (fit.components[0] for fit in fits)
    assert_allclose(first.precision, second.precision, rtol=2e-5, atol=1e-9)
    assert_allclose(first.coefficients, second.coefficients, atol=1e-5)
