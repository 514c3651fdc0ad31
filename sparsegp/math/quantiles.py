"""Quantiles of numbers too many to be kept."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from sparsegp.errors import DataError
from sparsegp.types import Doubles

MOST_KNOTS = 500
"""Numbers of which quantiles consist."""


@dataclass(frozen=True)
class Quantiles:
    """Some order statistics of n numbers.

    Attributes
    ----------
    knots : Doubles (m,)
        Those of the ranks ceil(n j / m) for j = 1 to m: all of them if they are few.
    n : int
    """

    knots: Doubles
    n: int

    def __post_init__(self) -> None:
        counted = self.knots.ndim == 1 and 1 <= len(self.knots) <= self.n
        if not counted or np.any(np.diff(self.knots) < 0):
            raise DataError("quantiles must be rising numbers, and no more than they are of")

    @classmethod
    def of(cls, values: Doubles) -> Self:
        """Return those of numbers (n,)."""
        n, m = len(values), min(len(values), MOST_KNOTS)
        ranks = -(-n * np.arange(1, m + 1) // m)
        return cls(np.sort(values)[ranks - 1], n)

    def at(self, rank: int) -> float:
        """Return the number of a rank from 1 to n, or the next larger one that is kept."""
        return float(self.knots[(rank - 1) * len(self.knots) // self.n])

    def below(self, values: Doubles) -> Doubles:
        """Return for each value the share of the numbers that are smaller."""
        return np.searchsorted(self.knots, values) / len(self.knots)
