"""The multinomial probit against scipy's quadrature, orthant probabilities and closed forms."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.math.quadrature import CHUNK_TERMS
from tests.differences import central

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
