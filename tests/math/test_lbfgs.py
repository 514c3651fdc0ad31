"""Quasi-Newton ascent on functions whose maximum is known."""

import numpy as np
from numpy.testing import assert_allclose

from sparsegp.math.lbfgs import Ascent


def quadratic(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(12, 12))
    return root @ root.T + 0.1 * np.eye(12), rng.normal(size=12)


def test_one_step_in_the_exact_metric_reaches_the_maximum():
    matrix, right = quadratic(0)

    def function(x):
        return float(right @ x - 0.5 * x @ matrix @ x), right - matrix @ x

    ascent = Ascent.at(np.zeros(12), function)
    ascent.step(function, lambda g: np.linalg.solve(matrix, g))
    assert_allclose(ascent.point, np.linalg.solve(matrix, right), rtol=1e-8)


def test_climbs_a_concave_function_in_any_metric():
    matrix, right = quadratic(1)
    metric = np.diag(matrix.diagonal() + 1.0)

    def function(x):
        soft = np.logaddexp(0.0, x)
        value = right @ x - 0.5 * x @ matrix @ x - soft.sum()
        return float(value), right - matrix @ x - np.exp(x - soft)

    ascent = Ascent.at(np.zeros(12), function)
    values = [ascent.value]
    for _ in range(200):
        gain = ascent.step(function, lambda g: np.linalg.solve(metric, g))
        assert gain >= ascent.value - values[-1]
        values.append(ascent.value)
    assert np.all(np.diff(values) >= 0.0)
    assert gain < 1e-12
    assert np.abs(function(ascent.point)[1]).max() < 1e-6


def test_a_step_that_ends_at_the_bounds_is_halved_from_there():
    tried = []

    def function(x):
        tried.append(x)
        return -float(x @ x), np.array([10.0, 1.0])  # a slope that misleads

    ascent = Ascent.at(np.zeros(2), function)
    assert ascent.step(function, lambda g: 100.0 * g, longest=0.5, shortest=0.25) == 0.0
    assert_allclose(tried, [[0, 0], [0.5, 0.5], [0.5, 0.05], [0.25, 0.025], [0.125, 0.0125]])
