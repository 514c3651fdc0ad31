"""The evidence of weighted rows under Gaussian noise: its value, and its gradient."""

import numpy as np
import pytest

from sparsegp.ivm.evidence_rows import row_sums
from sparsegp.kernels import parse
from sparsegp.learning.evidence import Members
from sparsegp.learning.objective import Objective
from sparsegp.learning.sites import noise_sites
from sparsegp.likelihoods import Gaussian

RNG = np.random.default_rng(0)
X, Y, WEIGHT = RNG.normal(size=(24, 2)), RNG.normal(size=24), RNG.integers(1, 5, 24).astype(float)
KERNEL, LIKELIHOOD = parse("2*rbf(1)"), Gaussian(0.3)


def objective(active, weights=WEIGHT, x=X, y=Y):
    """The criterion with some rows active and the others not."""
    counts = np.ones(len(x), dtype=bool)
    counts[active] = False
    own = None if weights is None else weights[active]

    def sum_rows(processes, likelihood):
        return [row_sums(x, y, counts, 1024, processes, likelihood, 1, weights)]

    members = Members(x[active], y[active], [np.arange(len(active))], own)
    return Objective([KERNEL], LIKELIHOOD, members, sum_rows)


def value(problem, parameters=None):
    return problem.evaluate(problem.start if parameters is None else parameters, np.empty(0))


def test_with_all_rows_active_it_is_that_of_copies():
    rows = np.repeat(np.arange(24), WEIGHT.astype(int))
    K = KERNEL(X[rows], X[rows]) + 0.3 * np.eye(len(rows))
    sign, log_determinant = np.linalg.slogdet(2.0 * np.pi * K)
    exact = 0.5 * (log_determinant + Y[rows] @ np.linalg.solve(K, Y[rows]))
    found, gradient = value(objective(np.arange(24)))
    assert sign > 0
    assert found == pytest.approx(exact, rel=1e-10)
    copies = objective(np.arange(len(rows)), None, X[rows], Y[rows])
    np.testing.assert_allclose(gradient, value(copies)[1], rtol=1e-6, atol=1e-8)


def test_other_rows_count_as_often_as_they_weigh():
    """Copies of a row that is not active are not active either."""
    active, others = np.arange(8), np.repeat(np.arange(8, 24), WEIGHT[8:].astype(int))
    weights = np.where(np.arange(24) < 8, 1.0, WEIGHT)
    rows = np.concatenate([active, others])
    found = value(objective(active, weights))
    exact = value(objective(active, None, X[rows], Y[rows]))
    assert found[0] == pytest.approx(exact[0], rel=1e-10)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-8)


def test_gradient():
    problem = objective(np.arange(10))
    start, gradient = problem.start, value(problem)[1]
    for column, unit in zip(gradient, np.eye(len(start)), strict=True):
        up, down = (value(problem, start + step * unit)[0] for step in (1e-5, -1e-5))
        assert column == pytest.approx((up - down) / 2e-5, rel=1e-5)


def test_sites():
    sites, slopes = noise_sites(LIKELIHOOD, Y, WEIGHT)
    np.testing.assert_allclose(sites, [WEIGHT / 0.3, WEIGHT * Y / 0.3])
    np.testing.assert_array_equal(slopes, -sites)
