"""Labels of a regression: numbers, standardised for training and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.errors import DataError
from sparsegp.types import Doubles, Labels


@dataclass(frozen=True)
class Numbers:
    """How labels y become targets (y - offset) / scale of mean zero and variance one.

    Parameters
    ----------
    offset, scale : float
        Mean and standard deviation of the training labels; a scale of one if all are the same.
    """

    offset: float
    scale: float

    @classmethod
    def of(cls, y: Labels | None, source: str) -> "Numbers":
        """Return what standardises the labels of the training rows.

        Raises
        ------
        DataError
            If they are not finite numbers.
        """
        values = as_numbers(y, source)
        return cls(float(values.mean()), float(values.std()) or 1.0)

    def encode(self, y: Labels | None, source: str) -> Doubles:
        """Return labels as targets, (n,).

        Raises
        ------
        DataError
            If they are not finite numbers.
        """
        return (as_numbers(y, source) - self.offset) / self.scale

    def decode(self, target: Doubles) -> Doubles:
        """Return targets as labels, (n,)."""
        return target * self.scale + self.offset


def as_numbers(y: Any, source: str) -> Doubles:
    """Return the labels of a regression as doubles, (n,).

    Raises
    ------
    DataError
        If there are none, or one is missing or not a number.
    """
    if y is None:
        raise DataError(f"{source} has no labels")
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf":
        raise DataError(f"a regression needs numbers as labels; {source} has {labels.dtype}")
    values = labels.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(
            f"labels must be finite: {len(bad)} of {source} are not, the first, "
            f"{values[bad[0]]}, in row {bad[0]} (rows counted from 0)"
        )
    return values
