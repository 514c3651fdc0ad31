"""Latent means and variances at new rows, from the active rows and their sites.

With I + C = L L^T on the active rows and w = L^-1 k(X_active, x):

    mean = w . L^-1 site          variance = k(x, x) - |w|^2          (GR section 4.5)

Rows are worked on in tiles of a fixed size, so that what a row gets does not depend on how many
others are asked about at once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.posterior.sites import ActiveRows
from sparsegp.types import Doubles, Floats

TILE = 256


@dataclass(frozen=True)
class Posterior:
    """A Gaussian posterior spanned by the active rows.

    Attributes
    ----------
    kernels : sequence of Kernel
        C of them: one for all classes, or one a class.
    x : Doubles (d, p)
        Scaled inputs of the active rows.
    factors : sequence of Doubles (d, d)
        L of each kernel.
    weights : sequence of Doubles (d, R)
        (I + C)^-1 site of each kernel, for the classes it serves.
    """

    kernels: Sequence[Kernel]
    x: Doubles
    factors: Sequence[Doubles]
    weights: Sequence[Doubles]

    @classmethod
    def from_sites(cls, active: ActiveRows, site: Doubles) -> "Posterior":
        """Return the posterior of Gaussian process regression on site means (d, K)."""
        x = np.asarray(active.x, dtype=np.float64)
        factors, weights = [], []
        for kernel, columns in zip(active.kernels, active.columns(), strict=True):
            covariance = np.asarray(kernel(x, x), dtype=np.float64)
            covariance[np.diag_indices_from(covariance)] += 1.0
            factor = lower_cholesky(covariance, "the covariance of the active rows")
            half = solve_lower(factor, site[:, columns])
            factors.append(factor)
            weights.append(solve_lower(factor, half, transposed=True))
        return cls(active.kernels, x, factors, weights)

    def latent(
        self,
        X: Floats,
        transform: Callable[[Floats], Floats] | None = None,
        executor: Executor | None = None,
    ) -> tuple[Doubles, Doubles]:
        """Return latent means (n, K) and variances (n, C) at rows X (n, p).

        Parameters
        ----------
        X : Floats (n, p)
        transform : callable, optional
            Scaling, applied to one tile at a time.
        executor : Executor, optional
            Where tiles are worked on side by side.
        """
        n_classes = sum(weight.shape[1] for weight in self.weights)
        mean, variance = np.empty((len(X), n_classes)), np.empty((len(X), len(self.kernels)))

        def work(start: int) -> None:
            rows = slice(start, min(start + TILE, len(X)))
            tile = np.zeros((TILE, self.x.shape[1]))
            tile[: rows.stop - start] = X[rows] if transform is None else transform(X[rows])
            tile_mean, tile_variance = self._tile(tile)
            mean[rows] = tile_mean[: rows.stop - start]
            variance[rows] = tile_variance[: rows.stop - start]

        starts = range(0, len(X), TILE)
        for _ in map(work, starts) if executor is None else executor.map(work, starts):
            pass
        return mean, variance

    def _tile(self, X: Doubles) -> tuple[Doubles, Doubles]:
        means, variances = [], []
        for kernel, factor, weight in zip(self.kernels, self.factors, self.weights, strict=True):
            cross = np.asarray(kernel(self.x, X), dtype=np.float64)  # (d, tile)
            means.append(cross.T @ weight)
            w = solve_lower(factor, cross)
            variances.append(kernel.diag(X) - np.square(w).sum(axis=0))
        return np.concatenate(means, axis=1), np.stack(variances, axis=1)
