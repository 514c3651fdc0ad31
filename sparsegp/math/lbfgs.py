"""Limited-memory quasi-Newton ascent of a concave function in a given metric."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sparsegp.types import Doubles

Function: TypeAlias = Callable[[Doubles], tuple[float, Doubles]]
"""Returns value and gradient."""

MEMORY = 10
SUFFICIENT = 1e-4
SHORTEST = 2.0**-20


@dataclass
class Ascent:
    """State of a maximisation; `step` makes one iteration.

    The metric B approximates minus the Hessian from above and is corrected by the steps and
    gradient changes of the latest iterations (Nocedal & Wright 2006, algorithm 7.4).
    """

    point: Doubles  # current point, of any shape
    value: float
    gradient: Doubles  # at the point
    steps: list[Doubles] = field(default_factory=list)  # the latest, at most `MEMORY`
    changes: list[Doubles] = field(default_factory=list)  # decrease of the gradient along each
    gains: list[float] = field(default_factory=list)  # increase of the value along each

    def __post_init__(self) -> None:
        shapes = [each.shape for each in (self.gradient, *self.steps, *self.changes)]
        counts = {len(each) for each in (self.steps, self.changes, self.gains)}
        if {*shapes} != {self.point.shape} or len(counts) > 1:
            raise ValueError("steps, their changes and gains must fit the point")

    @classmethod
    def at(cls, point: Doubles, function: Function) -> "Ascent":
        """Return the initial state at a point."""
        value, gradient = function(point)
        return cls(point, value, gradient)

    def step(
        self,
        function: Function,
        solve: Callable[[Doubles], Doubles],
        resolution: float = 0.0,
        project: Callable[[Doubles], Doubles] | None = None,
        longest: float = np.inf,
        shortest: float = SHORTEST,
    ) -> float:
        """Make one iteration and return its gain, observed or predicted from the gradient.

        The larger of the two is returned. Near the maximum the prediction is more precise: rounded
        values become equal long before the gradient vanishes.

        Parameters
        ----------
        function : callable
        solve : callable
            Applies B^-1.
        resolution : float
            Difference between values that may be due to rounding.
        project : callable, optional
            Maps a point to the nearest feasible one.
        longest : float
            Maximum change of any coordinate.
        shortest : float
            Minimum step length, relative to the full step or the one allowed by `longest`.

        Returns
        -------
        float
            Zero if no step increases the value.
        """
        direction = self._direction(solve)
        slope = float(np.vdot(self.gradient, direction))
        farthest, length = float(np.abs(direction).max()), 1.0
        inside = 1.0 if farthest <= longest else longest / farthest
        while length >= shortest * inside:
            point = self.point + np.clip(length * direction, -longest, longest)
            if project is not None:
                point = project(point)
            value, gradient = function(point)
            if value >= self.value + SUFFICIENT * length * slope - resolution:
                return max(self._move(point, value, gradient), 0.5 * length * slope)
            length = min(length / 2.0, inside)  # longer ones would be clipped
        return 0.0

    def _move(self, point: Doubles, value: float, gradient: Doubles) -> float:
        step, change, gain = point - self.point, self.gradient - gradient, value - self.value
        if np.vdot(step, change) > 0.0:
            self.steps = [*self.steps, step][-MEMORY:]
            self.changes = [*self.changes, change][-MEMORY:]
            self.gains = [*self.gains, gain][-MEMORY:]
        self.point, self.value, self.gradient = point, value, gradient
        return gain

    def _direction(self, solve: Callable[[Doubles], Doubles]) -> Doubles:
        residual, weights = self.gradient.copy(), []
        both = zip(self.steps, self.changes, strict=True)
        pairs = [(step, change, np.vdot(step, change)) for step, change in both]
        for step, change, curvature in reversed(pairs):
            weights.append(np.vdot(step, residual) / curvature)
            residual -= weights[-1] * change
        direction = solve(residual)
        if pairs:
            _, change, curvature = pairs[-1]
            direction *= curvature / np.vdot(change, solve(change))
        for (step, change, curvature), weight in zip(pairs, reversed(weights), strict=True):
            direction += step * (weight - np.vdot(change, direction) / curvature)
        return direction

    def rewind(self, rounds: int) -> "Ascent":
        """Return the state before the last `rounds` stored steps, at most as many as are stored."""
        kept = len(self.steps) - rounds
        return Ascent(
            self.point - sum(self.steps[kept:]),
            self.value - sum(self.gains[kept:]),
            self.gradient + sum(self.changes[kept:]),
            self.steps[:kept],
            self.changes[:kept],
            self.gains[:kept],
        )

    def minus_quadratic(self, pull: Callable[[Doubles], Doubles]) -> "Ascent":
        """Return the state that the same steps give for the function minus x^T Q x / 2.

        Parameters
        ----------
        pull : callable
            Applies the symmetric matrix Q.
        """
        whole, pulls = pull(self.point), [pull(step) for step in self.steps]
        gains, end = list(self.gains), self.point
        for i in reversed(range(len(gains))):
            gains[i] -= float(np.vdot(end - 0.5 * self.steps[i], pulls[i]))
            end = end - self.steps[i]
        return Ascent(
            self.point,
            self.value - 0.5 * float(np.vdot(self.point, whole)),
            self.gradient - whole,
            self.steps,
            [change + more for change, more in zip(self.changes, pulls, strict=True)],
            gains,
        )
