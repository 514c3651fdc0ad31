"""Numbers with Gaussian noise where classes have the softmax, and what fits to either predict.

The noise has variance one: latent means depend on prior and noise variance by their ratio alone,
and the prior variance is open. Numbers that are held out are judged with the noise variance at
which they are likeliest, the mean square of their residuals.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.learning.softmax import Logistic, Softmax, log_probabilities
from sparsegp.types import Doubles, Floats

LEAST_NOISE = 1e-10
"""For numbers of variance one: what is told without any error would be infinitely likely."""


@dataclass(frozen=True, eq=False)
class Numbers(Softmax):
    """Rows whose targets are numbers of variance one; see `Softmax`, with one latent value."""

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
        """Return log densities at the best noise variance (n,), and their slopes (n, 1).

        That variance is where they are greatest, so it adds nothing to the slopes of the sum.
        """
        log_p = log_p_of(np.asarray(latent, np.float64), self.target, self.weights)
        rest = self.log_p_and_rest(latent)[1]
        return log_p.astype(latent.dtype), rest / _noise(rest[:, 0] ** 2, self.weights)

    def probability(self, rest: Floats) -> Floats:
        """Return what the curvature does not depend on."""
        return rest

    def curvature(self, p: Floats) -> Floats:
        """Return one for each row, (n,)."""
        return np.ones(len(p), p.dtype)

    def bend(self, p: Floats, change: Floats) -> Floats:
        """Return minus the Hessian of the log likelihood times changes, (n, 1)."""
        return self.weighted(change)


def rows_of(features: Floats, target: Any, n_classes: int, weights: Floats | None) -> Softmax:
    """Return rows of classes, or of numbers where targets (n,) are doubles."""
    kind = Numbers if are_numbers(target) else Logistic if n_classes == 2 else Softmax
    return kind(features, target, n_classes, weights)


def are_numbers(target: Any) -> bool:
    """Whether targets are numbers, and no class codes."""
    return bool(target.dtype.kind == "f")


def predicted(mean: Doubles, target: Any) -> Doubles:
    """Return log class probabilities (n, K) for latent means; of numbers these, (n, 1)."""
    return mean if are_numbers(target) else log_probabilities(mean)


def log_p_of(prediction: Doubles, target: Any, weights: Floats | None = None) -> Doubles:
    """Return log p of the target of each row, (n,), by what is `predicted`.

    Weights (n,) count in the noise variance of numbers alone.
    """
    if not are_numbers(target):
        return np.asarray(prediction[np.arange(len(target)), target])
    square = (target - prediction[:, 0]) ** 2
    noise = _noise(square, weights)
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * noise) + square / noise))


def _noise(square: Floats, weights: Floats | None) -> float:
    return max(float(np.average(square, weights=weights)), LEAST_NOISE)
