"""Array types. In the shapes in docstrings, n are rows, p columns, K classes, d active rows."""

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

DaskArray: TypeAlias = Any
"""A Dask array; its methods have no type annotations."""

Labels: TypeAlias = NDArray[Any]
"""Labels as given by the user, integers or strings; in a regression the targets."""
