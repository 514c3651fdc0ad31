"""Gaussian noise: regression. With it matching the moments is exact inference."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.likelihoods.base import Likelihood, Moments
from sparsegp.math.quadrature import HALF_LOG_TWO_PI
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Gaussian(Likelihood, name="gaussian"):
    """p(y|u) = N(y | u, noise variance).

    Parameters
    ----------
    noise_variance : float
        sigma^2 > 0, in squared units of the labels; learnt as log sigma^2.

    Raises
    ------
    SettingsError
        If the noise variance is not a positive number.
    """

    noise_variance: float = 0.1
    numeric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.noise_variance < np.inf:
            raise SettingsError(
                f"noise_variance must be positive and finite, got {self.noise_variance}"
            )

    @classmethod
    def start(cls, n_classes: int, n_nodes: int = 12) -> Self:
        """Return the likelihood with the noise variance 0.1, for labels of variance one."""
        return cls()

    def log_density(self, latent: Doubles, target: Any) -> Doubles:
        """Return log N(y | u, sigma^2); see `Likelihood`."""
        return _log_normal(target - latent[..., 0], self.noise_variance)

    def density_gradient(self, latent: Doubles, target: Any) -> Doubles:
        """Return d log p(y|u) / du, (n, 1)."""
        return np.asarray((target[:, np.newaxis] - latent) / self.noise_variance)

    def moments(self, mean: Doubles, variance: Doubles, target: Any) -> Moments:
        """Return log Z and its derivatives; see `Likelihood`."""
        total = variance + self.noise_variance
        slope = (target[:, np.newaxis] - mean) / total
        return Moments(self.log_z(mean, variance, target), slope, 1.0 / total)

    def log_z(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return log N(y | mean, variance + sigma^2), (n,)."""
        return _log_normal(target - mean[:, 0], variance[:, 0] + self.noise_variance)

    def moments_by_weight(
        self, mean: Doubles, variance: Doubles, target: Any, weight: Doubles
    ) -> Moments:
        """Return log Z of p(y|u)^w and its derivatives, for weights (n,); else as `moments`.

        With sigma^2 / w = rho, p(y|u)^w = N(y | u, rho) (2 pi rho)^(1/2) (2 pi sigma^2)^(-w/2).
        """
        noise = self.noise_variance / weight
        total = variance + noise[:, np.newaxis]
        residual = target[:, np.newaxis] - mean
        constant = 0.5 * np.log(2.0 * np.pi * noise)
        constant -= 0.5 * weight * np.log(2.0 * np.pi * self.noise_variance)
        log_z = _log_normal(residual[:, 0], total[:, 0]) + constant
        return Moments(log_z, residual / total, 1.0 / total)

    def predictive(self, mean: Doubles, variance: Doubles) -> tuple[Doubles, Doubles]:
        """Return mean and variance of the label, (n,) each, from those of the latent, (n, 1)."""
        return mean[:, 0], variance[:, 0] + self.noise_variance

    def loss(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return the squared error of the mean, (n,)."""
        return np.asarray((target - mean[:, 0]) ** 2)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The logarithm of the noise variance."""
        return ("log_noise_variance",)

    def parameters(self) -> Doubles:
        """Return log sigma^2, (1,)."""
        return np.log([self.noise_variance])

    def with_parameters(self, values: Doubles) -> Self:
        """Return the likelihood with another noise variance; see `Likelihood`."""
        self._check_count(values)
        with np.errstate(over="ignore"):  # refused by its own message
            return replace(self, noise_variance=float(np.exp(values[0])))

    def parameter_gradient(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return d log Z / d log sigma^2, (n, 1)."""
        return self._by_noise(mean, variance, target, self.noise_variance)

    def parameter_gradient_by_weight(
        self, mean: Doubles, variance: Doubles, target: Any, weight: Doubles
    ) -> Doubles:
        """Return the same of log Z of p(y|u)^w; see `moments_by_weight`."""
        noise = (self.noise_variance / weight)[:, np.newaxis]
        change = 0.5 - 0.5 * weight[:, np.newaxis]
        return np.asarray(self._by_noise(mean, variance, target, noise) + change)

    def _by_noise(
        self, mean: Doubles, variance: Doubles, target: Any, noise: Doubles | float
    ) -> Doubles:
        total = variance + noise
        square = (target[:, np.newaxis] - mean) ** 2
        return np.asarray(0.5 * noise * (square / total - 1.0) / total)


def _log_normal(residual: Doubles, variance: Doubles | float) -> Doubles:
    """Return log N(residual | 0, variance), any shape."""
    square = residual * residual / variance
    return np.asarray(-HALF_LOG_TWO_PI - 0.5 * (np.log(variance) + square))
