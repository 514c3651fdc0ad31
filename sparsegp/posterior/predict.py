"""Latent means and variances at new rows.

With Pi^(-1) + C = L L^T on the active rows and k = k(X_active, x) the mean is k . L^-T c, and

    variance = s k(x, x) - |W k|^2

with a lower triangle W and the prior variance factor s. For posteriors from sites W = L^-1 and
s = 1 (GR section 4.5). For the all-data posterior (posterior/all_data.py) W is a root of the
reduction of the variance by the data,

    W^T W = s C^-1 - (L B L^T)^-1

computed once with the posterior, so that predictions need matrix products only. The working
precision is enough for W, as calibration leaves little of this variance.

Rows are processed in tiles of a fixed size, so that the prediction for a row does not depend on the
number of rows in a call.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.kernels import Kernel, half_squared_norms
from sparsegp.math import linalg
from sparsegp.math.products import TILE
from sparsegp.math.subnormals import drop_tiny, rounded
from sparsegp.posterior.base import COVARIANCE, ActiveRows, PosteriorWeights, lower_covariance
from sparsegp.types import Doubles, Floats

MARGIN = 8
"""Zero columns padded on either side of a tile, as OpenBLAS may round outer columns differently."""
JITTERS = tuple(10.0**k for k in range(-8, -2))
"""Values added to the diagonal of C before inversion, relative to its mean; the smallest that works
is used. Variances change as little, and W stays accurate even if rows are nearly equal."""


def reduction(
    kernel: Kernel,
    active: tuple[Doubles, Doubles],
    L: Doubles,
    metric: Callable[[float], Doubles],
    scale: float,
) -> tuple[Doubles, float]:
    """Return W (d, d) of the all-data posterior, and the element of `JITTERS` that was used.

    Parameters
    ----------
    kernel : Kernel
    active : tuple of Doubles (d, p) and (d,)
        Scaled inputs of the active rows, and their site precisions.
    L : Doubles (d, d)
        Lower factor of Pi^(-1) + C.
    metric : callable
        Maps the minimum to add to the diagonal of B to the lower factor of the sum, (d, d).
    scale : float
        Prior variance factor s.

    Raises
    ------
    NumericalError
        If the largest jitter is not enough.
    """
    x, precision = active
    slack = 2.0 * float(precision.max()) / scale  # with less on B, the data could add variance

    def root(jitter: float) -> Doubles:
        C = lower_covariance(kernel, x)
        added, every = jitter * float(C.diagonal().mean()), np.diag_indices_from(C)
        C[every] += added
        prior = linalg.lower_cholesky(C, COVARIANCE, in_place=True)
        taken = linalg.triangle_of_inverse(prior, in_place=True)
        taken *= scale
        both = linalg.product_of_triangles(L, metric(slack * added))
        taken -= linalg.triangle_of_inverse(both, in_place=True)
        del both  # large, like the others
        return linalg.reverse_cholesky(taken, "what the data take off the prior variance")

    for jitter in JITTERS[:-1]:
        with suppress(NumericalError):
            return root(jitter), jitter
    return root(JITTERS[-1]), JITTERS[-1]


class Posterior:
    """A Gaussian posterior over the span of the active rows, ready to predict.

    For each kernel, `x` holds the scaled inputs of its active rows, `weights` L^-T c (d_c, R) and
    `reduction` W (d_c, d_c).
    """

    def __init__(self, active: ActiveRows, weights: PosteriorWeights) -> None:
        self.kernels, self.prior_scale = active.kernels, weights.calibration.prior_scale
        self.x = [np.asarray(active.x[members], np.float64) for members in active.members()]
        self.half_norms = [half_squared_norms(own) for own in self.x]
        whitened = weights.whitened
        triangles: Sequence[Floats] | None = weights.reduction
        if triangles is not None and not active.likelihood.numeric:
            triangles = [rounded(each, active.x.dtype) for each in triangles]
        if whitened is None or triangles is None:
            factors = active.factors()
            pairs = zip(factors, weights.coefficients, strict=True)
            whitened = [linalg.solve_lower(factor, c, transposed=True) for factor, c in pairs]
            if triangles is None:  # in float64, for small differences of large variances
                triangles = [linalg.inverse_lower(factor) for factor in factors]
        self.weights, self.reduction = whitened, triangles

    def latent(
        self,
        X: Floats,
        transform: Callable[[Floats], Floats] | None = None,
        executor: Executor | None = None,
    ) -> tuple[Doubles, Doubles]:
        """Return latent means (n, R) and variances (n, C) at rows X (n, p).

        Parameters
        ----------
        X : Floats (n, p)
        transform : callable, optional
            Scaling, applied to one tile at a time.
        executor : Executor, optional
            Processes tiles in parallel.
        """
        n_classes = sum(weight.shape[1] for weight in self.weights)
        mean, variance = np.empty((len(X), n_classes)), np.empty((len(X), len(self.kernels)))

        def work(start: int) -> None:
            rows = slice(start, min(start + TILE, len(X)))
            tile = np.zeros((TILE, self.x[0].shape[1]))
            tile[: rows.stop - start] = X[rows] if transform is None else transform(X[rows])
            tile_mean, tile_variance = self._tile(tile)
            mean[rows] = tile_mean[: rows.stop - start]
            variance[rows] = tile_variance[: rows.stop - start]

        starts = range(0, len(X), TILE)
        for _ in map(work, starts) if executor is None else executor.map(work, starts):
            pass
        return mean, variance

    def _tile(self, X: Doubles) -> tuple[Doubles, Doubles]:
        parts = zip(self.kernels, self.x, self.half_norms, self.weights, strict=True)
        means, variances = [], []
        for (kernel, x, half_norms, weight), W in zip(parts, self.reduction, strict=True):
            cross = np.asarray(kernel(x, X, half_norms))  # (d, tile)
            means.append(cross.T @ weight)
            prior = kernel.diag(X)
            root = np.sqrt(np.where(prior > 0.0, prior, 1.0))  # cross / root fits into float32
            taken = squared_length(W, cross / root)
            left = self.prior_scale * prior - root**2 * taken
            variances.append(np.maximum(left, 0.0))  # negative by rounding only
        return np.concatenate(means, axis=1), np.stack(variances, axis=1)


def squared_length(W: Floats, k: Doubles) -> Doubles:
    """Return |W k|^2 (n,) for a lower triangle W (d, d) and k (d, n), skipping most zeros.

    The result for a column does not depend on its position.
    """
    columns = slice(MARGIN, MARGIN + k.shape[1])
    total = np.zeros(k.shape[1] + 2 * MARGIN)
    inner = np.zeros((len(W), len(total)), W.dtype)
    inner[:, columns] = k
    drop_tiny(inner)
    for start in range(0, len(W), TILE):
        stop = start + TILE
        w = W[start:stop, :stop] @ inner[:stop]
        total += np.square(w, out=w).sum(axis=0, dtype=np.float64)
    return total[columns]
