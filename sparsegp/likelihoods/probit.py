"""Probit likelihood: the second of two classes has probability Phi(u + beta) (SLH, app. B.1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.likelihoods.base import Moments
from sparsegp.likelihoods.binary import Binary, sign
from sparsegp.math.normal import hazard, log_cdf
from sparsegp.types import Doubles

FAR = -30.0
"""Below this -H'(z) is computed from its series."""
SERIES = (0.0, -1.0, 6.0, -50.0, 518.0, -6354.0)
"""Coefficients of z^-2k in the expansion of -H'(z) - 1 as z tends to minus infinity."""


@dataclass(frozen=True)
class Probit(Binary, name="probit"):
    """p(y|u) = Phi(y (u + beta)), y = -1 or +1; all expectations have closed forms."""

    curvature_bound: ClassVar[float] = 1.0

    def _log_link(self, margin: Doubles) -> Doubles:
        return log_cdf(margin)

    def _link_derivatives(self, margin: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        h, rate = np.asarray(hazard(margin), np.float64), hazard_rate(margin)
        return h, rate, h * (1.0 - rate) - rate * (margin + h)

    def _link_moments(self, margin: Doubles, variance: Doubles) -> Moments:
        scale = np.sqrt(1.0 + variance)
        z = margin / scale
        return Moments(log_cdf(z[:, 0]), hazard(z) / scale, hazard_rate(z) / (1.0 + variance))

    def log_z(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return log Z, (n,); see `Likelihood`."""
        z = sign(target) * (mean[:, 0] + self.bias) / np.sqrt(1.0 + variance[:, 0])
        return log_cdf(z)


def hazard_rate(z: Doubles) -> Doubles:
    """Return -H'(z) = H(z) (z + H(z)), which decreases from one to zero; any shape.

    For z far below zero, where z + H is a difference of large numbers, a series is used.
    """
    h = hazard(z)
    with np.errstate(over="ignore"):  # where the other branch is taken
        t = np.minimum(z, FAR) ** -2.0
    series = 1.0 + np.polynomial.polynomial.polyval(t, SERIES)
    return np.where(z < FAR, series, h * (z + h))
