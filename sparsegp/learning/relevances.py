"""Length scales for every column, from the gradients of the latent means.

Where latent functions change fast along a column, it matters. With the latent means f_c of a model,

    g_j = mean over rows and classes of (l_j df_c / dx_j)^2

is the diagonal of the average gradient outer product, which recursive feature machines feed back
into the kernel (Radhakrishnan, Beaglehole, Pandit & Belkin 2024, Science 383); f_c are centred over
the classes. Columns are stretched by the square root of g_j, shrunk towards the mean, and a model
is fitted anew. Only rows that the model was fitted to take part, so that others may judge.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sparsegp.kernels import ARD, RBF, ByColumn, Kernel, Product, Sum, parse, six_digits
from sparsegp.types import Doubles, Floats

SHRINKAGE = 0.1
"""Share of the mean in every relevance: no column is lost for good."""
ROWS = 128
"""Worked on at a time, so that temporaries stay in cache."""

Part = tuple[Kernel, Doubles, Doubles]
"""Latent means f_c(x) = sum_i w_ic k(x, u_i): kernel, active rows (d, p) and weights (d, R)."""


def mean_squared_slopes(kernel: Kernel, X: Floats, U: Doubles, weights: Doubles) -> Doubles:
    """Return the mean over rows and classes of (df_c / dx_j)^2, (p,), f_c centred over classes.

    Parameters
    ----------
    kernel : Kernel
    X : Floats (n, p)
        Rows where the slopes are taken.
    U : Doubles (d, p)
        Active rows.
    weights : Doubles (d, R)
        Of the latent means f_c(x) = sum_i w_ic k(x, u_i).
    """
    total = np.zeros(X.shape[1])
    for slopes in centred_slopes([(kernel, U, weights)], X):
        total += np.square(slopes).sum(axis=0)
    return np.asarray(total / (len(X) * weights.shape[1]))


def centred_slopes(parts: Sequence[Part], X: Floats) -> Iterator[Doubles]:
    """Yield the slopes of latent means at some rows of X (n, p) after the other, (R * rows, p).

    With several latent values, in all parts together, their mean is taken from each.
    """
    for start in range(0, len(X), ROWS):
        rows = X[start : start + ROWS]
        slopes = np.concatenate([kernel.slopes(rows, U, w) for kernel, U, w in parts])
        if len(slopes) > 1:
            slopes -= slopes.mean(axis=0)
        yield slopes.reshape(-1, X.shape[1])


def with_relevances(kernel: Kernel, squared_slopes: Doubles, variances: Doubles) -> Kernel:
    """Return the kernel with length scales by column, shorter where slopes are steep.

    Every ``rbf`` becomes an ``ard``, every ``laplace`` and ``additive`` has a length scale for each
    column; the variance of all columns together, in units of the length scales, stays as it is. A
    ``power`` is left alone: its slopes have no bound where they matter.

    Parameters
    ----------
    kernel : Kernel
    squared_slopes, variances : Doubles (p,)
        See `mean_squared_slopes`; and those of the columns.
    """
    if isinstance(kernel, (Sum, Product)):
        parts = (with_relevances(part, squared_slopes, variances) for part in kernel.parts)
        return type(kernel)(tuple(parts))
    if isinstance(kernel, RBF):
        kernel = ARD((kernel.length_scale or 1.0,) * len(variances))
    if not (isinstance(kernel, ByColumn) and kernel.takes_relevances):
        return kernel
    scales = np.broadcast_to(np.asarray(kernel.length_scales, np.float64), variances.shape)
    relevance = squared_slopes * scales**2
    shrunk = (1.0 - SHRINKAGE) * relevance + SHRINKAGE * relevance.mean()
    if not shrunk.all():  # a flat function
        return kernel
    new = scales / np.sqrt(shrunk)
    new *= np.sqrt((variances / new**2).sum() / (variances / scales**2).sum() or 1.0)
    return kernel.with_length_scales(float(f"{value:.4g}") for value in new)


def averaged(kernels: Sequence[Kernel]) -> Kernel:
    """Return a kernel of the same form with geometric means of the parameters, in six digits."""
    if len(set(kernels)) == 1:
        return kernels[0]
    logs = np.mean([each.parameters() for each in kernels], axis=0)
    return parse(six_digits(str(kernels[0].with_parameters(logs))))
