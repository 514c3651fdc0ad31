"""Approximate fits, by which kernels are compared on held-out rows.

As in the all-data posterior (posterior/all_data.py), every row contributes to the latent means,
which lie in the span of some active rows; parts of a fit that do not affect the comparison are left
out. The active rows are simply the first ones. The likelihood is the softmax or, in a regression,
Gaussian noise (learning/linear_rows.py), for which the first iteration solves the linear system.
Probabilities are computed from the latent means alone. The prior variance factor is the one that
predicts the held-out rows best; since all kernels have this choice, no separate rows are kept for
it.

With I + C = L L^T on the active rows, the features of a row are w = L^-1 k_u, the latent means
w . c, and the penalty is c^T P c / (2 s) with P = I - L^-1 L^-T.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.learning.linear_rows import make_rows, predictions, target_log_p
from sparsegp.learning.metric import Part
from sparsegp.math import linalg
from sparsegp.math.lbfgs import Ascent
from sparsegp.posterior.base import penalty_jitter
from sparsegp.posterior.prior_variance import MAX_STEPS, scale_of
from sparsegp.types import Doubles, Floats

FIRST_STEP = -1
"""Steps from the kernel's own variance to the prior variance factor tried first."""
ROWS = 2048
"""Number of rows whose features are computed at a time."""
TOLERANCE = 1e-4
"""Gain of an iteration, in nats per row, at which an ascent ends."""


@dataclass(eq=False)
class ApproximateFit:
    """Approximate fit with one kernel, for a sequence of prior variance factors.

    Raises
    ------
    NumericalError
        If the kernel does not suit the rows or the precision.
    """

    kernel: Kernel
    X: Floats  # scaled rows to fit (n, p); the first `n_active` are active
    target: Any  # their class codes (n,), or targets of a regression
    n_classes: int
    n_active: int
    X_held: Floats  # scaled held-out rows (m, p)
    weights: Floats | None = None  # of the log likelihoods of the rows (n,)
    scale: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.active = self.X[: self.n_active].astype(np.float64)
        d = len(self.active)
        covariance = np.asarray(self.kernel(self.active, self.active), dtype=np.float64)
        covariance[np.diag_indices(d)] += 1.0
        self.factor = linalg.lower_cholesky(covariance, "the covariance of the active rows")
        self.features, self.held_features = map(self._features, (self.X, self.X_held))
        inverse = linalg.inverse_triangle(self.factor)
        total, precise = float(covariance.trace()), float(np.finfo(np.float64).eps)
        # above the rounding errors of the inverse: otherwise the penalty could be indefinite
        jitter = max(penalty_jitter(total / d, d, self.X.dtype), precise * total)
        self.penalty = np.eye(d) - (1.0 - jitter) * (inverse @ inverse.T)
        self.rows = make_rows(self.features, self.target, self.n_classes, self.weights)
        weighted = self.features if self.weights is None else self.features * self.weights
        self.bound = self.rows.bound * (weighted @ self.features.T).astype(np.float64)
        self.ascent: Ascent | None = None

    def _features(self, X: Floats) -> Floats:
        """Return the features (d, n) of rows (n, p), computed in pieces to save memory."""
        active, found = self.active.astype(X.dtype), np.empty((len(self.active), len(X)), X.dtype)
        for start in range(0, len(X), ROWS):
            some = slice(start, start + ROWS)
            found[:, some] = linalg.solve_lower_in_place(self.factor, self.kernel(active, X[some]))
        return found

    def maximise(self, scale: float) -> Doubles:
        """Fit with a prior variance factor, from the last fit on; return held-out means (m, K)."""
        former, self.scale = self.scale, scale
        least = float(np.finfo(self.features.dtype).eps)
        metric, _ = linalg.jittered_cholesky(self.penalty / scale + self.bound, "the metric", least)
        if self.ascent is None:
            start = np.zeros((len(self.penalty), self.rows.n_latent))
            self.ascent = Ascent.at(start, self._value_and_gradient)
        else:
            weight = 1.0 / scale - 1.0 / former
            self.ascent = self.ascent.minus_quadratic(lambda c: weight * (self.penalty @ c))
        solve = partial(linalg.solve_factored, metric)
        self.rows.maximise(self.ascent, self._value_and_gradient, solve, TOLERANCE)
        mean = self.held_features.T @ self.ascent.point.astype(self.features.dtype)
        return np.asarray(mean, dtype=np.float64)

    def part(self) -> Part:
        """Return the latent means of the last fit, in the form that metric.py differentiates."""
        assert self.ascent is not None
        weights = linalg.solve_lower(self.factor, self.ascent.point, transposed=True)
        return self.kernel, self.active, weights

    def _value_and_gradient(self, c: Doubles) -> tuple[float, Doubles]:
        return self.rows.value_and_gradient(c, self.penalty @ c / self.scale)


@dataclass(frozen=True, eq=False)
class FitResult:
    """Approximate fits with the prior variance factor that predicts the held-out rows best."""

    scale: float  # the prior variance factor
    nlpp: float  # mean of -log p of the labels of the held-out rows, in nats
    predicted: Doubles  # log class probabilities (m, K), fit by fit; in a regression means (m, 1)
    parts: Sequence[Part]  # the latent means of the fits


def choose_prior_variance(
    fits: Sequence[ApproximateFit], target: Any, weights: Doubles | None = None
) -> FitResult:
    """Choose one prior variance factor for several fits, by all their held-out rows together.

    Parameters
    ----------
    fits : sequence of ApproximateFit
    target : array (m,)
        Class codes or regression targets of the held-out rows, fit by fit.
    weights : Doubles (m,), optional
        Weights of these rows.
    """
    tried: dict[int, FitResult] = {}
    step = best = FIRST_STEP
    while step not in tried and abs(step) <= MAX_STEPS:
        scale = scale_of(step)
        mean = np.concatenate([fit.maximise(scale) for fit in fits])
        found = predictions(mean, target)
        nlpp = -float(np.average(target_log_p(found, target, weights), weights=weights))
        tried[step] = FitResult(scale, nlpp, found, [fit.part() for fit in fits])
        best = min(tried, key=lambda each: tried[each].nlpp)
        step = best - 1 if best + 1 in tried else best + 1
    return tried[best]
