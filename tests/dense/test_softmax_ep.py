"""Softmax EP against integrals, against logistic EP of two classes, and against Laplace."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.dense import EP, Laplace, Mixture, Problem, SoftmaxEP
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Logistic, Softmax
from sparsegp.likelihoods.softmax_sites import match_moments
from tests.dense.references import by_product_rule


def problem(n, n_classes, variance, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    target = (x @ rng.normal(size=(2, n_classes)) + 0.4 * rng.normal(size=(n, n_classes))).argmax(1)
    return Problem(x, target, [variance * RBF(1.2)], Softmax(), n_classes)


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
    some = problem(12, 2, 3.0)
    found = SoftmaxEP(n_nodes=41, tolerance=1e-9).fit(some)
    one = Problem(some.x, some.target, [6.0 * RBF(1.2)], Logistic(), 1)
    expected = EP(tolerance=1e-9).fit(one)
    latent, spread = Mixture(found.components, some.x).latent(some.x)
    mean, variance = Mixture(expected.components, some.x).latent(some.x)
    assert_allclose(latent[:, 1] - latent[:, 0], mean[:, 0], atol=1e-5)
    assert_allclose(spread[:, 0], (variance[:, 0] + 2 * 3.0) / 4, atol=1e-5)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-5)


def test_local_laplace_ends_at_the_mode_of_the_whole_posterior():
    some = problem(10, 3, 4.0)
    found, expected = SoftmaxEP(moments="laplace", tolerance=1e-10).fit(some), Laplace().fit(some)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-7)
    pairs = [Mixture(fit.components, some.x).latent(some.x + 0.2) for fit in (found, expected)]
    assert_allclose(*pairs, atol=1e-7)


def test_refusals():
    with pytest.raises(SettingsError, match=r"7\^6 = 117649 points a row for 7 classes"):
        SoftmaxEP().fit(problem(8, 7, 1.0))
    SoftmaxEP(moments="laplace").fit(problem(8, 7, 1.0))
    with pytest.raises(NumericalError, match="after 2 sweeps; use more n_nodes"):
        SoftmaxEP(max_sweeps=2).fit(problem(8, 3, 1.0))
