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

LEAST_NOISE = 1e-10
"""Minimum noise variance, for targets of variance one: exact predictions have infinite density."""


@dataclass(frozen=True, eq=False)
class Numbers(Softmax):
    """Rows of a regression with standardised targets and one latent value; see `Softmax`."""

    bound: ClassVar[float] = 1.0

    @property
    def n_latent(self) -> int:
        """One."""
        return 1

    def log_p_and_rest(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log densities up to a constant (n,), and residuals (n, 1)."""
        rest = (self.target[:, np.newaxis] - latent).astype(latent.dtype)
        return -0.5 * rest[:, 0] ** 2, rest

    def judged(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log densities at the best noise variance (n,), and their gradient (n, 1).

        As this variance maximises their sum, it adds nothing to the gradient of the sum.
        """
        log_p = log_p_of(np.asarray(latent, np.float64), self.target, self.weights)
        rest = self.log_p_and_rest(latent)[1]
        return log_p.astype(latent.dtype), rest / _noise(rest[:, 0] ** 2, self.weights)

    def probability(self, rest: Floats) -> Floats:
        """Return the residuals, on which the curvature does not depend."""
        return rest

    def curvature(self, p: Floats) -> Floats:
        """Return one for each row, (n,)."""
        return np.ones(len(p), p.dtype)

    def bend(self, p: Floats, change: Floats) -> Floats:
        """Multiply changes of latent values, (n, 1), by minus the Hessian of the log likelihood."""
        return self.weighted(change)


def rows_of(features: Floats, target: Any, n_classes: int, weights: Floats | None) -> Softmax:
    """Create `Numbers` if the targets (n,) are floating-point, else `Logistic` or `Softmax`."""
    kind = Numbers if are_numbers(target) else Logistic if n_classes == 2 else Softmax
    return kind(features, target, n_classes, weights)


def are_numbers(target: Any) -> bool:
    """Return whether targets are those of a regression rather than class codes."""
    return bool(target.dtype.kind == "f")


def predicted(mean: Doubles, target: Any) -> Doubles:
    """Return log class probabilities (n, K) from latent means; the means (n, 1) in a regression."""
    return mean if are_numbers(target) else log_probabilities(mean)


def log_p_of(prediction: Doubles, target: Any, weights: Floats | None = None) -> Doubles:
    """Return log p of the target of each row, (n,), from what `predicted` returns.

    Weights (n,) only affect the noise variance in a regression.
    """
    if not are_numbers(target):
        return np.asarray(prediction[np.arange(len(target)), target])
    square = (target - prediction[:, 0]) ** 2
    noise = _noise(square, weights)
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * noise) + square / noise))


def _noise(square: Floats, weights: Floats | None) -> float:
    return max(float(np.average(square, weights=weights)), LEAST_NOISE)
