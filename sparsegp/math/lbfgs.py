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
    """State of a maximisation; `step` makes one round.

    The metric B is an approximation, from above, of minus the Hessian; the pairs of the last rounds
    correct it (Nocedal & Wright 2006, algorithm 7.4).

    Parameters
    ----------
    point : Doubles
        Where to start; any shape.
    value : float
    gradient : Doubles
        At the point.
    steps, changes : list of Doubles
        The last steps, and how much the gradient fell along each.
    gains : list of float
        How much the value rose along each.
    """

    point: Doubles
    value: float
    gradient: Doubles
    steps: list[Doubles] = field(default_factory=list)
    changes: list[Doubles] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        shapes = [each.shape for each in (self.gradient, *self.steps, *self.changes)]
        counts = {len(each) for each in (self.steps, self.changes, self.gains)}
        if {*shapes} != {self.point.shape} or len(counts) > 1:
            raise ValueError("steps, their changes and gains must fit the point")

    @classmethod
    def at(cls, point: Doubles, function: Function) -> "Ascent":
        """Start at a point."""
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
        """Make one round and return its gain, what was found or what the gradient promised.

        Near the maximum the promise is the finer measure: values are rounded, and their differences
        vanish long before the gradient does.

        Parameters
        ----------
        function : callable
        solve : callable
            Applies B^-1.
        resolution : float
            Difference of values that means nothing.
        project : callable, optional
            To the nearest point that may be tried.
        longest : float
            By which any coordinate may change.
        shortest : float
            Part of a step from which no shorter one is tried.

        Returns
        -------
        float
            Zero if no step raises the value.
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
            length = min(length / 2.0, inside)  # longer ones would end at the same point
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
        residual = self.gradient.copy()
        pairs = list(zip(self.steps, self.changes, strict=True))
        weights = []
        for step, change in reversed(pairs):
            weights.append(np.vdot(step, residual) / np.vdot(step, change))
            residual -= weights[-1] * change
        direction = solve(residual)
        if pairs:
            step, change = pairs[-1]
            direction *= np.vdot(step, change) / np.vdot(change, solve(change))
        for (step, change), weight in zip(pairs, reversed(weights), strict=True):
            direction += step * (weight - np.vdot(change, direction) / np.vdot(step, change))
        return direction

    def back(self, rounds: int) -> "Ascent":
        """Return what it was so many rounds ago, at most as many as it remembers."""
        kept = len(self.steps) - rounds
        return Ascent(
            self.point - sum(self.steps[kept:]),
            self.value - sum(self.gains[kept:]),
            self.gradient + sum(self.changes[kept:]),
            self.steps[:kept],
            self.changes[:kept],
            self.gains[:kept],
        )

    def less_quadratic(self, pull: Callable[[Doubles], Doubles]) -> "Ascent":
        """Return what it would be, after the same steps, for the function less x^T Q x / 2.

        Parameters
        ----------
        pull : callable
            Applies Q, which is symmetric.
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
