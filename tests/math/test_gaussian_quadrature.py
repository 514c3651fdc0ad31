"""Expectations under Gaussians against closed forms."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

from sparsegp.math.gaussian_quadrature import line_moments, product_moments


def moments_of_a_bump(mean, variance, centre, width):
    """E[N(u | centre, width)], and mean and variance of (u - mean) / variance^(1/2)."""
    total = variance + width
    log_z = -0.5 * np.log(2 * np.pi * total) - 0.5 * (centre - mean) ** 2 / total
    return log_z, np.sqrt(variance) * (centre - mean) / total, width / total


def test_a_bump_of_any_width_and_place_is_found():
    rng = np.random.default_rng(0)
    n = 400
    mean, centre = rng.uniform(-50.0, 50.0, size=(2, n))
    variance, width = 10.0 ** rng.uniform(-6.0, 4.0, size=(2, n))

    def log_f(u, rows):
        return -0.5 * (u - centre[rows]) ** 2 / width[rows] - 0.5 * np.log(2 * np.pi * width[rows])

    log_z, shift, spread = line_moments(log_f, mean, variance)
    exact = moments_of_a_bump(mean, variance, centre, width)
    # log f is known to 1e-16 of its largest value only
    np.testing.assert_allclose(log_z, exact[0], rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(shift, exact[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(spread, exact[2], rtol=1e-7)


@pytest.mark.parametrize("power", [1.0, 30.0])
def test_a_tilted_density_with_one_steep_side(power):
    """E[exp(p u - c exp(u))] with p, c: for a flat Gaussian a Gamma integral."""
    variance, c = np.array([1e8]), 3.0

    def log_f(u, rows):
        with np.errstate(over="ignore"):
            return power * u - c * np.exp(u)

    log_z, _, _ = line_moments(log_f, np.zeros(1), variance)
    flat = gammaln(power) - power * math.log(c) - 0.5 * math.log(2 * math.pi * 1e8)
    np.testing.assert_allclose(log_z, flat, atol=1e-6)


def test_product_moments_of_an_exponential():
    """exp(c u) shifts the mean by c a and leaves the variance."""
    mean = np.array([[0.3, -0.2], [1.0, 2.0]])
    variance = np.array([[0.5, 1.5], [1e-6, 0.1]])
    c = np.array([1.0, -0.5])
    log_z, shift, spread = product_moments(lambda u, _: (c * u).sum(axis=-1), mean, variance)
    np.testing.assert_allclose(log_z, (c * mean + 0.5 * c * c * variance).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(shift, c * np.sqrt(variance), rtol=1e-10)
    np.testing.assert_allclose(spread, 1.0, rtol=1e-10)
