"""Evaluations of the criterion, kept so that a descent that was cut short need not repeat them.

A descent is deterministic: asked for the same points and given the same answers, it goes the same
way. So it is resumed by being started again, while a record answers what has been asked before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsegp.learning.optimise import Problem
from sparsegp.types import Doubles


@dataclass
class Record:
    """What was asked and answered so far, in order.

    Attributes
    ----------
    points : list of Doubles (q,)
    values : list of float
    gradients : list of Doubles (q,)
    """

    points: list[Doubles] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    gradients: list[Doubles] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)

    def answer(self, number: int, point: Doubles) -> tuple[float, Doubles] | None:
        """Return the answer of this number, if it is to the same question.

        If it is not, this and all that follow are forgotten: libraries have changed since.
        """
        if number < len(self) and np.array_equal(self.points[number], point):
            return self.values[number], self.gradients[number].copy()
        for entries in (self.points, self.values, self.gradients):
            del entries[number:]
        return None

    def add(self, point: Doubles, value: float, gradient: Doubles) -> None:
        """Remember an answer."""
        self.points.append(np.array(point))
        self.values.append(float(value))
        self.gradients.append(np.array(gradient))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays."""
        return {
            "record_points": np.array(self.points),
            "record_values": np.array(self.values),
            "record_gradients": np.array(self.gradients),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Restore what `arrays` gave, if it is there."""
        if "record_values" not in arrays:
            return None
        return cls(
            list(arrays["record_points"]),
            arrays["record_values"].tolist(),
            list(arrays["record_gradients"]),
        )


@dataclass
class Recorded:
    """A problem that is asked only what its record cannot answer.

    Parameters
    ----------
    problem : Problem
    record : Record
        It grows.
    noted : callable
        Is called after every answer that was new.
    """

    problem: Problem
    record: Record
    noted: Callable[[], None]
    asked: int = 0

    def evaluate(self, parameters: Doubles, sites: Doubles) -> tuple[float, Doubles]:
        """Return the criterion, and its gradient (q,) for fixed sites."""
        return self._answer(parameters, lambda: self.problem.evaluate(parameters, sites))

    def follow(self, parameters: Doubles) -> tuple[float, Doubles]:
        """Return the criterion with sites that follow, and its whole gradient (q,)."""
        return self._answer(parameters, lambda: self.problem.follow(parameters))

    def resite(self, parameters: Doubles) -> Doubles:
        """Return the sites that belong to the parameters: quickly found, and not recorded."""
        return self.problem.resite(parameters)

    def _answer(
        self, point: Doubles, ask: Callable[[], tuple[float, Doubles]]
    ) -> tuple[float, Doubles]:
        known = self.record.answer(self.asked, point)
        self.asked += 1
        if known is None:
            known = ask()
            self.record.add(point, *known)
            self.noted()
        return known
