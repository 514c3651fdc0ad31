"""A pair of input arrays, with the distances and matrices that several kernels share."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sparsegp.math.products import matmul_thin
from sparsegp.types import Doubles, Floats

if TYPE_CHECKING:
    from sparsegp.kernels.base import Kernel


@dataclass(eq=False)
class InputPair:
    """Inputs X and Z of one precision."""

    X: Floats  # (..., n, p)
    Z: Floats  # (..., m, p)
    uses: int = 1  # number of times that the distances will still be needed
    half_norms: Floats | None = None  # |x_i|^2 / 2 (..., n), if already known
    keeps: bool = False  # whether matrices of a kernel's parts are kept, to compute its gradient
    _distance: Floats | None = field(default=None, init=False)
    _known: dict["Kernel", Floats] = field(default_factory=dict, init=False)

    def matrix(self, kernel: "Kernel") -> Floats:
        """Return the matrix of a part of a kernel, (..., n, m); callers must not overwrite it."""
        if not self.keeps:
            return kernel._matrix(self)
        if kernel not in self._known:
            self._known[kernel] = kernel._matrix(self)
        return self._known[kernel]

    def negative_half_squared_distance(self) -> Floats:
        """Return -|x_i - z_j|^2 / 2, (..., n, m), in an array that the caller may overwrite."""
        distance, self._distance = self._distance, None
        if distance is None:
            distance = negative_half_squared_distance(self.X, self.Z, half_norms=self.half_norms)
        self.uses -= 1
        if self.uses > 0:
            self._distance = distance.copy()
        return distance


def negative_half_squared_distance(
    X: Floats, Z: Floats, weights: Floats | None = None, half_norms: Floats | None = None
) -> Floats:
    """Return -sum_j w_j (x_j - z_j)^2 / 2 = sum_j w_j x_j z_j - |x|_w^2 / 2 - |z|_w^2 / 2.

    Values above zero, which are rounding errors, become zero. Errors are relative to the norms, so
    inputs far from the origin relative to their spread should be centred first.

    Parameters
    ----------
    X : (..., n, p)
    Z : (..., m, p)
    weights : (p,), optional
        w_j > 0, in the precision of the inputs; default: ones.
    half_norms : (..., n), optional
        |x_i|_w^2 / 2, if already known.

    Returns
    -------
    (..., n, m)
        No other array of this size is allocated.
    """
    half_x = half_squared_norms(X, weights) if half_norms is None else half_norms
    half_z = half_x if Z is X else half_squared_norms(Z, weights)
    if weights is not None and Z.size <= X.size:  # apply the weights to the smaller array
        Z = Z * weights
    elif weights is not None:
        X = X * weights
    if X.ndim > 2 and Z.ndim == 2:  # BLAS is faster with the thin matrix first
        G: Floats = np.swapaxes(np.matmul(Z, np.swapaxes(X, -1, -2)), -1, -2)
    else:
        G = matmul_thin(X, np.swapaxes(Z, -1, -2))
    G -= half_x[..., :, None]
    G -= half_z[..., None, :]
    return np.minimum(G, 0, out=G)


def half_squared_norms(X: Floats, weights: Floats | None = None) -> Floats:
    """Return sum_j w_j x_ij^2 / 2, (..., n), without a copy of X, (..., n, p)."""
    if weights is None:
        norms: Floats = np.einsum("...ij,...ij->...i", X, X)
    else:
        norms = np.einsum("...ij,...ij,j->...i", X, X, weights)
    norms *= 0.5
    return norms


def weighted_displacements(X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
    """Return sum_j f_ij w_jr (z_j - x_i), (R, n, p)."""
    totals = np.asarray(factors @ weights)
    return weighted_sums(factors, weights, Z) - totals.T[:, :, np.newaxis] * X


def weighted_sums(factors: Doubles, weights: Doubles, Z: Doubles) -> Doubles:
    """Return sum_j f_ij w_jr z_j, (R, n, p)."""
    return np.asarray(factors @ (weights.T[:, :, np.newaxis] * Z))
