"""Inner strategies on a quadratic whose answers are known, and on the evidence itself."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from sparsegp.errors import NumericalError, SettingsError
from sparsegp.learning.optimise import STRATEGIES, descend

every_strategy = pytest.mark.parametrize("strategy", list(STRATEGIES))


@dataclass
class Quadratic:
    """(t - m - C s)^T A (t - m - C s) / 2 + |s - B t|^2 / 2, where sites belong at B t."""

    coupling: float = 0.4
    evaluated: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self):
        rng = np.random.default_rng(3)
        self.A = np.diag([1.0, 10.0, 100.0]) + 0.3
        self.m = np.array([0.5, -1.0, 0.3])
        self.C = self.coupling * rng.normal(size=(3, 2))
        self.B = rng.normal(size=(2, 3)) * (self.coupling > 0.0)  # no coupling either way

    def evaluate(self, parameters, sites):
        self.evaluated.append(parameters.copy())
        residual = parameters - self.m - self.C @ sites
        gap = sites - self.B @ parameters
        value = 0.5 * residual @ self.A @ residual + 0.5 * gap @ gap
        return float(value), self.A @ residual - self.B.T @ gap

    def recompute_sites(self, parameters):
        return self.B @ parameters


START, SITES = np.array([1.0, 1.0, 1.0]), np.array([0.2, -0.1])


def test_constant_finds_the_minimum_for_the_sites_given():
    problem = Quadratic()
    path = descend(problem, START, SITES, "constant", steps=100)
    left = problem.A + problem.B.T @ problem.B
    right = problem.A @ (problem.m + problem.C @ SITES) + problem.B.T @ SITES
    np.testing.assert_allclose(path.parameters, np.linalg.solve(left, right), atol=1e-4)
    np.testing.assert_array_equal(path.sites, SITES)
    assert (np.diff(path.values) <= 0).all()


@pytest.mark.parametrize("strategy", ["hybrid", "exact"])
def test_sites_follow_to_where_they_agree_with_the_parameters(strategy):
    problem = Quadratic()
    path = descend(problem, START, SITES, strategy, steps=200)
    np.testing.assert_array_equal(path.sites, problem.recompute_sites(path.parameters))
    if strategy == "hybrid":
        # no slope at the sites that belong to the parameters: A (t - m - C B t) = 0
        expected = np.linalg.solve(np.eye(3) - problem.C @ problem.B, problem.m)
        np.testing.assert_allclose(path.parameters, expected, atol=1e-4)
    else:
        assert (np.diff(path.values) <= 0).all()
        assert path.values[-1] < 0.05 * path.values[0]
        for point, value in zip(path.points, path.values, strict=True):
            right = problem.evaluate(point, problem.recompute_sites(point))[0]
            assert value == pytest.approx(right, rel=1e-12, abs=1e-15)


@every_strategy
def test_steps_and_evaluations_are_counted(strategy):
    problem = Quadratic()
    path = descend(problem, START, SITES, strategy, steps=3)
    assert len(path.points) == len(path.values) == 4
    np.testing.assert_array_equal(path.points[0], START)
    assert path.evaluations == len(problem.evaluated)


@every_strategy
@pytest.mark.parametrize("free", [(0, 1, 2), (1,)])
def test_within_bounds_the_least_is_found(strategy, free):
    problem = Quadratic(coupling=0.0)
    low, high = START - 0.3, START + 0.2
    low[list(free)] = -5.0
    high[1] = START[1]  # it starts there
    path = descend(problem, START, np.zeros(2), strategy, steps=200, bounds=(low, high))
    root = np.linalg.cholesky(problem.A).T
    expected = lsq_linear(root, root @ problem.m, (low, high), tol=1e-12).x
    np.testing.assert_allclose(path.parameters, expected, atol=1e-4)
    points = np.array(problem.evaluated)
    assert (points >= low).all()
    assert (points <= high).all()


@every_strategy
def test_a_start_without_slope_is_the_end(strategy):
    problem = Quadratic(coupling=0.0)
    path = descend(problem, problem.m, np.zeros(2), strategy)
    assert set(map(tuple, path.points)) == {tuple(problem.m)}
    assert path.values[-1] == 0.0


def test_errors():
    with pytest.raises(SettingsError, match="'fast'; known: constant, exact"):
        descend(Quadratic(), START, SITES, "fast")
    with pytest.raises(NumericalError, match=r"must be finite, got nan .* start elsewhere"):
        descend(Quadratic(), np.full(3, np.nan), SITES)
