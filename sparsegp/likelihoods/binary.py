"""Base class of likelihoods for two classes with one latent value.

p(y|u) = f(y (u + beta)) with y = +1 for code 1 and y = -1 for code 0. A subclass defines log f, its
derivatives and the moments of f; the rest follows by symmetry.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.likelihoods.base import Likelihood, Moments
from sparsegp.types import Doubles, Integers


@dataclass(frozen=True)
class Binary(Likelihood):
    """A likelihood for two classes that is a function of y (u + bias).

    Parameters
    ----------
    bias : float
        beta, added to the latent values of all rows.
    """

    curvature_form: ClassVar[str] = "independent"
    has_biases: ClassVar[bool] = True

    bias: float = 0.0

    @abstractmethod
    def _log_link(self, margin: Doubles) -> Doubles:
        """Return log f, (...), for margins y (u + beta), (...)."""

    @abstractmethod
    def _link_moments(self, margin: Doubles, variance: Doubles) -> Moments:
        """Return the moments of f for margins with these means and variances, (n, 1)."""

    @abstractmethod
    def _link_derivatives(self, margin: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        """Return the first, minus the second and minus the third derivative of log f."""

    def log_density(self, latent: Doubles, target: Any) -> Doubles:
        """Return log p(y|u); see `Likelihood`."""
        return self._log_link(sign(target) * (latent[..., 0] + self.bias))

    def gradient(self, latent: Doubles, target: Any) -> tuple[Doubles, Doubles]:
        """Return log p(y|u) and its gradient; see `Likelihood`."""
        y = sign(target)[:, np.newaxis]
        slope = y * self._link_derivatives(y * (latent + self.bias))[0]
        return self.log_density(latent, target), slope

    def curvature(self, latent: Doubles, target: Integers) -> Doubles:
        """Return -d2 log p(y|u) / du2, (n, 1)."""
        return self._link_derivatives(sign(target)[:, np.newaxis] * (latent + self.bias))[1]

    def curvature_gradient(self, latent: Doubles, target: Integers, weights: Doubles) -> Doubles:
        """Return the derivative of the curvature, (n, 1), times weights (n, 1, 1)."""
        y = sign(target)[:, np.newaxis]
        return weights[:, 0] * y * self._link_derivatives(y * (latent + self.bias))[2]

    def moments(self, mean: Doubles, variance: Doubles, target: Any) -> Moments:
        """Return log Z and its derivatives; see `Likelihood`."""
        y = sign(target)[:, np.newaxis]
        found = self._link_moments(y * (mean + self.bias), variance)
        return Moments(found.log_z, y * found.slope, found.curvature)

    def decide(self, mean: Doubles, variance: Doubles) -> Integers:
        """Return code 1 where mean plus bias is positive, else 0, (n,)."""
        return np.asarray(mean[:, 0] + self.bias > 0, dtype=np.int64)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Name of the bias."""
        return ("bias",)

    def parameters(self) -> Doubles:
        """Return the bias, (1,)."""
        return np.array([self.bias])

    def _fields_of(self, values: Doubles) -> dict[str, Any]:
        return {"bias": float(values[0])}


def sign(target: Any) -> Doubles:
    """Return y = +1 for class code 1, -1 for 0."""
    return np.asarray(2.0 * np.asarray(target) - 1.0)
