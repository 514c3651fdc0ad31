"""Relevances of the columns, from the length scales of kernels."""

from collections.abc import Sequence

import numpy as np

from sparsegp.kernels.base import Kernel
from sparsegp.types import Doubles


def relevances(kernels: Sequence[Kernel], deviations: Doubles) -> Doubles | None:
    """Return the relevances of the columns, (p,), which sum to 1.

    The relevance of a column is proportional to its standard deviation divided by its length scale.
    With several length scales the squares add up, as the variances of the slopes of latent
    functions do: weighted by the variances for several kernels and the parts of a sum, unweighted
    for the factors of a product.

    Parameters
    ----------
    kernels : sequence of Kernel
    deviations : Doubles (p,)
        Standard deviations of the columns after scaling.

    Returns
    -------
    Doubles (p,) or None
        None if no kernel has a length scale for every column, or none depends on any column.
    """
    if not any(kernel.has_ard(len(deviations)) for kernel in kernels):
        return None
    squares = np.sum([kernel.slope_variances(deviations)[1] for kernel in kernels], axis=0)
    roots = np.sqrt(squares / (squares.max() or 1.0))
    total = float(roots.sum())
    return np.asarray(roots / total) if 0.0 < total < np.inf else None
