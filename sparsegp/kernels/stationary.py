"""Kernels of the distance between two inputs (Rasmussen and Williams 2006, section 4.2.1).

All are built on the matrix of -|x_i - z_j|^2 / 2, which is one matrix product and two vectors of
norms, and are finished in place: at most two arrays of the size of the result exist at a time.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.kernels.base import Kernel
from sparsegp.kernels.checks import positive, readable, within
from sparsegp.kernels.pair import Pair, half_squared_distance
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Isotropic(Kernel):
    """k(x, z) = f(|x - z| / l) with f(0) = 1.

    Parameters
    ----------
    length_scale : float, optional
        l, positive, in the unit of the (scaled) inputs. Left out, it waits for `fill`:
        l^2 = sum of the column variances / 2, or l = 1 if all columns are constant.
    """

    length_scale: float | None = None

    def __post_init__(self) -> None:
        if self.length_scale is not None:
            length_scale = positive(self.length_scale, f"the length scale of {self.name}")
            object.__setattr__(self, "length_scale", length_scale)

    @abstractmethod
    def _profile(self, G: Floats) -> Floats:
        """Return f from G = -r^2 / 2 with r = |x - z| / l; G may be overwritten."""

    @abstractmethod
    def _decline(self, G: Floats) -> Floats:
        """Return -f'(r) / r from G = -r^2 / 2."""

    def fill(self, variances: Doubles) -> Kernel:
        """Return the kernel with l^2 = sum_j v_j / 2 if l was left out; see `Kernel.fill`."""
        if self.length_scale is not None:
            return self
        half = float(variances.sum()) / 2
        return replace(self, length_scale=readable(math.sqrt(half)) if half > 0 else 1.0)

    @property
    def n_distances(self) -> int:
        """One."""
        return 1

    def _matrix(self, pair: Pair) -> Floats:
        return self._profile(self._exponent(pair))

    def _diag(self, X: Floats) -> Floats:
        return np.ones(X.shape[:-1], X.dtype)

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        G = self._exponent(Pair(X, Z))
        return np.array([-2.0 * (weights * G * self._decline(G)).sum()])  # -r f'(r)

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.zeros(1)  # f(0) = 1 for every length scale

    def _slopes(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        assert self.length_scale is not None
        decline = np.asarray(self._decline(self._exponent(Pair(X, Z))), np.float64)
        return _towards(X, Z, weights * decline) / self.length_scale**2

    def _exponent(self, pair: Pair) -> Floats:
        """Return G = -r^2 / 2, (..., n, m)."""
        G = pair.half_squared_distance()
        assert self.length_scale is not None
        G *= within(1 / self.length_scale / self.length_scale, G.dtype, self)
        return G


class RBF(Isotropic, name="rbf"):
    r"""Squared exponential.

    .. math:: k(x, z) = \exp\left(-\frac{|x - z|^2}{2 l^2}\right)
    """

    def _profile(self, G: Floats) -> Floats:
        return np.exp(G, out=G)

    def _decline(self, G: Floats) -> Floats:
        return np.asarray(np.exp(G))


class Matern32(Isotropic, name="matern32"):
    r"""Matern kernel of smoothness 3/2: latent functions have one derivative.

    .. math:: k(x, z) = (1 + s) e^{-s}, \quad s = \sqrt{3} |x - z| / l
    """

    def _profile(self, G: Floats) -> Floats:
        G *= -6
        s = np.sqrt(G, out=G)
        decay = np.negative(s)
        np.exp(decay, out=decay)
        s += 1
        s *= decay
        return s

    def _decline(self, G: Floats) -> Floats:
        return np.asarray(3 * np.exp(-np.sqrt(-6 * G)))


class Matern52(Isotropic, name="matern52"):
    r"""Matern kernel of smoothness 5/2: latent functions have two derivatives.

    .. math:: k(x, z) = (1 + s + s^2 / 3) e^{-s}, \quad s = \sqrt{5} |x - z| / l
    """

    def _profile(self, G: Floats) -> Floats:
        G *= -10
        s = np.sqrt(G, out=G)
        value = s / 3
        value += 1
        value *= s
        value += 1
        np.negative(s, out=s)
        value *= np.exp(s, out=s)
        return value

    def _decline(self, G: Floats) -> Floats:
        s = np.sqrt(-10 * G)
        return np.asarray(5 * (1 + s) * np.exp(-s) / 3)


@dataclass(frozen=True)
class ARD(Kernel, name="ard"):
    r"""Squared exponential with one length scale per column (automatic relevance determination).

    .. math:: k(x, z) = \exp\left(-\sum_j \frac{(x_j - z_j)^2}{2 l_j^2}\right)

    Parameters
    ----------
    length_scales : tuple of float, optional
        l_j, positive, in the units of the p (scaled) columns. Left out, they wait for `fill`:
        l_j = sqrt(v_j p / 2) with v_j the column variance, sqrt(p / 2) for a constant column.
    """

    length_scales: tuple[float, ...] | None = None
    variadic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: object = self.length_scales
        if given is None:
            return
        if not isinstance(given, (tuple, list)) or not given:
            raise SettingsError(
                "the length scales of ard must be one number per column, as in ard(1.0, 2.0), "
                f"got {given!r}"
            )
        values = tuple(positive(value, f"length scale {j} of ard") for j, value in enumerate(given))
        object.__setattr__(self, "length_scales", values)

    def fill(self, variances: Doubles) -> Kernel:
        """Return the kernel with l_j = sqrt(v_j p / 2) if left out; see `Kernel.fill`."""
        self._check_columns(len(variances))
        if self.length_scales is not None:
            return self
        half = len(variances) / 2
        squares = variances * half
        squares = np.where(squares > 0, squares, half)
        return ARD(tuple(readable(math.sqrt(square)) for square in squares))

    def _matrix(self, pair: Pair) -> Floats:
        assert self.length_scales is not None
        X, Z = pair.X, pair.Z
        weights = [within(1 / scale / scale, X.dtype, self) for scale in self.length_scales]
        G = half_squared_distance(X, Z, np.array(weights, X.dtype))
        return np.exp(G, out=G)

    def _diag(self, X: Floats) -> Floats:
        return np.ones(X.shape[:-1], X.dtype)

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        # d/d log l_j = sum_ik q_ik (x_ij - z_kj)^2 / l_j^2, q = w k: three sums by products
        assert self.length_scales is not None
        q = weights * self._matrix(Pair(X, Z))
        squares = q.sum(axis=1) @ X**2 + q.sum(axis=0) @ Z**2
        crossed = np.einsum("kj,kj->j", q.T @ X, Z)
        return np.asarray((squares - 2 * crossed) / np.square(self.length_scales))

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.zeros(X.shape[1])

    def _slopes(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        assert self.length_scales is not None
        return _towards(X, Z, weights * self._matrix(Pair(X, Z))) / np.square(self.length_scales)


def _towards(X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
    """Return sum_j w_ij (z_j - x_i), (n, p)."""
    return np.asarray(weights @ Z - X * weights.sum(axis=1, keepdims=True))
