"""Eigendecompositions of the prior covariances: K = U diag(l) U' for each kernel.

If latent values have noise of variance one (Girolami & Rogers 2006, section 3), inference needs
products with K, K^(1/2) and (I + K)^-1, and log |I + K|. In the basis of the eigenvectors these
matrices are diagonal, and K may even be numerically singular.
"""

from functools import cached_property

import numpy as np

from sparsegp.dense.base import Problem
from sparsegp.dense.precisions import broadcast_kernels, times
from sparsegp.errors import NumericalError
from sparsegp.types import Doubles


class Spectrum:
    """Eigenvalues (n, R) and eigenvectors (C, n, n) of the prior covariances of a problem.

    Raises
    ------
    NumericalError
        If a covariance is not finite.
    """

    def __init__(self, problem: Problem) -> None:
        covariances = problem.covariances()
        if not np.isfinite(covariances).all():
            raise NumericalError(
                "the covariance of the rows must be finite; check the kernel and the scale of the "
                "inputs"
            )
        values, self.vectors = np.linalg.eigh(covariances)
        # negative values are rounding errors
        self.values = np.maximum(broadcast_kernels(values, problem.n_latent).T, 0.0)

    @cached_property
    def log_det(self) -> float:
        """Log |I + K| for all latent values."""
        return float(np.log1p(self.values).sum())

    def to_eigenbasis(self, right: Doubles) -> Doubles:
        """Return U' R for R (n, R)."""
        return times(self.vectors.transpose(0, 2, 1), right)

    def from_eigenbasis(self, right: Doubles) -> Doubles:
        """Return U R for R (n, R)."""
        return times(self.vectors, right)

    def smooth(self, right: Doubles) -> Doubles:
        """Return (I + K)^-1 R for R (n, R)."""
        return self.from_eigenbasis(self.to_eigenbasis(right) / (1.0 + self.values))

    def quadratic(self, right: Doubles) -> float:
        """Return R' (I + K)^-1 R for R (n, R), summed over the latent values."""
        return float((np.square(self.to_eigenbasis(right)) / (1.0 + self.values)).sum())
