"""What is particular to one likelihood, or makes two of them agree; averages over latent values."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from sparsegp.likelihoods import (
    Gaussian,
    Logistic,
    MultinomialProbit,
    OrderedProbit,
    Probit,
    Softmax,
)
from sparsegp.likelihoods.expectation import log_probabilities
from sparsegp.math.quadrature import CHUNK_TERMS
from tests.differences import central
from tests.likelihoods.test_contract import CASES


def test_ordered_classes_start_from_their_shares():
    target = np.repeat([0, 1, 2, 3], [30, 10, 20, 40])
    found = OrderedProbit.start(4).suited_to(24.0, target)
    prior = [found.log_z(np.zeros((1, 1)), np.full((1, 1), 24.0), np.array([k])) for k in range(4)]
    np.testing.assert_allclose(np.exp(prior)[:, 0], [0.3, 0.1, 0.2, 0.4], rtol=1e-12)


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
    assert MultinomialProbit().has_score_bounds
    assert MultinomialProbit.start(3).has_score_bounds
    assert not CASES[4].likelihood.has_score_bounds


def test_tails_keep_their_digits():
    mean = np.array([[-300.0]])
    for variance in (1e-10, 1.0, 100.0):
        a = np.array([[variance]])
        z = -300.0 / math.sqrt(1.0 + variance)
        for likelihood in (Probit(), OrderedProbit((0.0,))):
            found = likelihood.log_z(mean, a, np.array([1]))
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


@pytest.mark.parametrize(
    ("scale", "error"), [(0.5, 1e-9), (2.0, 1e-4), (3.0, 1e-3), (10.0, 2e-3), (100.0, 5e-3)]
)
@pytest.mark.parametrize("correlated", [False, True])
def test_softmax_of_two_classes(scale, error, correlated):
    """Only the difference counts, for which the logistic likelihood has a rule of its own."""
    rng = np.random.default_rng(1)
    mean = scale * rng.normal(size=(40, 2))
    covariance = np.tile(scale**2 * np.array([[1.0, 0.6], [0.6, 0.8]]), (40, 1, 1))
    if not correlated:
        covariance = np.stack([np.diag(each) for each in np.diagonal(covariance, axis1=1, axis2=2)])
    spread = np.einsum("irs,r,s->i", covariance, [1.0, -1.0], [1.0, -1.0])[:, np.newaxis]
    expected = Logistic().log_probabilities(mean[:, 1:] - mean[:, :1], spread)
    given = covariance if correlated else np.diagonal(covariance, axis1=1, axis2=2)
    found = log_probabilities(Softmax(), mean, given, 2)
    np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=error)


@pytest.mark.parametrize("likelihood", [Softmax(), MultinomialProbit()], ids=["softmax", "probit"])
@pytest.mark.parametrize(("n_classes", "scale"), [(3, 1.0), (5, 5.0)])
def test_correlated_values_by_random_points(likelihood, n_classes, scale):
    """The largest of values with noise of Gumbel, or normal noise."""
    rng = np.random.default_rng(2)
    mean = scale * rng.normal(size=(3, n_classes))
    half = scale * rng.normal(size=(3, n_classes, n_classes)) / np.sqrt(n_classes)
    covariance = half @ half.swapaxes(1, 2)
    found = log_probabilities(likelihood, mean, covariance, n_classes)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, atol=1e-12)
    draws = mean + np.einsum("irs,qis->qir", half, rng.normal(size=(100_000, 3, n_classes)))
    noise = rng.gumbel if likelihood == Softmax() else rng.normal
    best = (draws + noise(size=draws.shape)).argmax(axis=2)
    shares = np.eye(n_classes)[best].mean(axis=0)
    np.testing.assert_allclose(np.exp(found), shares, atol=8e-3)


def test_what_a_row_gets_does_not_depend_on_its_company():
    rng = np.random.default_rng(3)
    mean, covariance = rng.normal(size=(6, 3)), np.tile(np.eye(3), (6, 1, 1))
    covariance[::2] *= 100.0
    both = log_probabilities(Softmax(), mean, covariance, 3)
    each = [log_probabilities(Softmax(), mean[[i]], covariance[[i]], 3) for i in range(6)]
    np.testing.assert_allclose(both, np.concatenate(each), atol=1e-13)


PRECISE = MultinomialProbit(n_nodes=96)
DEFAULT = MultinomialProbit()


def problem(n, n_classes, shared, spread=1.5, largest=3.0):
    rng = np.random.default_rng([0, n_classes])
    mean = rng.normal(size=(n, n_classes)) * spread
    variance = rng.uniform(0.0, largest, size=(n, 1 if shared else n_classes))
    return mean, variance, rng.integers(n_classes, size=n)


def by_differences(function, mean, *of):
    """Return derivatives in the means, a column each."""
    slopes = central(lambda move: function(mean + move, *of), np.zeros(mean.shape[1]), 1e-4)
    return np.moveaxis(slopes, 0, -1)


@pytest.mark.parametrize("likelihood", [DEFAULT, PRECISE])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_gradient_and_curvature_against_finite_differences(n_classes, likelihood):
    for shared, rough in ((True, 5e-5), (False, 1e-3)):
        mean, variance, target = problem(20, n_classes, shared, largest=1.0)
        if shared:
            variance = np.zeros_like(variance)
            log_z, gradient = likelihood.gradient(mean, target)
        else:
            moments = likelihood.moments(mean, variance, target)
            log_z, gradient = moments.log_z, moments.slope
        np.testing.assert_array_equal(log_z, likelihood.log_z(mean, variance, target))
        numeric = by_differences(PRECISE.log_z, mean, variance, target)
        tolerance = 1e-6 if likelihood is PRECISE else rough
        np.testing.assert_allclose(gradient, numeric, atol=tolerance)
    numeric = -by_differences(lambda m, *of: PRECISE.gradient(m, *of)[1], mean, target)
    tolerance = 1e-7 if likelihood is PRECISE else 5e-4
    np.testing.assert_allclose(likelihood.curvature(mean, target), numeric, atol=tolerance)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_curvature_lies_between_zero_and_one(spread):
    mean, _, target = problem(CHUNK_TERMS // 12 // 7 + 50, 7, True, spread)
    curvature = DEFAULT.curvature(mean, target)
    np.testing.assert_allclose(curvature, curvature.transpose(0, 2, 1), atol=1e-15)
    np.testing.assert_allclose(curvature.sum(axis=2), 0.0, atol=1e-13)
    values = np.linalg.eigvalsh(curvature)
    assert values.min() > -1e-6
    assert values.max() < 1.0 + 1e-6


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("distance", [30.0, 1e3, 1e4])
def test_extreme_means_stay_finite(n_classes, distance):
    mean = np.zeros((4, n_classes))
    mean[0, 0], mean[1, 0], mean[2, -1], mean[3] = distance, -distance, distance, -distance
    target = np.array([0, 0, 0, 1])
    variance = np.array([[0.0], [1.0], [10.0], [0.0]])
    log_z, (_, gradient) = DEFAULT.log_z(mean, variance, target), DEFAULT.gradient(mean, target)
    slope = DEFAULT.moments(mean, variance, target).slope
    assert np.isfinite(log_z).all()
    assert np.isfinite([gradient, slope]).all()
    assert np.isfinite(DEFAULT.log_probabilities(mean, variance)).all()
    assert log_z[0] == pytest.approx(0.0, abs=1e-11)
    assert np.abs(gradient[0]).max() < 1e-90
    # with s = 10 one other class is far ahead; all that counts is the two of them
    leading = log_ndtr(-distance / math.sqrt(2.0 * 11.0))
    assert log_z[2] == pytest.approx(leading, rel=2e-3 if distance > 100 else 0.2)
    assert log_z[3] == pytest.approx(-math.log(n_classes), abs=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n_classes", "atol", "gradient_atol"), [(2, 4e-6, 2e-5), (10, 2e-4, 5e-4), (26, 1e-3, 4e-3)]
)
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_mean_gradient_of_many_rows_is_as_accurate_as_it_says(
    dtype, n_classes, atol, gradient_atol, spread
):
    rng = np.random.default_rng(7)
    target = rng.integers(n_classes, size=600)
    mean = (spread * rng.normal(size=(600, n_classes))).astype(dtype)
    mean[np.arange(600), target] += dtype(2.0 * spread)
    log_z, gradient = MultinomialProbit().mean_gradient(mean, target)
    expected, slope = MultinomialProbit(80).gradient(mean.astype(np.float64), target)
    np.testing.assert_allclose(log_z, expected, atol=atol)
    np.testing.assert_allclose(gradient, slope, atol=gradient_atol)
    some = rng.permutation(600)[:37]
    alone = MultinomialProbit().mean_gradient(mean[some], target[some])
    np.testing.assert_array_equal(alone[0], log_z[some])
    np.testing.assert_array_equal(alone[1], gradient[some])


def test_variances_that_differ_by_any_factor():
    """Nodes would grow with their ratio: the last of three classes wins half the time or never."""
    variance = np.array([[1.0, 1.0, 10.0**k] for k in (10, 16, 30)])
    p = np.exp(DEFAULT.log_probabilities(np.zeros((3, 3)), variance))
    np.testing.assert_allclose(p, np.tile([0.25, 0.25, 0.5], (3, 1)), atol=1e-4)
