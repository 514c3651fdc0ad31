"""Approximate fits of a regression, with Gaussian noise in place of the softmax.

The noise has variance one: latent means depend only on the ratio of prior and noise variance, and
the prior variance is free. Held-out targets are judged with the noise variance that maximises their
density, the mean squared residual.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.learning.softmax import Logistic, Softmax, log_probabilities
from sparsegp.types import Doubles, Floats

MIN_NOISE = 1e-10
"""Minimum noise variance, for targets of variance one: exact predictions have infinite density."""


@dataclass(frozen=True, eq=False)
class GaussianRows(Softmax):
    """Rows of a regression with standardised targets and one latent value; see `Softmax`."""

    bound: ClassVar[float] = 1.0

    def log_p_and_gradient(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log densities up to a constant (n,), and residuals (n, 1)."""
        residual = (self.target[:, np.newaxis] - latent).astype(latent.dtype)
        return -0.5 * residual[:, 0] ** 2, residual

    def held_out_log_p_and_gradient(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log densities at the best noise variance (n,), and their gradient (n, 1).

        As this variance maximises their sum, it adds nothing to the gradient of the sum.
        """
        log_p = target_log_p(np.asarray(latent, np.float64), self.target, self.weights)
        residual = self.log_p_and_gradient(latent)[1]
        noise = _noise(residual[:, 0] ** 2, self.weights)
        return log_p.astype(latent.dtype), residual / noise

    def probability(self, gradient: Floats) -> Floats:
        """Return the residuals, on which the curvature does not depend."""
        return gradient

    def curvature(self, p: Floats) -> Floats:
        """Return one for each row, (n,)."""
        return np.ones(len(p), p.dtype)

    def hessian_product(self, p: Floats, change: Floats) -> Floats:
        """Multiply changes of latent values, (n, 1), by minus the Hessian of the log likelihood."""
        return self.weighted(change)


def make_rows(features: Floats, target: Any, n_classes: int, weights: Floats | None) -> Softmax:
    """Create `GaussianRows` if targets (n,) are floating-point, else `Logistic` or `Softmax`."""
    if is_regression_target(target):
        return GaussianRows(features, target, 1, weights)
    if n_classes == 2:
        return Logistic(features, target, 1, weights)
    return Softmax(features, target, n_classes, weights)


def is_regression_target(target: Any) -> bool:
    """Return whether targets are those of a regression rather than class codes."""
    return bool(target.dtype.kind == "f")


def predictions(mean: Doubles, target: Any) -> Doubles:
    """Return log class probabilities (n, K) from latent means; the means (n, 1) in a regression."""
    return mean if is_regression_target(target) else log_probabilities(mean)


def target_log_p(prediction: Doubles, target: Any, weights: Floats | None = None) -> Doubles:
    """Return log p of the target of each row, (n,), from what `predictions` returns.

    Weights (n,) only affect the noise variance in a regression.
    """
    if not is_regression_target(target):
        return np.asarray(prediction[np.arange(len(target)), target])
    square = (target - prediction[:, 0]) ** 2
    noise = _noise(square, weights)
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * noise) + square / noise))


def _noise(square: Floats, weights: Floats | None) -> float:
    return max(float(np.average(square, weights=weights)), MIN_NOISE)
