"""Gaussian noise, for regression: moment matching is then exact inference."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.fields import setting
from sparsegp.likelihoods.base import Likelihood, Moments
from sparsegp.math.quadrature import HALF_LOG_TWO_PI
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Gaussian(Likelihood, name="gaussian"):
    """p(y|u) = N(y | u, noise variance).

    Parameters
    ----------
    noise_variance : float
        sigma^2 >= 1e-30, in squared units of the targets; learnt as log sigma^2. The default is
        for targets of variance one.

    Raises
    ------
    SettingsError
        If the noise variance is smaller than that, or not a number.
    """

    noise_variance: float = setting(0.1, least=1e-30)
    numeric: ClassVar[bool] = True

    def log_density(self, latent: Doubles, target: Any) -> Doubles:
        """Return log N(y | u, sigma^2); see `Likelihood`."""
        return _log_normal(target - latent[..., 0], self.noise_variance)

    def gradient(self, latent: Doubles, target: Any) -> tuple[Doubles, Doubles]:
        """Return log p(y|u) and its gradient; see `Likelihood`."""
        slope = (target[:, np.newaxis] - latent) / self.noise_variance
        return self.log_density(latent, target), slope

    def moments(
        self, mean: Doubles, variance: Doubles, target: Any, weight: Doubles | float = 1.0
    ) -> Moments:
        """Return log Z of p(y|u)^w and its derivatives, for weights (n,); see `Likelihood`.

        With sigma^2 / w = rho, p(y|u)^w = N(y | u, rho) (2 pi rho)^(1/2) (2 pi sigma^2)^(-w/2).
        """
        weight = np.reshape(weight, (-1, 1))
        noise = self.noise_variance / weight
        total, residual = variance + noise, target[:, np.newaxis] - mean
        constant = 0.5 * np.log(2.0 * np.pi * noise)
        constant = constant - 0.5 * weight * np.log(2.0 * np.pi * self.noise_variance)
        log_z = _log_normal(residual, total) + constant
        return Moments(log_z[:, 0], residual / total, 1.0 / total)

    def predictive(self, mean: Doubles, variance: Doubles) -> tuple[Doubles, Doubles]:
        """Return the mean and variance of the target, (n,), given the latent ones, (n, 1)."""
        return mean[:, 0], variance[:, 0] + self.noise_variance

    def loss(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return the squared error of the mean, (n,)."""
        return np.asarray((target - mean[:, 0]) ** 2)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Name of the logarithm of the noise variance."""
        return ("log_noise_variance",)

    def parameters(self) -> Doubles:
        """Return log sigma^2, (1,)."""
        return np.log([self.noise_variance])

    def _fields_of(self, values: Doubles) -> dict[str, Any]:
        with np.errstate(over="ignore"):  # an infinite noise variance is rejected
            return {"noise_variance": float(np.exp(values[0]))}

    def parameter_gradient(
        self, mean: Doubles, variance: Doubles, target: Any, weight: Doubles | float = 1.0
    ) -> Doubles:
        """Return d log Z / d log sigma^2, (n, 1), of p(y|u)^w; see `moments`."""
        weight = np.reshape(weight, (-1, 1))
        noise = self.noise_variance / weight
        total, square = variance + noise, (target[:, np.newaxis] - mean) ** 2
        change = 0.5 - 0.5 * weight
        return np.asarray(0.5 * noise * (square / total - 1.0) / total + change)


def _log_normal(residual: Doubles, variance: Doubles | float) -> Doubles:
    """Return log N(residual | 0, variance), any shape."""
    square = residual * residual / variance
    return np.asarray(-HALF_LOG_TWO_PI - 0.5 * (np.log(variance) + square))
