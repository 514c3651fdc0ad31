"""The linear kernel."""

from dataclasses import dataclass

import numpy as np

from sparsegp.kernels.base import Kernel
from sparsegp.kernels.checks import check_range, positive
from sparsegp.kernels.pair import InputPair, weighted_sums
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Linear(Kernel, name="linear"):
    r"""Inner product of the inputs; add a constant for functions with an intercept.

    .. math:: k(x, z) = v \sum_j x_j z_j

    Parameters
    ----------
    variance : float, default 1
        v, positive: prior variance of the slopes.
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive(self.variance, "the variance of linear"))

    def _matrix(self, pair: InputPair) -> Floats:
        return self._scaled(pair.X @ np.swapaxes(pair.Z, -1, -2))

    def _diag(self, X: Floats) -> Floats:
        return self._scaled(np.einsum("...ij,...ij->...i", X, X))

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        total = self.variance * float(np.vdot(weights @ pair.Z, pair.X))
        return total, np.array([total])

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.array([weights @ self._diag(X)])

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        return self.variance * weighted_sums(factors, weights, Z)

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return the variances for centred columns; see `Kernel.slope_variances`."""
        squares = self.variance * deviations**2
        return float(squares.sum()), squares

    def _scaled(self, products: Floats) -> Floats:
        if self.variance != 1:
            products *= check_range(self.variance, products.dtype, self)
        return products
