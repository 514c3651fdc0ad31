"""Quick fits, by which kernels are compared on held-out rows.

As in the all-data posterior (posterior/all_data.py) all rows shape the latent means in the span of
some active rows; what is left out is what makes no difference between kernels. The active rows are
the first, which need no selection. The likelihood is the softmax (learning/softmax.py), or
Gaussian noise (learning/numbers.py), with which the first round solves the linear system.
Probabilities are those of the latent means. The scale of the prior variance is the one at which
the held-out rows are predicted best; all kernels have that choice, so no other rows are kept for
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
from sparsegp.learning.metric import Part
from sparsegp.learning.numbers import log_p_of, predicted, rows_of
from sparsegp.math.lbfgs import Ascent
from sparsegp.math.linalg import (
    inverse_triangle,
    jittered_cholesky,
    lower_cholesky,
    solve_factored,
    solve_lower,
    solved_in_place,
)
from sparsegp.types import Doubles, Floats

STEP, FIRST, FARTHEST = np.sqrt(10.0), -1, 6
"""Factor from one prior scale to the next, and the powers of it that are tried: the first, and the
last on either side."""
ROWS = 2048
"""Whose features are worked out at a time."""
TOLERANCE = 1e-4
"""Gain of a round, in nats a row, at which an ascent ends."""


@dataclass(eq=False)
class QuickFit:
    """Fits of some rows with one kernel, for one prior scale after the other.

    Parameters
    ----------
    kernel : Kernel
    X : Floats (n, p)
        Scaled rows, of which the first are active.
    target : array (n,)
        Class codes, or numbers.
    n_classes, n_active : int
    X_held : Floats (m, p)
        Scaled rows that are held out.
    weights : Floats (n,), optional
        By which the log likelihoods of the rows are multiplied.

    Raises
    ------
    NumericalError
        If the kernel does not suit the rows or the precision.
    """

    kernel: Kernel
    X: Floats
    target: Any
    n_classes: int
    n_active: int
    X_held: Floats
    weights: Floats | None = None
    scale: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.active = self.X[: self.n_active].astype(np.float64)
        d = len(self.active)
        covariance = np.asarray(self.kernel(self.active, self.active), dtype=np.float64)
        covariance[np.diag_indices(d)] += 1.0
        self.factor = lower_cholesky(covariance, "the covariance of the active rows")
        self.features, self.held_features = map(self._features, (self.X, self.X_held))
        inverse = inverse_triangle(self.factor)
        self.penalty = np.eye(d) - inverse @ inverse.T
        self.rows = rows_of(self.features, self.target, self.n_classes, self.weights)
        weighted = self.features if self.weights is None else self.features * self.weights
        self.bound = self.rows.bound * (weighted @ self.features.T).astype(np.float64)
        self.ascent: Ascent | None = None

    def _features(self, X: Floats) -> Floats:
        """Return the features of rows (n, p), (d, n), in pieces for the sake of memory."""
        own = self.factor.astype(X.dtype)  # so that all is in that precision
        active, found = self.active.astype(X.dtype), np.empty((len(own), len(X)), X.dtype)
        for start in range(0, len(X), ROWS):
            some = slice(start, start + ROWS)
            found[:, some] = solved_in_place(own, self.kernel(active, X[some]))
        return found

    def climb(self, scale: float) -> Doubles:
        """Go to the maximum for a prior scale, from the last one; return held-out means (m, K)."""
        former, self.scale = self.scale, scale
        least = float(np.finfo(self.features.dtype).eps)
        metric, _ = jittered_cholesky(self.penalty / scale + self.bound, "the metric", least)
        if self.ascent is None:
            start = np.zeros((len(self.penalty), self.rows.n_latent))
            self.ascent = Ascent.at(start, self._value_and_gradient)
        else:
            weight = 1.0 / scale - 1.0 / former
            self.ascent = self.ascent.less_quadratic(lambda c: weight * (self.penalty @ c))
        solve = partial(solve_factored, metric)
        self.rows.climb(self.ascent, self._value_and_gradient, solve, TOLERANCE)
        mean = self.held_features.T @ self.ascent.point.astype(self.features.dtype)
        return np.asarray(mean, dtype=np.float64)

    def part(self) -> Part:
        """Return the latent means where the last climb ended, as their gradients are taken."""
        assert self.ascent is not None
        weights = solve_lower(self.factor, self.ascent.point, transposed=True)
        return self.kernel, self.active, weights

    def _value_and_gradient(self, c: Doubles) -> tuple[float, Doubles]:
        return self.rows.value_and_gradient(c, self.penalty @ c / self.scale)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Quick fits at the prior scale that suits the held-out rows best.

    Attributes
    ----------
    scale : float
    nlpp : float
        Mean of -log p of the labels of the held-out rows, in nats.
    predicted : Doubles (m, K)
        Log probabilities of these rows, those of one fit after the other; or numbers, (m, 1).
    parts : sequence of Part
        The latent means of the fits.
    """

    scale: float
    nlpp: float
    predicted: Doubles
    parts: Sequence[Part]


def fitted(fits: Sequence[QuickFit], target: Any, weights: Doubles | None = None) -> Fitted:
    """Return fits, of several parts of the rows, at the scale that is best for all together.

    Parameters
    ----------
    fits : sequence of QuickFit
    target : array (m,)
        Class codes, or numbers, of the rows that they hold out, those of one fit after the other.
    weights : Doubles (m,), optional
        Of these rows.
    """
    tried: dict[int, Fitted] = {}
    step = best = FIRST
    while step not in tried and abs(step) <= FARTHEST:
        scale = float(STEP**step)
        mean = np.concatenate([fit.climb(scale) for fit in fits])
        found = predicted(mean, target)
        nlpp = -float(np.average(log_p_of(found, target, weights), weights=weights))
        tried[step] = Fitted(scale, nlpp, found, [fit.part() for fit in fits])
        best = min(tried, key=lambda each: tried[each].nlpp)
        step = best - 1 if best + 1 in tried else best + 1
    return tried[best]
