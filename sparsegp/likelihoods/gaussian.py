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

    def moments(self, mean: Doubles, variance: Doubles, target: Any) -> Moments:
        """Return log Z and its derivatives; see `Likelihood`."""
        total = variance + self.noise_variance
        slope = (target[:, np.newaxis] - mean) / total
        return Moments(self.log_z(mean, variance, target), slope, 1.0 / total)

    def log_z(self, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
        """Return log N(y | mean, variance + sigma^2), (n,)."""
        return _log_normal(target - mean[:, 0], variance[:, 0] + self.noise_variance)

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
        total = variance + self.noise_variance
        square = (target[:, np.newaxis] - mean) ** 2
        return np.asarray(0.5 * self.noise_variance * (square / total - 1.0) / total)


def _log_normal(residual: Doubles, variance: Doubles | float) -> Doubles:
    """Return log N(residual | 0, variance), any shape."""
    square = residual * residual / variance
    return np.asarray(-HALF_LOG_TWO_PI - 0.5 * (np.log(variance) + square))
