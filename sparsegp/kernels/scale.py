"""Which numbers a kernel takes as parameters, and the spread of the inputs that fills in others."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from sparsegp.errors import DataError, SettingsError
from sparsegp.types import Doubles


@dataclass(frozen=True, eq=False)
class InputScale:
    """Spread of the training inputs, from which length scales left out are filled.

    Parameters
    ----------
    variances : (p,) float64
        Variance of each column of the inputs as the kernel sees them, that is after scaling.

    Raises
    ------
    DataError
        If there is no column, or a variance is negative or not finite.
    """

    variances: Doubles

    def __post_init__(self) -> None:
        variances = np.asarray(self.variances, dtype=np.float64)
        if variances.ndim != 1 or variances.size == 0:
            raise DataError(f"column variances must have shape (p,), got {variances.shape}")
        wrong = np.flatnonzero(~(np.isfinite(variances) & (variances >= 0)))
        if wrong.size:
            column = int(wrong[0])
            raise DataError(
                f"column variances must be finite and not negative, got {variances[column]} in "
                f"column {column}"
            )
        object.__setattr__(self, "variances", variances)


def positive(value: object, what: str) -> float:
    """Return a parameter as a float.

    Raises
    ------
    SettingsError
        If it is not one number, positive and finite; `what` names it.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SettingsError(f"{what} must be one number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise SettingsError(f"{what} must be positive and finite, got {number!r}")
    return number


def within(value: float, dtype: np.dtype[Any], kernel: object) -> float:
    """Return a factor of the kernel matrix, once it is sure to be finite in its precision.

    Raises
    ------
    SettingsError
        If it overflows.
    """
    if abs(value) > float(np.finfo(dtype).max):
        raise SettingsError(
            f"the parameters of kernel '{kernel}' must stay within the range of {dtype}, got a "
            f"factor {value:.3g}; scale the inputs or choose other parameters"
        )
    return value
