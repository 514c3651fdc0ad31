"""Checks of kernel parameters, and rounding of their default values."""

import math
from numbers import Real
from typing import Any

import numpy as np

from sparsegp.errors import SettingsError

SMALLEST = float(np.finfo(np.float32).tiny)
"""Smallest variance of a kernel: models are stored in single precision."""


def positive(value: object, what: str) -> float:
    """Return a positive, finite parameter as a float.

    Raises
    ------
    SettingsError
        If it is not; `what` names the parameter in the message.
    """
    if not isinstance(value, float | Real) or isinstance(value, bool):  # Real alone takes longer
        raise SettingsError(f"{what} must be one number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise SettingsError(f"{what} must be positive and finite, got {number!r}")
    return number


def check_range(value: float, dtype: np.dtype[Any], kernel: object, smallest: float = 0.0) -> float:
    """Return a factor of the kernel matrix after checking that it is in range.

    Raises
    ------
    SettingsError
        If it overflows in the precision of the matrix, or is below `smallest`.
    """
    if not smallest <= abs(value) <= float(np.finfo(dtype).max):
        precision = "float32" if abs(value) < smallest else dtype
        raise SettingsError(
            f"the parameters of kernel '{kernel}' must stay within the range of {precision}, got a "
            f"factor {value:.3g}; scale the inputs or choose other parameters"
        )
    return value


def round_to_six_digits(length_scale: float) -> float:
    """Round a length scale to 6 significant digits, which keeps kernel texts short."""
    return float(f"{length_scale:.6g}")
