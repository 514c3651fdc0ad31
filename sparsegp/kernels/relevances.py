"""How much each column matters to latent functions with such kernels, from the length scales."""

from collections.abc import Sequence

import numpy as np

from sparsegp.kernels.base import Kernel
from sparsegp.types import Doubles


def relevances(kernels: Sequence[Kernel], deviations: Doubles) -> Doubles | None:
    """Return the relevances of the columns, (p,), which sum to 1.

    That of a column is proportional to its standard deviation divided by its length scale. Where
    there are several, the squares add up: over the kernels and the parts of a sum weighted by their
    variances, in a product as they are, as do the variances of the slopes of latent functions.

    Parameters
    ----------
    kernels : sequence of Kernel
    deviations : Doubles (p,)
        Standard deviations of the columns as the kernels see them, that is after scaling.

    Returns
    -------
    Doubles (p,) or None
        None where no kernel has a length scale for every column, or nothing depends on any.
    """
    if not any(kernel.has_scale_of_each(len(deviations)) for kernel in kernels):
        return None
    squares = np.sum([kernel.slope_variances(deviations)[1] for kernel in kernels], axis=0)
    roots = np.sqrt(squares / (squares.max() or 1.0))
    total = float(roots.sum())
    return np.asarray(roots / total) if 0.0 < total < np.inf else None
