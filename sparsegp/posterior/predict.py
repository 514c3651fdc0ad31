"""Latent means and variances at new rows, from the active rows and their sites.

With I + C = L L^T on the active rows and w = L^-1 k(X_active, x) the mean is w . c, and

    variance = k(x, x) - |w|^2                              of Gaussian sites (GR section 4.5)
    variance = s (k(x, x) - |L_u^-1 k|^2) + |L_B^-1 w|^2    of all data (posterior/all_data.py)

where C = L_u L_u^T and s is the prior scale.

Rows are worked on in tiles of a fixed size, so that the prediction for a row does not depend on the
number of rows in a call.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.math.linalg import jittered_cholesky, solve_lower
from sparsegp.math.products import TILE
from sparsegp.posterior.base import ActiveRows, PosteriorWeights
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Posterior:
    """A Gaussian posterior over the span of the active rows, ready to predict.

    Attributes
    ----------
    kernels : sequence of Kernel
        C of them: one for all classes, or one a class.
    x : sequence of Doubles (d_c, p)
        Scaled inputs of the active rows of each kernel.
    factors : sequence of Doubles (d_c, d_c)
        L of each kernel.
    weights : sequence of Doubles (d_c, R)
        L^-T c of each kernel, for the classes it serves.
    gain : sequence of Doubles (d, d), optional
        L_B of each kernel.
    prior : sequence of Doubles (d, d), optional
        L_u of each kernel.
    jitter : float
        What was added to the diagonals of C, relative to their means, to factor them.
    prior_scale : float
        s.
    """

    kernels: Sequence[Kernel]
    x: Sequence[Doubles]
    factors: Sequence[Doubles]
    weights: Sequence[Doubles]
    gain: Sequence[Doubles] | None = None
    prior: Sequence[Doubles] | None = None
    jitter: float = 0.0
    prior_scale: float = 1.0

    @classmethod
    def from_weights(cls, active: ActiveRows, weights: PosteriorWeights) -> "Posterior":
        """Prepare a posterior for predictions."""
        x = [np.asarray(active.x[members], dtype=np.float64) for members in active.members()]
        factors = active.factors()
        pairs = zip(factors, weights.coefficients, strict=True)
        whitened = [solve_lower(factor, c, transposed=True) for factor, c in pairs]
        if weights.gain is None:
            return cls(active.kernels, x, factors, whitened)
        prior, jitter = zip(
            *(
                jittered_cholesky(np.asarray(kernel(own, own)), "the covariance of the active rows")
                for kernel, own in zip(active.kernels, x, strict=True)
            ),
            strict=True,
        )
        scale = weights.calibration.prior_scale
        return cls(active.kernels, x, factors, whitened, weights.gain, prior, max(jitter), scale)

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
            Where tiles are worked on side by side.
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
        means, variances = [], []
        for c, (kernel, factor, weight) in enumerate(
            zip(self.kernels, self.factors, self.weights, strict=True)
        ):
            cross = np.asarray(kernel(self.x[c], X), dtype=np.float64)  # (d, tile)
            means.append(cross.T @ weight)
            w = solve_lower(factor, cross)
            variance = kernel.diag(X) - np.square(w).sum(axis=0)
            if self.gain is not None and self.prior is not None:
                inside = np.square(solve_lower(self.prior[c], cross)).sum(axis=0)
                variance = self.prior_scale * (kernel.diag(X) - inside)
                variance += np.square(solve_lower(self.gain[c], w)).sum(axis=0)
            variances.append(variance)
        return np.concatenate(means, axis=1), np.stack(variances, axis=1)
