"""Central differences, for gradients to be compared with."""

from typing import Any

import numpy as np


def central(function: Any, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Differences of a function, of any shape, by each entry of an array; these axes come first."""
    units = step * np.eye(at.size).reshape(-1, *at.shape)
    slopes = np.array([np.subtract(function(at + e), function(at - e)) / (2 * step) for e in units])
    return slopes.reshape(at.shape + slopes.shape[1:])
