"""What kernels are told of the inputs to fill in length scales that were left out."""

from dataclasses import dataclass

import numpy as np

from sparsegp.errors import DataError
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
