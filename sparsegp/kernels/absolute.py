"""Laplace-type kernels: functions of absolute column differences, rough along the axes.

A covariance matrix takes n m p differences. For columns with two values, such as the indicators of
a category's levels, a matrix product replaces them (indicators.py). Such indicators share a length
scale, so the length scales alone say which columns to try.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.kernels.checks import check_range, positive, round_to_six_digits
from sparsegp.kernels.columns import ByColumn
from sparsegp.kernels.indicators import VALUES, digits, indicator_sums, weighted_changes
from sparsegp.kernels.pair import InputPair
from sparsegp.math.differences import (
    summed_differences,
    weighted_differences,
    weighted_segment_differences,
)
from sparsegp.math.subnormals import exp_in_place
from sparsegp.types import Booleans, Doubles, Floats

LAPLACE_SCALE = 0.8
"""Default length scale of `Laplace`, as a multiple of the sum of the columns' standard deviations;
chosen on splits of the training rows of sixteen tables."""
ADDITIVE_SCALE = 3.0
"""Default length scale of `Additive`, as a multiple of the mean standard deviation of the columns
that are not constant."""

FEW = 32
"""Minimum number of rows of the second input for which matrix products pay off in batches if f is
the identity; otherwise they do from four rows on, and are always used."""

KNOTS = (-0.6745, 0.0, 0.6745)
"""Boundaries of the segments of a scaled column: quartiles of a standard normal distribution."""
SEGMENTS = len(KNOTS) + 1


class Absolute(ByColumn):
    """k(x, z) = g(sum_j f(|x_j - z_j| / l_j)), with one length scale, or one per column.

    With four length scales per column (piecewise input warping), f is applied to
    |w_j(x_j) - w_j(z_j)|, where w_j is continuous and has the slope 1 / l on each of the four
    segments between the quartiles of a normal distribution. Latent functions can then change fast
    in one segment of a column and slowly in another, just as trees place many thresholds where they
    are needed. Input warping for Gaussian processes: Snoek, Swersky, Zemel & Adams (2014).
    """

    is_rough: ClassVar[bool] = True
    _transform: Callable[[Floats], object] | None = None
    """Replaces its argument by f in place; None if f is the identity."""

    @abstractmethod
    def _abs_derivative(self, ratios: Floats, out: Floats | None = None) -> Floats | float:
        """Return |f'|, elementwise, possibly in `out`; zero at zero if it is unbounded there."""

    @abstractmethod
    def _outer_abs_derivative(self, K: Floats, p: int) -> Floats | float:
        """Return |g'|, (n, m) or a scalar, from the covariance matrix K, for p columns."""

    def has_ard(self, n_features: int) -> bool:
        """Whether every column has its own length scale, or four of them."""
        return self.complete and len(self.scales) in {n_features, SEGMENTS * n_features}

    def _check_columns(self, n_features: int) -> None:
        if self.length_scales is None or len(self.length_scales) > 1:
            super()._check_columns(n_features)

    def _is_warped(self, n_features: int) -> bool:
        return len(self.scales) == SEGMENTS * n_features

    def with_warping(self, n_features: int) -> Self:
        """Return the same covariance function with four length scales per column."""
        if self._is_warped(n_features):
            return self
        each = np.broadcast_to(self.scales, n_features)
        return self.with_length_scales(np.repeat(each, SEGMENTS).tolist())

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return 1 and (deviation / l_j)^2, with 1 / l_j averaged over the segments."""
        rates = self._rates(len(deviations)).mean(axis=1)
        return 1.0, (deviations * rates) ** 2

    def _with_scale(self, scale: float) -> Self:
        """Return the kernel with one length scale, 1 in place of 0."""
        return self.with_length_scales((round_to_six_digits(scale) if scale > 0 else 1.0,))

    def _sums(self, pair: InputPair) -> Floats:
        """Return the argument of g, (..., n, m)."""
        check_range(1 / self.scales.min(), pair.X.dtype, self)
        with np.errstate(over="ignore"):  # distances beyond the range of the precision
            X, Z, scales = self._warped_and_scales(pair.X, pair.Z)
            w, f, shared = 1 / scales, self._transform, self._shared(X.shape[-1])
            are_few = X.ndim > 2 and len(Z) < FEW and f is None
            if Z.ndim > 2 or are_few or not shared.any():
                return summed_differences(X, Z, w, f)
            values = self._values_of_indicators(len(w), X.dtype)
            values = self._warped(values) if self._is_warped(len(w)) else values
            rows = X.compress(shared, axis=-1), Z.compress(shared, axis=1)  # in C order
            sums = indicator_sums(*rows, w[shared], values[:, shared], f)
            if not shared.all():
                sums += summed_differences(X[..., ~shared], Z[:, ~shared], w[~shared], f)
            return sums

    def _shared(self, p: int) -> Booleans:
        """Return which columns share their own length scales with an adjacent column, (p,)."""
        equal = np.zeros(p + 1, bool)
        if len(self.scales) > 1:
            rates = self._rates(p)
            equal[1:-1] = (rates[1:] == rates[:-1]).all(axis=1)
        return equal[1:] | equal[:-1]

    def _values_of_indicators(self, p: int, dtype: Any) -> Floats:
        """Return `VALUES`, or their first and last if f is nonlinear, for each column, (v, p)."""
        values = VALUES if self._transform is None else VALUES[:: len(VALUES) - 1]
        return np.repeat(np.array(values, dtype)[:, np.newaxis], p, axis=1)

    def _warped_and_scales(self, X: Floats, Z: Floats) -> tuple[Floats, Floats, Doubles]:
        """Return both inputs, warped if the kernel is, and the scale of every column, (p,)."""
        p = X.shape[-1]
        if self._is_warped(p):
            return self._warped(X), self._warped(Z), np.ones(p)
        return X, Z, np.broadcast_to(self.scales, p)

    def _rates(self, p: int) -> Doubles:
        """Return 1 / l for the segments of p columns, (p, 1 or 4)."""
        return np.broadcast_to(1 / self.scales, max(p, len(self.scales))).reshape(p, -1)

    def _segment_parts(self, X: Floats) -> Iterator[Floats]:
        """Yield the contribution of each segment to w_j(x_j), (..., n, p)."""
        ends = (-np.inf, *KNOTS, np.inf)
        for s, rates in enumerate(self._rates(X.shape[-1]).T.astype(X.dtype)):
            part = np.clip(X, ends[s], ends[s + 1])
            part -= KNOTS[max(s - 1, 0)]
            part *= rates
            yield part

    def _warped(self, X: Floats) -> Floats:
        """Return w_j(x_j), (..., n, p)."""
        return np.asarray(sum(self._segment_parts(X)))

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        X, Z, K, shared = pair.X, pair.Z, pair.matrix(self), self._shared(pair.X.shape[1])
        q = weights * self._outer_abs_derivative(K, X.shape[1])
        if shared.any():
            slopes = np.empty((len(shared), self._rates(len(shared)).shape[1]))
            slopes[shared] = self._of(shared)._indicator_slopes(X[:, shared], Z[:, shared], q)
            if not shared.all():
                slopes[~shared] = self._of(~shared)._by_column(X[:, ~shared], Z[:, ~shared], q)
        else:
            slopes = self._by_column(X, Z, q)
        by_scale = slopes.ravel() if len(self.scales) > 1 else slopes.sum(keepdims=True)[0]
        return float(np.vdot(weights, K)), by_scale

    def _of(self, some: Booleans) -> Self:
        """Return the kernel on some of the columns."""
        return self.with_length_scales(self.scales.reshape(len(some), -1)[some].ravel().tolist())

    def _by_column(self, X: Floats, Z: Floats, q: Doubles) -> Doubles:
        """Return sum_ik q_ik |f'(t)| t, t = |x_ij - z_kj| / l_j, (p, 1), or by segment, (p, 4)."""
        derivative = None if self._transform is None else self._abs_derivative
        if self._is_warped(X.shape[1]):
            of_X, of_Z = (np.stack(list(self._segment_parts(rows)), axis=-1) for rows in (X, Z))
            return weighted_segment_differences(of_X, of_Z, q, derivative)
        scales = self.scales.astype(X.dtype)
        return weighted_differences(X / scales, Z / scales, q, derivative)[:, np.newaxis]

    def _indicator_slopes(self, X: Floats, Z: Floats, q: Doubles) -> Doubles:
        """Return the result of `_by_column`, fast for rows of zeros and ones."""
        values = self._values_of_indicators(X.shape[1], X.dtype)
        (A, x_others), (B, z_others) = digits(X, values), digits(Z, values)
        changes = weighted_changes(A, B, q, ~x_others, ~z_others).reshape(-1, X.shape[1], 1)
        parts = values[..., np.newaxis] * self._rates(X.shape[1])
        if self._is_warped(X.shape[1]):
            parts = np.stack(list(self._segment_parts(values)), axis=-1)
        steps = np.diff(parts, axis=0)  # (v - 1, p, 1 or 4)
        changes *= self._abs_derivative(steps.sum(axis=2, keepdims=True))
        slopes = np.asarray((changes * steps).sum(axis=0))
        if x_others.any():
            slopes += self._by_column(X[x_others], Z, q[x_others])
        if z_others.any():
            slopes += self._by_column(X[~x_others], Z[z_others], q[~x_others][:, z_others])
        return slopes

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        matrix, columns = self._matrix(InputPair(X, Z)), []
        q = factors * self._outer_abs_derivative(matrix, X.shape[1])
        own, others, scales = self._warped_and_scales(X, Z)
        for x, z, scale in zip(own.T, others.T, scales, strict=True):
            t = np.subtract.outer(x, z) / scale
            steep = np.sign(t)
            steep *= self._abs_derivative(np.abs(t, out=t))
            steep *= q
            columns.append((steep @ weights).T)
        rates = self._rates(X.shape[1])
        where = np.searchsorted(KNOTS, X) if rates.shape[1] > 1 else np.zeros(X.shape, int)
        return np.asarray(-np.stack(columns, axis=2) * rates[np.arange(X.shape[1]), where])


class Exponential(Absolute):
    """Base class of kernels with g(s) = exp(-s) and f(t) = t^q, where q is the exponent."""

    exponent: float

    def _filled(self, variances: Doubles) -> Self:
        total = LAPLACE_SCALE * float((variances ** (self.exponent / 2)).sum())
        with np.errstate(over="ignore"):  # infinite for tiny exponents, and then rejected
            return self._with_scale(float(np.float64(total) ** (1 / self.exponent)))

    def _matrix(self, pair: InputPair) -> Floats:
        K = self._sums(pair)
        np.negative(K, out=K)
        return exp_in_place(K)

    def _outer_abs_derivative(self, K: Floats, p: int) -> Floats:
        return K


@dataclass(frozen=True)
class Laplace(Exponential, name="laplace"):
    r"""Exponential of the sum of absolute differences.

    .. math:: k(x, z) = \exp\left(-\sum_j |x_j - z_j| / l_j\right)

    Latent functions are rough along the axes, like those of decision trees: this is the limit of
    the Mondrian forest kernel (Balog, Lakshminarayanan, Ghahramani, Roy & Teh 2016).
    """

    exponent = 1.0  # not a field
    length_scales: tuple[float, ...] | None = None

    def _abs_derivative(self, ratios: Floats, out: Floats | None = None) -> float:
        return 1.0


@dataclass(frozen=True)
class Power(Exponential, name="power"):
    r"""Power exponential (Sacks, Welch, Mitchell & Wynn 1989), rougher than `Laplace`.

    .. math:: k(x, z) = \exp\left(-\sum_j |x_j - z_j|^q / l_j^q\right)

    Parameters
    ----------
    exponent : float
        q, 0 < q <= 1; it is not learnt.
    length_scales : tuple of float, optional
        l, or one or four l_j per column, in the units of the p (scaled) columns.
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

    def _transform(self, ratios: Floats) -> None:
        if self.exponent == 0.5:
            np.sqrt(ratios, out=ratios)
        else:
            np.power(ratios, self.exponent, out=ratios)

    def _abs_derivative(self, ratios: Floats, out: Floats | None = None) -> Floats:
        powers = np.zeros_like(ratios)
        np.power(ratios, self.exponent - 1, out=powers, where=ratios > 0)
        return self.exponent * powers


@dataclass(frozen=True)
class Additive(Absolute, name="additive"):
    r"""Mean of one exponential kernel per column.

    .. math:: k(x, z) = \frac{1}{p} \sum_j \exp(-|x_j - z_j| / l_j)

    Latent functions are sums of functions of single columns.
    """

    length_scales: tuple[float, ...] | None = None

    def _filled(self, variances: Doubles) -> Self:
        mean = float(np.sqrt(variances).sum() / max(1, np.count_nonzero(variances)))
        return self._with_scale(ADDITIVE_SCALE * mean)

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return 1 and (deviation / l_j)^2 / p; see `Kernel.slope_variances`."""
        variance, of_slopes = super().slope_variances(deviations)
        return variance, of_slopes / len(deviations)

    def _matrix(self, pair: InputPair) -> Floats:
        K = self._sums(pair)
        K /= pair.X.shape[-1]
        return K

    def _transform(self, ratios: Floats) -> None:
        self._abs_derivative(ratios, ratios)  # |f'| = f for exp(-t)

    def _abs_derivative(self, ratios: Floats, out: Floats | None = None) -> Floats:
        out = np.negative(ratios, out=out)
        return np.exp(out, out=out)

    def _outer_abs_derivative(self, K: Floats, p: int) -> float:
        return 1.0 / p
