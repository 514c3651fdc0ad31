"""Expectation propagation, of one latent value and of several, against quadrature and others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.dense import EP, Exact, Laplace, Mixture, Problem, SoftmaxEP
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Gaussian, Logistic, OrderedProbit, Probit, Softmax
from sparsegp.likelihoods.softmax_sites import match_moments
from tests.dense.references import by_product_rule, problem

SMALL = [Probit(0.3), Logistic(-0.2), OrderedProbit((-0.7, 0.5))]
BOTH = [EP(), EP(schedule="parallel", damping=0.8)]


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
    some = problem(Gaussian(0.3), 20, [4.0 * RBF(1.1)])
    ours, exact = method.evidence(some), Exact().evidence(some)
    assert ours.value == pytest.approx(exact.value, abs=1e-8)
    assert_allclose(ours.gradient, exact.gradient, atol=1e-7)
    new = np.random.default_rng(3).normal(size=(6, 2))
    pairs = [Mixture(each.fit(some).components, some.x).latent(new) for each in (method, Exact())]
    assert_allclose(*pairs, atol=1e-7)


@pytest.mark.parametrize("likelihood", SMALL, ids=lambda each: each.name)
def test_schedules_end_in_the_same_point(likelihood):
    n_classes = 3 if isinstance(likelihood, OrderedProbit) else 2
    some = problem(likelihood, 45, [1e3 * RBF(1.1)], n_classes)  # more than a block of rows
    fits = [method.fit(some) for method in BOTH]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-6)
    first, second = (fit.components[0] for fit in fits)
    assert_allclose(first.precision, second.precision, rtol=2e-5, atol=1e-9)
    assert_allclose(first.coefficients, second.coefficients, atol=1e-5)


# -- softmax --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_sites_are_semidefinite_whatever_the_scale(scale):
    rng = np.random.default_rng(2)
    half = scale * rng.normal(size=(40, 3, 3))
    mean, target = scale * rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    covariance = half @ half.swapaxes(1, 2) + 0.1 * scale**2 * np.eye(3)
    for log_z, sites in (
        match_moments(mean, covariance, target, np.zeros(4), 7),
        match_moments(mean, covariance, target, np.zeros(4)),
    ):
        values = np.linalg.eigvalsh(sites[..., :-1])
        assert (values > -1e-12 * values.max()).all()
        assert np.isfinite(log_z).all()


@pytest.mark.parametrize(
    ("variances", "biases", "error"),
    [((2.0,), (), 1e-7), ((16.0, 9.0, 25.0), (-4.0, 0.0, -1.0), 0.01)],
)
def test_one_row_is_exact(variances, biases, error):
    """Also where the likelihood cuts off a part of a wide prior."""
    kernels = [variance * RBF(1.2) for variance in variances]
    some = Problem(np.zeros((1, 2)), np.array([1]), kernels, Softmax(biases=biases), 3)
    found = SoftmaxEP(n_nodes=25, tolerance=1e-9).fit(some)
    log_z, mean, expected = by_product_rule(some, 60)
    assert found.log_evidence == pytest.approx(log_z, abs=error)
    latent, variance = Mixture(found.components, some.x).latent(some.x)
    assert_allclose(latent, mean, atol=error)
    assert_allclose(variance, expected, atol=error)


def test_two_classes_are_the_logistic_of_the_difference():
    """u_1 - u_0 has twice the prior variance; u_0 + u_1 keeps its own, and is independent."""
    some = problem(Softmax(), 12, [3.0 * RBF(1.2)], 2)
    found = SoftmaxEP(n_nodes=41, tolerance=1e-9).fit(some)
    one = Problem(some.x, some.target, [6.0 * RBF(1.2)], Logistic(), 1)
    expected = EP(tolerance=1e-9).fit(one)
    latent, spread = Mixture(found.components, some.x).latent(some.x)
    mean, variance = Mixture(expected.components, some.x).latent(some.x)
    assert_allclose(latent[:, 1] - latent[:, 0], mean[:, 0], atol=1e-5)
    assert_allclose(spread[:, 0], (variance[:, 0] + 2 * 3.0) / 4, atol=1e-5)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-5)


def test_local_laplace_ends_at_the_mode_of_the_whole_posterior():
    some = problem(Softmax(), 10, [4.0 * RBF(1.2)])
    found, expected = SoftmaxEP(moments="laplace", tolerance=1e-10).fit(some), Laplace().fit(some)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-7)
    pairs = [Mixture(fit.components, some.x).latent(some.x + 0.2) for fit in (found, expected)]
    assert_allclose(*pairs, atol=1e-7)


def test_refusals():
    with pytest.raises(SettingsError, match=r"7\^6 = 117649 points a row for 7 classes"):
        SoftmaxEP().fit(problem(Softmax(), 8, [RBF(1.2)], 7))
    SoftmaxEP(moments="laplace").fit(problem(Softmax(), 8, [RBF(1.2)], 7))
    with pytest.raises(NumericalError, match="after 2 sweeps; use more n_nodes"):
        SoftmaxEP(max_sweeps=2).fit(problem(Softmax(), 8, [RBF(1.2)]))
