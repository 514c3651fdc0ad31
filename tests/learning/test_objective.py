"""What is minimised: sites that follow the parameters, and weights of rows."""

from dataclasses import replace

import numpy as np
import pytest

from sparsegp.kernels import ARD, RBF, Linear, parse
from sparsegp.learning.objective import noise_sites, sites_in_order
from sparsegp.likelihoods import Gaussian, Probit
from tests.learning.rows import Rows, make_rows

KERNEL = 1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear()


@pytest.mark.parametrize("likelihood", [Probit(0.3), Gaussian(0.2)], ids=lambda x: x.name)
def test_sites_in_order_equal_dense_updates(likelihood):
    rows = make_rows(likelihood.numeric, d=12)
    x, target = rows.X[rows.active], rows.target[rows.active]
    K, expected = KERNEL(x, x), np.zeros((2, 12))
    for j in range(12):
        A = K @ np.linalg.inv(np.eye(12) + expected[0][:, None] * K)  # Pi has zeros so far
        h, a = A @ expected[1], np.diagonal(A)
        found = likelihood.moments(h[[j], None], a[[j], None], target[[j]])
        alpha, nu = found.slope[0, 0], found.curvature[0, 0]
        expected[:, j] = np.array([nu, h[j] * nu + alpha]) / (1.0 - a[j] * nu)
    sites = sites_in_order(KERNEL, likelihood, x, target)
    np.testing.assert_allclose(sites, expected, rtol=1e-9)
    if likelihood.numeric:
        np.testing.assert_allclose(noise_sites(likelihood, target), sites, rtol=1e-9)
        one = rows.objective([KERNEL], likelihood).recompute_sites(np.zeros(7))  # sigma^2 = 1
        np.testing.assert_array_equal(one, np.stack([np.ones(12), target]))


def test_rows_that_say_nothing_keep_no_site():
    rows = make_rows(False)
    objective = rows.objective([2.0 * RBF(1.2)], Probit())
    at = objective.start + np.array([0.0, 0.0, 150.0])  # sure of one class
    sites = objective.recompute_sites(at)
    silent = rows.target[rows.active] == 1
    assert silent.any()
    assert (~silent).any()
    np.testing.assert_array_equal(sites[:, silent], 0.0)
    assert (sites[0, ~silent] > 0.5).all()
    value, gradient = objective.evaluate(at, sites)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


SMOOTH, NOISE = parse("2*rbf(1)"), Gaussian(0.3)
"""For rows with weights."""
WEIGHT = np.random.default_rng(0).integers(1, 5, 24).astype(float)
ROWS = replace(make_rows(True, 24, p=2), counts=np.ones(24, bool), weights=WEIGHT)


def value(rows):
    problem = rows.objective([SMOOTH], NOISE)
    return problem.evaluate(problem.start, np.empty(0))


def copies(active):
    """Every row as often as it weighs, the active ones too."""
    rows = np.repeat(np.arange(24), WEIGHT.astype(int))
    among = np.flatnonzero(np.isin(rows, active))
    return Rows(ROWS.X[rows], ROWS.target[rows], among, np.ones(len(rows), bool))


@pytest.mark.parametrize("active", [np.arange(24), np.flatnonzero(WEIGHT == 1.0)], ids=len)
def test_rows_count_as_often_as_they_weigh(active):
    """Copies of a row that is not active are not active either."""
    found, exact = value(replace(ROWS, active=active)), value(copies(active))
    assert found[0] == pytest.approx(exact[0], rel=1e-10)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-8, atol=1e-8)
