"""Quantiles of a large set of numbers, stored instead of the numbers."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from sparsegp.errors import DataError
from sparsegp.types import Doubles

MAX_KNOTS = 500
"""Maximum number of order statistics stored."""


@dataclass(frozen=True)
class Quantiles:
    """Some order statistics of n numbers."""

    knots: Doubles  # numbers at ranks ceil(n j / m) for j = 1 to m; all numbers if n is small
    n: int  # with weights the effective number (sum w)^2 / sum w^2

    def __post_init__(self) -> None:
        counted = self.knots.shape == (min(self.n, MAX_KNOTS),) and self.n > 0
        if not counted or np.any(np.diff(self.knots) < 0):
            raise DataError("quantiles must be rising numbers, as many as they are of or the most")

    @classmethod
    def of(cls, values: Doubles, weights: Doubles | float = 1.0) -> Self:
        """Return the quantiles of numbers (n,), optionally with weights (n,)."""
        order, w = np.argsort(values, kind="stable"), np.broadcast_to(weights, values.shape)
        reached = np.cumsum(w[order])
        n = max(int(reached[-1] ** 2 / np.square(w).sum() + 1e-9), 1)
        m = min(n, MAX_KNOTS)
        shares = np.arange(1, m + 1) / m * (1.0 - 1e-12)
        return cls(values[order[np.searchsorted(reached, reached[-1] * shares)]], n)

    def at(self, rank: int) -> float:
        """Return the number at a rank from 1 to n, or the next larger one that is stored."""
        return float(self.knots[(rank - 1) * len(self.knots) // self.n])

    def below(self, values: Doubles) -> Doubles:
        """Return the fraction of the numbers below each value."""
        return np.searchsorted(self.knots, values) / len(self.knots)
