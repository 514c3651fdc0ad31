"""Kernels of the absolute differences of single columns: functions that are rough along the axes.

A matrix takes n m p differences, not a matrix product.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.kernels.checks import positive, readable, within
from sparsegp.kernels.columns import ByColumn
from sparsegp.kernels.pair import Pair
from sparsegp.math.differences import summed_differences, weighted_differences
from sparsegp.types import Doubles, Floats

WIDTH = 0.8
"""Length scale of `Laplace` in mean standard deviations times columns. Of .35, .8 and 2 it had the
best geometric mean of held-out nats on splits of the training rows of sixteen tables."""
ADDITIVE_WIDTH = 3.0
"""Length scale of `Additive` in mean standard deviations of columns that are not constant."""


class Absolute(ByColumn):
    """k(x, z) = g(sum_j f(|x_j - z_j| / l_j)), with one length scale, or one for every column."""

    _transform: Callable[[Floats], object] | None = None
    """What puts f in the place of its argument; None where it is the identity."""

    @property
    def is_rough(self) -> bool:
        """Each has corners where a column of an active row is met."""
        return True

    @abstractmethod
    def _decline(self, ratios: Doubles) -> Doubles | float:
        """Return |f'|; zero at zero where it has no bound."""

    def _growth(self, ratios: Doubles) -> None:
        """Put |f'(t)| t in the place of t."""
        decline = self._decline(ratios)
        if isinstance(decline, np.ndarray) or decline != 1.0:
            ratios *= decline

    @abstractmethod
    def _outer_decline(self, K: Floats, p: int) -> Floats | float:
        """Return |g'|, (n, m) or one number, from the matrix, for p columns."""

    def _check_columns(self, n_features: int) -> None:
        if self.length_scales is None or len(self.length_scales) > 1:
            super()._check_columns(n_features)

    def _filled(self, variances: Doubles, scale: float) -> Self:
        """Return the kernel with this length scale, or 1 in place of 0, if none was given."""
        self._check_columns(len(variances))
        if self.length_scales is not None:
            return self
        return self.with_length_scales((readable(scale) if scale > 0 else 1.0,))

    def _sums(self, pair: Pair) -> Floats:
        """Return the argument of g, (..., n, m)."""
        within(1 / self.scales.min(), pair.X.dtype, self)
        weights = np.broadcast_to(1 / self.scales, pair.X.shape[-1:])
        with np.errstate(over="ignore"):  # too far for the precision
            return summed_differences(pair.X, pair.Z, weights, self._transform)

    def _ratios(self, X: Doubles, Z: Doubles) -> Iterator[Doubles]:
        """Yield (x_j - z_j) / l_j column by column, (n, m)."""
        scales = np.broadcast_to(self.scales, X.shape[1:])
        for x, z, scale in zip(X.T, Z.T, scales, strict=True):
            yield np.subtract.outer(x, z) / scale

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> tuple[float, Doubles]:
        K, scales = self._matrix(Pair(X, Z)), self.scales.astype(X.dtype)
        q = weights * self._outer_decline(K, X.shape[1])
        by_column = weighted_differences(X / scales, Z / scales, q, self._growth)
        slopes = by_column if len(scales) > 1 else by_column.sum(keepdims=True)
        return float(np.vdot(weights, K)), slopes

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        q, columns = factors * self._outer_decline(self._matrix(Pair(X, Z)), X.shape[1]), []
        for t in self._ratios(X, Z):
            steep = np.sign(t)
            steep *= self._decline(np.abs(t, out=t))
            steep *= q
            columns.append((steep @ weights).T)
        return np.asarray(-np.stack(columns, axis=2) / self.scales)


class Exponential(Absolute):
    """g = exp(-s), f = t^q."""

    @property
    def _power(self) -> float:
        """The exponent q."""
        return 1.0

    def fill(self, variances: Doubles) -> Self:
        """Return the kernel with l^q = 0.8 sum_j v_j^(q/2) if left out; see `Kernel.fill`."""
        total = WIDTH * float((variances ** (self._power / 2)).sum())
        return self._filled(variances, total ** (1 / self._power))

    def _matrix(self, pair: Pair) -> Floats:
        K = self._sums(pair)
        np.negative(K, out=K)
        return np.exp(K, out=K)

    def _outer_decline(self, K: Floats, p: int) -> Floats:
        return K


@dataclass(frozen=True)
class Laplace(Exponential, name="laplace"):
    r"""Exponential of the sum of absolute differences.

    .. math:: k(x, z) = \exp\left(-\sum_j |x_j - z_j| / l_j\right)

    Latent functions are rough along the axes, as those of decision trees are: it is the limit of
    the kernel of Mondrian forests (Balog, Lakshminarayanan, Ghahramani, Roy & Teh 2016).
    """

    length_scales: tuple[float, ...] | None = None

    def _decline(self, ratios: Doubles) -> float:
        return 1.0


@dataclass(frozen=True)
class Power(Exponential, name="power"):
    r"""Power exponential (Sacks, Welch, Mitchell & Wynn 1989), rougher than `Laplace`.

    .. math:: k(x, z) = \exp\left(-\sum_j |x_j - z_j|^q / l_j^q\right)

    Parameters
    ----------
    exponent : float
        q, 0 < q <= 1; no parameter to be learnt.
    length_scales : tuple of float, optional
        One l, or l_j in the units of the p (scaled) columns.
    """

    exponent: float
    length_scales: tuple[float, ...] | None = None
    n_fixed: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "exponent", positive(self.exponent, "the exponent of power"))
        if self.exponent > 1:
            raise SettingsError(
                f"the exponent of power must be at most 1, got {self.exponent!r}; rbf and matern "
                "kernels are smooth"
            )

    @property
    def _power(self) -> float:
        return self.exponent

    def _transform(self, ratios: Floats) -> None:
        if self.exponent == 0.5:
            np.sqrt(ratios, out=ratios)
        else:
            np.power(ratios, self.exponent, out=ratios)

    def _decline(self, ratios: Doubles) -> Doubles:
        powers = np.zeros_like(ratios)
        np.power(ratios, self.exponent - 1, out=powers, where=ratios > 0)
        return self.exponent * powers


@dataclass(frozen=True)
class Additive(Absolute, name="additive"):
    r"""Mean over the columns of their exponential kernels.

    .. math:: k(x, z) = \frac{1}{p} \sum_j \exp(-|x_j - z_j| / l_j)

    Latent functions are sums of functions of single columns.
    """

    length_scales: tuple[float, ...] | None = None

    def fill(self, variances: Doubles) -> Self:
        """Return the kernel with l = 3 mean sqrt(v_j) if left out; see `Kernel.fill`."""
        mean = float(np.sqrt(variances).sum() / max(1, np.count_nonzero(variances)))
        return self._filled(variances, ADDITIVE_WIDTH * mean)

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return 1 and (deviation / l_j)^2 / p; see `Kernel.slope_variances`."""
        return 1.0, (deviations / self.scales) ** 2 / len(deviations)

    def _matrix(self, pair: Pair) -> Floats:
        K = self._sums(pair)
        K /= pair.X.shape[-1]
        return K

    def _transform(self, ratios: Floats) -> None:
        np.negative(ratios, out=ratios)
        np.exp(ratios, out=ratios)

    def _decline(self, ratios: Doubles) -> Doubles:
        return np.exp(-ratios)

    def _outer_decline(self, K: Floats, p: int) -> float:
        return 1.0 / p
