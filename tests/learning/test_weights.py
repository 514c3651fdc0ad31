"""The evidence of weighted rows under Gaussian noise: its value, and its gradient."""

from dataclasses import replace

import numpy as np
import pytest

from sparsegp.kernels import parse
from sparsegp.learning.sites import noise_sites
from sparsegp.likelihoods import Gaussian
from tests.learning.rows import central, make_rows

KERNEL, LIKELIHOOD = parse("2*rbf(1)"), Gaussian(0.3)
WEIGHT = np.random.default_rng(0).integers(1, 5, 24).astype(float)
ROWS = replace(make_rows(True, 24, p=2), counts=np.ones(24, bool), weights=WEIGHT)


def value(rows, change=0.0):
    problem = rows.objective(KERNEL, LIKELIHOOD)
    return problem.evaluate(problem.start + change, np.empty(0))


def copies(active):
    """Every row as often as it weighs, the active ones too."""
    rows = np.repeat(np.arange(24), WEIGHT.astype(int))
    among = np.flatnonzero(np.isin(rows, active))
    return replace(
        ROWS,
        X=ROWS.X[rows],
        target=ROWS.target[rows],
        active=among,
        counts=np.ones(len(rows), bool),
        weights=None,
    )


def test_with_all_rows_active_it_is_that_of_copies():
    found, gradient = value(replace(ROWS, active=np.arange(24)))
    repeated = copies(np.arange(24))
    y, K = repeated.target, KERNEL(repeated.X, repeated.X) + 0.3 * np.eye(int(WEIGHT.sum()))
    _, log_determinant = np.linalg.slogdet(2.0 * np.pi * K)
    exact = 0.5 * (log_determinant + y @ np.linalg.solve(K, y))
    assert found == pytest.approx(exact, rel=1e-10)
    np.testing.assert_allclose(gradient, value(repeated)[1], rtol=1e-6, atol=1e-8)


def test_other_rows_count_as_often_as_they_weigh():
    """Copies of a row that is not active are not active either."""
    some = np.flatnonzero(WEIGHT == 1.0)
    found, exact = value(replace(ROWS, active=some)), value(copies(some))
    assert found[0] == pytest.approx(exact[0], rel=1e-10)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-8)


def test_gradient():
    expected = central(lambda t: value(ROWS, t)[0], np.zeros(3))
    np.testing.assert_allclose(value(ROWS)[1], expected, rtol=1e-5)


def test_sites():
    sites, slopes = noise_sites(LIKELIHOOD, ROWS.target, WEIGHT)
    np.testing.assert_allclose(sites, [WEIGHT / 0.3, WEIGHT * ROWS.target / 0.3])
    np.testing.assert_array_equal(slopes, -sites)
