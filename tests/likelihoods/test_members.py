"""What is particular to one likelihood, or makes two of them agree."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from sparsegp.likelihoods import Gaussian, Logistic, MultinomialProbit, OrderedProbit, Probit
from tests.likelihoods.references import CASES


def test_members_that_coincide():
    """Two ordered classes are a probit; two classes of independent noise one of their gap."""
    rng = np.random.default_rng(13)
    mean, variance = 3.0 * rng.normal(size=(40, 1)), rng.uniform(0.1, 9.0, size=(40, 1))
    target = rng.integers(2, size=40)
    probit = Probit(0.7).moments(mean, variance, target)
    ordered = OrderedProbit((-0.7,)).moments(mean, variance, target)
    np.testing.assert_allclose(ordered.slope, probit.slope, rtol=1e-11)
    np.testing.assert_allclose(ordered.curvature, probit.curvature, rtol=1e-11)
    means, variances = 3.0 * rng.normal(size=(40, 2)), rng.uniform(0.1, 9.0, size=(40, 2))
    pair = MultinomialProbit().moments(means, variances, target)
    gap = np.sqrt(2.0 + variances.sum(axis=1, keepdims=True))
    one = Probit().moments((means[:, 1:] - means[:, :1]) / gap, np.zeros((40, 1)), target)
    np.testing.assert_allclose(pair.log_z, one.log_z, atol=1e-6)
    np.testing.assert_allclose(pair.slope, one.slope / gap * [-1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(pair.curvature, np.repeat(one.curvature / gap**2, 2, 1), atol=1e-6)


def test_gaussian_density_integrates_to_one_and_predicts_with_noise():
    likelihood, mean, variance = Gaussian(0.3), np.array([[0.8]]), np.array([[2.0]])
    density = quad(lambda y: math.exp(likelihood.log_density(mean[0], y)), -10, 10)[0]
    assert density == pytest.approx(1.0, abs=1e-10)
    centre, spread = likelihood.predictive(mean, variance)
    assert (centre[0], spread[0]) == (0.8, 2.3)
    assert likelihood.loss(mean, variance, np.array([1.0]))[0] == pytest.approx(0.04)


def test_shared_variance_of_the_multinomial_probit_is_that_of_every_class():
    mean, _, target = CASES[4].rows(20)
    shared = MultinomialProbit().moments(mean, np.full((20, 1), 1.7), target)
    every = MultinomialProbit().moments(mean, np.full(mean.shape, 1.7), target)
    np.testing.assert_array_equal(shared.curvature, every.curvature)
    log_z = MultinomialProbit().log_z(mean, np.full((20, 1), 1.7), target)
    np.testing.assert_allclose(log_z, shared.log_z, atol=2e-5)


def test_bounds_of_scores_need_biases_of_zero():
    assert MultinomialProbit().bounded
    assert MultinomialProbit.start(3).bounded
    assert not CASES[4].likelihood.bounded


def test_tails_keep_their_digits():
    mean = np.array([[-300.0]])
    for variance in (1e-10, 1.0, 100.0):
        a = np.array([[variance]])
        z = -300.0 / math.sqrt(1.0 + variance)
        for likelihood, code in ((Probit(), 1), (OrderedProbit((0.0,)), 1)):
            found = likelihood.log_z(mean, a, np.array([code]))
            np.testing.assert_allclose(found, log_ndtr(z), rtol=1e-13)
        # far from the bend the logistic function is an exponential
        found = Logistic().moments(mean, a, np.array([1]))
        np.testing.assert_allclose(found.log_z, -300.0 + variance / 2, rtol=1e-12)
        np.testing.assert_allclose(found.slope, 1.0, rtol=1e-12)


def test_narrow_classes_keep_their_digits():
    """Of a class of width w the probability is w phi, and the label pins the latent value."""
    mean, variance = np.array([[0.3], [-4.0], [40.0]]), np.array([[0.5], [0.5], [0.5]])
    found = OrderedProbit((0.0, 1e-6)).moments(mean, variance, np.array([1, 1, 1]))
    z = mean[:, 0] / math.sqrt(1.5)
    expected = math.log(1e-6 / math.sqrt(1.5 * 2.0 * math.pi)) - 0.5 * z * z
    np.testing.assert_allclose(found.log_z, expected, atol=4e-5)
    np.testing.assert_allclose(found.curvature, 1.0 / 1.5, rtol=1e-6)
