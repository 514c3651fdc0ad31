"""Isotropic kernels, functions of |x - z| (Rasmussen and Williams 2006, section 4.2.1).

All are computed from the matrix of -|x_i - z_j|^2 / 2, which takes one matrix product and two
vectors of norms, and in place: at most two arrays of the size of the result exist at a time.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from sparsegp.kernels.base import Kernel
from sparsegp.kernels.checks import check_range, positive, round_to_six_digits
from sparsegp.kernels.pair import InputPair, weighted_displacements
from sparsegp.math.subnormals import exp_in_place
from sparsegp.types import Doubles, Floats


class Stationary(Kernel):
    """k(x, z) = f((x - z) / l) with f(0) = 1; the last field is l, one number per column."""

    @property
    def scales(self) -> Doubles:
        """Length scales as an array."""
        return np.asarray(getattr(self, fields(self)[-1].name), np.float64)

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return 1 and (deviation / l_j)^2; see `Kernel.slope_variances`."""
        return 1.0, (deviations / self.scales) ** 2

    def _diag(self, X: Floats) -> Floats:
        return np.ones(X.shape[:-1], X.dtype)

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.zeros(len(self.parameter_names))


@dataclass(frozen=True)
class Isotropic(Stationary):
    """k(x, z) = f(|x - z| / l) with f(0) = 1.

    Parameters
    ----------
    length_scale : float, optional
        l, positive, in the unit of the (scaled) inputs. If left out, `fill` sets
        l^2 = sum of the column variances / 2, or l = 1 if all columns are constant.
    """

    n_distances: ClassVar[int] = 1

    length_scale: float | None = None

    @property
    def scales(self) -> Doubles:
        """The length scale as an array."""
        return np.asarray(self.length_scale, np.float64)

    def __post_init__(self) -> None:
        if self.length_scale is not None:
            length_scale = positive(self.length_scale, f"the length scale of {self.name}")
            object.__setattr__(self, "length_scale", length_scale)

    @abstractmethod
    def _profile(self, G: Floats) -> Floats:
        """Return f from G = -r^2 / 2 with r = |x - z| / l; G may be overwritten."""

    @abstractmethod
    def _radial_derivative(self, G: Floats) -> Floats:
        """Return -f'(r) / r from G = -r^2 / 2."""

    def _filled(self, variances: Doubles) -> Kernel:
        half = float(variances.sum()) / 2
        return replace(self, length_scale=round_to_six_digits(math.sqrt(half)) if half > 0 else 1.0)

    def _matrix(self, pair: InputPair) -> Floats:
        return self._profile(self._exponent(pair))

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        total, G = float(np.vdot(weights, pair.matrix(self))), self._exponent(pair)
        growth = -2.0 * np.vdot(weights * G, self._radial_derivative(G))  # -r f'(r)
        return total, np.array([growth])

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        exponent = self._exponent(InputPair(X, Z))
        derivative = np.asarray(self._radial_derivative(exponent), np.float64)
        moved = weighted_displacements(X, Z, factors * derivative, weights)
        return np.asarray(moved / self.scales / self.scales)  # the squared scale may overflow

    def _exponent(self, pair: InputPair) -> Floats:
        """Return G = -r^2 / 2, (..., n, m)."""
        G, scale = pair.negative_half_squared_distance(), float(self.scales)
        G *= check_range(1 / scale / scale, G.dtype, self)
        return G


class RBF(Isotropic, name="rbf"):
    r"""Squared exponential.

    .. math:: k(x, z) = \exp\left(-\frac{|x - z|^2}{2 l^2}\right)
    """

    def _profile(self, G: Floats) -> Floats:
        return exp_in_place(G)

    def _radial_derivative(self, G: Floats) -> Floats:
        return exp_in_place(G.copy())


class Matern32(Isotropic, name="matern32"):
    r"""Matern kernel of smoothness 3/2: latent functions have one derivative.

    .. math:: k(x, z) = (1 + s) e^{-s}, \quad s = \sqrt{3} |x - z| / l
    """

    def _profile(self, G: Floats) -> Floats:
        G *= -6
        s = np.sqrt(G, out=G)
        decay = np.negative(s)
        s += 1
        s *= exp_in_place(decay)
        return s

    def _radial_derivative(self, G: Floats) -> Floats:
        return 3 * exp_in_place(-np.sqrt(-6 * G))


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
        value *= exp_in_place(s)
        return value

    def _radial_derivative(self, G: Floats) -> Floats:
        s = np.sqrt(-10 * G)
        return np.asarray(5 * (1 + s) * exp_in_place(-s) / 3)
