"""Array types. Shapes are given in docstrings: n rows, p features, K classes, d active rows."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
"""Real numbers in the working precision (float32 or float64)."""

Doubles: TypeAlias = NDArray[np.float64]
"""Small factors and sums over rows."""

Integers: TypeAlias = NDArray[np.int64]
"""Row numbers and class codes."""

Booleans: TypeAlias = NDArray[np.bool_]

Labels: TypeAlias = NDArray[Any]
"""Class labels as the user gave them: integers or strings."""
