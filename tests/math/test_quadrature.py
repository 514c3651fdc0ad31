"""Quadrature of products of normal probabilities, and under Gaussians, against dense sums."""

import math
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr, logsumexp
from scipy.stats import norm

from sparsegp.math.gaussian_quadrature import line_moments
from sparsegp.math.quadrature import log_sum_exp, log_win_probabilities, ordered_sum, product_terms


def log_expectation(gap, ratio):
    """log E_u[prod_j Phi(ratio_j u + gap_j)] by the trapezoid rule about its largest term."""

    def log_terms(u):
        return log_ndtr(np.outer(ratio, u) + gap[:, np.newaxis]).sum(axis=0) + norm.logpdf(u)

    coarse = np.linspace(-10.0, 10.0 + np.abs(gap / ratio).max(), 1001)
    u = coarse[log_terms(coarse).argmax()] + np.arange(-12.0, 12.0, 0.03)
    return logsumexp(log_terms(u)) + math.log(0.03)


def by_rule(gap, ratio, n_nodes=12):
    [(_, terms)] = product_terms(gap[:, np.newaxis], ratio[:, np.newaxis], n_nodes)
    return float(log_sum_exp(terms.log_terms)[0])


@pytest.mark.parametrize("n_classes", [2, 5, 10, 26, 100])
@pytest.mark.parametrize(("spread", "distance"), [(0.5, 0), (2, 0), (100, 0), (1, 10), (1, 1000)])
def test_expectation_to_the_accuracy_that_is_stated(n_classes, spread, distance):
    """Also where a probability is small."""
    rng = np.random.default_rng([n_classes, int(10 * spread)])
    for _ in range(4):
        gap = rng.normal(size=n_classes - 1) * spread - distance
        expected = log_expectation(gap, np.ones(n_classes - 1))
        tolerance = 3e-4 if n_classes == 100 else 5e-5 if expected > -10.0 else 1e-6
        found = by_rule(gap, np.ones(n_classes - 1))
        assert found == pytest.approx(expected, rel=1e-12, abs=tolerance)


@pytest.mark.parametrize(
    ("ratio", "n_nodes", "tolerance"),
    [
        (0.2, 12, 1e-5),
        (0.5, 12, 1e-5),
        (1.5, 12, 1e-4),
        (2.0, 12, 3e-3),
        (1.5, 48, 1e-10),
        (2.0, 48, 1e-6),
        (3.0, 96, 1e-5),
    ],
)
def test_a_class_of_larger_variance_needs_more_nodes(ratio, n_nodes, tolerance):
    rng = np.random.default_rng(6)
    for n_classes in (2, 3, 10):
        for _ in range(8):
            gap = rng.normal(size=n_classes - 1) * rng.choice([1.0, 3.0, 10.0])
            ratios = ratio * rng.uniform(0.8, 1.0, size=n_classes - 1)
            assert abs(by_rule(gap, ratios, n_nodes) - log_expectation(gap, ratios)) < tolerance


@pytest.mark.parametrize("axis", [0, 1])
def test_an_ordered_sum_does_not_depend_on_the_neighbours(axis):
    values = np.random.default_rng(0).normal(size=(37, 301)) * 1e3
    values = values if axis == 0 else np.ascontiguousarray(values.T)
    together = ordered_sum(values, axis=axis)
    np.testing.assert_allclose(together, values.sum(axis=axis), rtol=1e-9, atol=1e-9)
    for j in (0, 5, 150, 300):
        alone = values.take([j], axis=1 - axis)
        assert ordered_sum(alone, axis=axis).tobytes() == together[j : j + 1].tobytes()
        assert together[j] == reduce(add, alone.ravel())


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-8), (np.float32, 1e-6)])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 26])
def test_shares_of_the_largest_against_dense_sums(n_classes, dtype, atol):
    rng = np.random.default_rng(n_classes)
    deficits = rng.uniform(0.0, 1.0, (6, n_classes)) * np.array([[0.0, 0.5, 2.0, 5.0, 9.0, 13.0]]).T
    deficits -= deficits.min(axis=1, keepdims=True)
    found, ones = log_win_probabilities(deficits.astype(dtype), 0.4), np.ones(n_classes - 1)
    for row, log_p in zip(deficits.astype(dtype).astype(np.float64), found, strict=True):
        expected = [log_expectation(np.delete(row, i) - row[i], ones) for i in range(n_classes)]
        np.testing.assert_allclose(np.exp(log_p), np.exp(expected), atol=atol)
        np.testing.assert_allclose(log_p, expected, rtol=1e-5, atol=2e-6)


def test_a_bump_of_any_width_and_place_is_found():
    rng = np.random.default_rng(0)
    n = 400
    mean, centre = rng.uniform(-50.0, 50.0, size=(2, n))
    variance, width = 10.0 ** rng.uniform(-6.0, 4.0, size=(2, n))

    def log_f(u, rows):
        return -0.5 * (u - centre[rows]) ** 2 / width[rows] - 0.5 * np.log(2 * np.pi * width[rows])

    log_z, shift, spread = line_moments(log_f, mean, variance)
    total = variance + width
    exact = -0.5 * np.log(2 * np.pi * total) - 0.5 * (centre - mean) ** 2 / total
    # log f is known to 1e-16 of its largest value only
    np.testing.assert_allclose(log_z, exact, rtol=1e-11, atol=1e-9)
    exact = np.sqrt(variance) * (centre - mean) / total
    np.testing.assert_allclose(shift, exact, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(spread, width / total, rtol=1e-7)


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
