"""Ordered probit: ordered classes are intervals of one noisy latent value.

With thresholds b, y = k if b_(k-1) < u + e < b_k with e ~ N(0, 1), so that

    Z = Phi(hi) - Phi(lo),  hi, lo = (b_k - m) / v, (b_(k-1) - m) / v,  v^2 = 1 + a

and the derivatives of log Z are moments of a truncated normal distribution. Differences are
computed on the side of zero where Phi is small, from Mills' ratios, so that no digits cancel.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import erf, erfcx, ndtr, ndtri

from sparsegp.errors import SettingsError
from sparsegp.likelihoods.base import Likelihood, Moments
from sparsegp.math.normal import LOG_PEAK, PEAK, SQRT_HALF, SQRT_TWO_OVER_PI
from sparsegp.types import Doubles


@dataclass(frozen=True)
class OrderedProbit(Likelihood, name="ordered_probit"):
    """p(y = k|u) = Phi(b_k - u) - Phi(b_(k-1) - u) with b_(-1) = -inf, b_(K-1) = inf.

    Parameters
    ----------
    thresholds : tuple of float
        b_0 < ... < b_(K-2), in latent units; learnt as b_0 and the logarithms of the gaps.

    Raises
    ------
    SettingsError
        If they are not finite and strictly increasing.
    """

    variadic: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    thresholds: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.thresholds or (np.diff(self.thresholds) <= 0).any():
            raise SettingsError(
                f"thresholds must be strictly increasing, got {self.thresholds}; "
                "give one less than there are classes"
            )

    @classmethod
    def start(cls, n_classes: int, n_nodes: int = 12) -> Self:
        """Return the likelihood that makes all classes equally probable at latent variance one.

        Raises
        ------
        SettingsError
            If there are fewer than two classes.
        """
        return super().start(n_classes)._dividing(np.arange(1, n_classes) / n_classes, 1.0)

    def suited_to(self, variance: float, target: Any) -> Self:
        """Return the likelihood whose prior class probabilities are the shares of the classes."""
        shares = np.cumsum(np.bincount(target, minlength=len(self.thresholds) + 1)) / len(target)
        return self._dividing(shares[:-1], variance)

    def _dividing(self, shares: Doubles, variance: float) -> Self:
        """Return the likelihood with these prior probabilities below its thresholds."""
        thresholds = np.sqrt(1.0 + variance) * ndtri(shares)
        return replace(self, thresholds=tuple(thresholds.tolist()))

    def _n_classes(self, n_latent: int) -> int:
        return len(self.thresholds) + 1

    def log_density(self, latent: Doubles, target: Any) -> Doubles:
        """Return log p(y|u); see `Likelihood`."""
        return self._interval(latent[..., 0], np.zeros(1), target)[0]

    def log_z(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return log Z, (n,); see `Likelihood`."""
        return self._interval(mean[:, 0], variance[:, 0], target)[0]

    def moments(self, mean: Doubles, variance: Doubles, target: Any) -> Moments:
        """Return log Z and its derivatives; see `Likelihood`."""
        log_z, shift, curvature = self._interval(mean[:, 0], variance[:, 0], target)
        total = 1.0 + variance
        shift, curvature = shift[:, np.newaxis], curvature[:, np.newaxis]
        return Moments(log_z, shift / np.sqrt(total), curvature / total)

    def _interval(self, mean: Doubles, variance: Doubles, target: Any) -> tuple[Doubles, ...]:
        edges = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        scale = np.sqrt(1.0 + variance)
        low, high = edges[target], edges[np.asarray(target) + 1]
        width = (high - low) / scale
        return truncated_normal_moments((low - mean) / scale, (high - mean) / scale, width)

    def tempered(self, temperature: float) -> Self:
        """Return the likelihood with the thresholds divided by T; see `Likelihood`."""
        return replace(self, thresholds=tuple(b / temperature for b in self.thresholds))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the first threshold and of the logarithms of the gaps between thresholds."""
        return ("first", *(f"log_gap_{k}" for k in range(1, len(self.thresholds))))

    def parameters(self) -> Doubles:
        """Return b_0 and log(b_k - b_(k-1)), (K - 1,)."""
        return np.concatenate([self.thresholds[:1], np.log(np.diff(self.thresholds))])

    def _fields_of(self, values: Doubles) -> dict[str, Any]:
        with np.errstate(over="ignore"):  # infinite thresholds are rejected
            steps = np.concatenate([values[:1], np.exp(values[1:])])
        return {"thresholds": tuple(np.cumsum(steps).tolist())}


def truncated_normal_moments(low: Doubles, high: Doubles, width: Doubles) -> tuple[Doubles, ...]:
    """Return the log probability and moments of a standard normal value between two bounds.

    Parameters
    ----------
    low, high : Doubles
        Bounds, which may be infinite.
    width : Doubles
        Their difference, which the caller may know to more digits.

    Returns
    -------
    log_z : Doubles
        Log probability of the interval.
    shift : Doubles
        Mean of the value: its density at the lower bound minus that at the upper one.
    curvature : Doubles
        One minus the variance of the value.
    """
    flipped = low + high < 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    tail = low >= 0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # branches not taken
        by_tail = _tail(np.maximum(low, 0.0), high, width)
        by_middle = _middle(np.minimum(low, 0.0), high)
    log_z, near, far, shift = (
        np.where(tail, a, b) for a, b in zip(by_tail, by_middle, strict=True)
    )
    rim = np.where(np.isinf(high), 0.0, high) * far  # a bound at infinity has no density
    rim = rim - np.where(np.isinf(low), 0.0, low) * near
    # truncation reduces the variance: values outside [0, 1] are rounding errors
    curvature = np.clip(shift * shift + rim, 0.0, 1.0)
    return log_z, np.where(flipped, -shift, shift), curvature


def _tail(low: Doubles, high: Doubles, width: Doubles) -> tuple[Doubles, ...]:
    """Return log Z, the densities at the bounds and their difference, for 0 <= low < high.

    Z = phi(low) (M(low) - phi(high) / phi(low) M(high)), where M is Mills' ratio.
    """
    exponent = 0.5 * width * (low + high)
    fade = np.exp(-exponent)
    mills = (erfcx(SQRT_HALF * low) - fade * erfcx(SQRT_HALF * high)) / SQRT_TWO_OVER_PI
    log_z = LOG_PEAK - 0.5 * low * low + np.log(mills)
    return log_z, 1.0 / mills, fade / mills, -np.expm1(-exponent) / mills


def _middle(low: Doubles, high: Doubles) -> tuple[Doubles, ...]:
    """Return the same for low < 0 < high, where nothing cancels."""
    outside = ndtr(low) + ndtr(-high)
    inside = 0.5 * (erf(SQRT_HALF * high) - erf(SQRT_HALF * low))
    log_z = np.where(outside < 0.5, np.log1p(-outside), np.log(inside))
    near, far = (PEAK * np.exp(-0.5 * x * x) / inside for x in (low, high))
    return log_z, near, far, near - far
