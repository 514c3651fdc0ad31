"""Kernels with per-column length scales, for dissimilar columns, and relevances of columns."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.kernels.base import Kernel
from sparsegp.kernels.checks import check_range, positive, round_to_six_digits
from sparsegp.kernels.pair import Pair, negative_half_squared_distance, weighted_displacements
from sparsegp.kernels.stationary import Stationary
from sparsegp.types import Doubles, Floats


class ByColumn(Stationary):
    """Base class of kernels with a length scale l_j for every column, a subclass's last field.

    Parameters
    ----------
    length_scales : tuple of float, optional
        l_j, in the units of the p (scaled) columns; if left out, `fill` sets them.

    Raises
    ------
    SettingsError
        If they are not positive numbers.
    """

    length_scales: tuple[float, ...] | None
    variadic: ClassVar[bool] = True
    supports_ard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: object = self.length_scales
        if given is None:
            return
        if not isinstance(given, (tuple, list)) or not given:
            raise SettingsError(
                f"the length scales of {self.name} must be one number per column, as in "
                f"{self.name}(1.0, 2.0), got {given!r}"
            )
        what = f"of {self.name}"
        values = (positive(value, f"length scale {j} {what}") for j, value in enumerate(given))
        object.__setattr__(self, "length_scales", tuple(values))

    def with_length_scales(self, scales: Iterable[float]) -> Self:
        """Return the kernel with other length scales."""
        kernel: Self = replace(cast(Any, self), length_scales=tuple(scales))
        return kernel


@dataclass(frozen=True)
class ARD(ByColumn, name="ard"):
    r"""Squared exponential with one length scale per column (automatic relevance determination).

    .. math:: k(x, z) = \exp\left(-\sum_j \frac{(x_j - z_j)^2}{2 l_j^2}\right)
    """

    length_scales: tuple[float, ...] | None = None

    def _filled(self, variances: Doubles) -> Kernel:
        half = len(variances) / 2
        squares = variances * half
        squares = np.where(squares > 0, squares, half)
        return ARD(tuple(round_to_six_digits(math.sqrt(square)) for square in squares))

    def _matrix(self, pair: Pair) -> Floats:
        assert self.length_scales is not None
        X, Z = pair.X, pair.Z
        weights = [check_range(1 / scale / scale, X.dtype, self) for scale in self.length_scales]
        G = negative_half_squared_distance(X, Z, np.array(weights, X.dtype))
        return np.exp(G, out=G)

    def _pull_back(self, pair: Pair, weights: Doubles) -> tuple[float, Doubles]:
        # d/d log l_j = sum_ik q_ik (x_ij - z_kj)^2 / l_j^2, q = w k: the square expanded
        X, Z, q = pair.X, pair.Z, weights * pair.matrix(self)
        squares = q.sum(axis=1) @ X**2 + q.sum(axis=0) @ Z**2
        crossed = np.einsum("kj,kj->j", q.T @ X, Z)
        return float(q.sum()), (squares - 2 * crossed) / self.scales / self.scales

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        factors = factors * self._matrix(Pair(X, Z))
        return weighted_displacements(X, Z, factors, weights) / self.scales / self.scales


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
    if not any(leaf.has_ard(len(deviations)) for kernel in kernels for leaf in kernel.leaves):
        return None
    squares = np.sum([kernel.slope_variances(deviations)[1] for kernel in kernels], axis=0)
    roots = np.sqrt(squares / (squares.max() or 1.0))
    total = float(roots.sum())
    return np.asarray(roots / total) if 0.0 < total < np.inf else None
