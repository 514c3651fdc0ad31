"""Likelihoods of latent values that are linear in coefficients, and their maximisation.

For classes this is the softmax. The log likelihood of rows with latent values f = F^T c, minus a
quadratic penalty, is concave in c and needs no quadrature. With p the probabilities of a row, its
curvature in the latent values is diag(p) - p p^T, at most (I - 1 1^T / K) / 2 (Böhning 1992, Ann.
Inst. Statist. Math. 44).

In a regression Gaussian noise of variance one takes its place: latent means depend only on the
ratio of prior to noise variance, and the prior variance is free. Held-out targets are scored with
the noise variance that maximises their density, the mean squared residual.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from sparsegp.math.lbfgs import Ascent, Function
from sparsegp.math.products import matmul_few_columns
from sparsegp.math.subnormals import exp_in_place
from sparsegp.types import Doubles, Floats

MAX_ROUNDS = 30
"""Maximum number of iterations of one ascent."""
RESOLUTION = 1e-6
"""Log likelihood difference, in nats per row, due to rounding in single precision."""
ROOT = 2.0**0.5
MIN_NOISE = 1e-10
"""Minimum noise variance, for targets of variance one: exact predictions have infinite density."""


@dataclass(frozen=True, eq=False)
class SoftmaxRows:
    """Rows with a softmax likelihood and latent values that are linear in their features."""

    features: Floats  # (d, n); large products are computed in their precision
    target: Any  # class codes (n,)
    n_latent: int  # number of latent values per row: the number of classes
    weights: Floats | None = None  # of the log likelihoods of the rows (n,)

    bound: ClassVar[float] = 0.5
    """Upper bound on the curvature of -log p in the latent values."""

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(len(self.target) if self.weights is None else self.weights.sum())

    def latent(self, c: Doubles) -> Floats:
        """Return the latent values (n, K) for coefficients (d, K)."""
        return matmul_few_columns(self.features.T, c.astype(self.features.dtype))

    def coefficient_gradient(self, slope: Floats) -> Doubles:
        """Return the gradient in coefficients, (d, K), given that in latent values, (n, K)."""
        return np.asarray(matmul_few_columns(self.features, slope), np.float64)

    def log_p_and_gradient(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log p of each row's class (n,), and its gradient in the latent values (n, K).

        The gradient is the one-hot label minus the probabilities.
        """
        by_class, number = np.ascontiguousarray(latent.T), np.arange(len(latent))
        by_class = by_class - by_class.max(axis=0)
        p = exp_in_place(by_class.copy())
        total = p.sum(axis=0)
        log_p = by_class[self.target, number] - np.log(total)
        p /= -total
        p[self.target, number] += 1.0
        return log_p, np.ascontiguousarray(p.T)

    def probability(self, gradient: Floats) -> Floats:
        """Return the probabilities (n, K) from the gradient of log p, (n, K)."""
        p = -gradient
        p[np.arange(len(p)), self.target] += 1.0
        return p

    def held_out_log_p_and_gradient(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log p of held-out rows (n,), and its gradient (n, K)."""
        return self.log_p_and_gradient(latent)

    def curvature(self, p: Floats) -> Floats:
        """Return the curvature of -log p, (n,): the trace of its Hessian divided by K - 1."""
        return _row_sums(p * (1.0 - p)) / (self.n_latent - 1)

    def hessian_product(self, p: Floats, change: Floats) -> Floats:
        """Multiply changes of latent values, (n, K), by minus the Hessian of the log likelihood."""
        bent = p * change
        bent -= p * _row_sums(bent)[:, np.newaxis]
        return self.weighted(bent)

    def weighted(self, of_rows: Floats) -> Floats:
        """Multiply values per row, (n, ...), by the row weights."""
        if self.weights is None:
            return of_rows
        weights = self.weights.astype(of_rows.dtype)
        return np.asarray((of_rows.T * weights).T)

    def value_and_gradient(self, c: Doubles, shrinkage: Doubles) -> tuple[float, Doubles]:
        """Return log likelihood minus c . P c / 2, and its gradient, (d, K), given P c."""
        log_p, gradient = self.log_p_and_gradient(self.latent(c))
        value = float(self.weighted(log_p).sum(dtype=np.float64))
        value -= 0.5 * float(np.vdot(c, shrinkage))
        return value, self.coefficient_gradient(self.weighted(gradient)) - shrinkage

    def maximise(
        self,
        ascent: Ascent,
        function: Function,
        solve: Callable[[Doubles], Doubles],
        tolerance: float,
    ) -> None:
        """Maximise a function until an iteration gains little.

        Parameters
        ----------
        ascent : Ascent
            Starting point; modified in place.
        function : callable
        solve : callable
            Applies the inverse of the metric of the ascent.
        tolerance : float
            Gain at which to stop, in nats per row.
        """
        for _ in range(MAX_ROUNDS):
            gain = ascent.step(function, solve, RESOLUTION * self.total)
            if gain <= tolerance * self.total:
                break


class LogisticRows(SoftmaxRows):
    """Rows of two classes, with latent values h / sqrt(2) and -h / sqrt(2); see `SoftmaxRows`.

    At the maximum the two latent values of the softmax have this form. Here only h is computed: its
    coefficients have the same penalty as those of both, and products have one column, not two.
    """

    def log_p_and_gradient(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log p of the class of each row (n,), and its gradient (n, 1)."""
        sign = np.where(self.target == 0, ROOT, -ROOT).astype(latent.dtype)
        lead = sign * latent[:, 0]
        ratio = exp_in_place(-np.abs(lead))
        other = np.where(lead > 0.0, ratio, 1.0) / (1.0 + ratio)
        return np.minimum(lead, 0.0) - np.log1p(ratio), (sign * other)[:, np.newaxis]

    def probability(self, gradient: Floats) -> Floats:
        """Return the probability of the other class, (n, 1), from the gradient of log p."""
        return np.asarray(np.abs(gradient) / gradient.dtype.type(ROOT))

    def curvature(self, p: Floats) -> Floats:
        """Return the curvature of -log p, (n,)."""
        return np.asarray(2.0 * p[:, 0] * (1.0 - p[:, 0]))

    def hessian_product(self, p: Floats, change: Floats) -> Floats:
        """Multiply changes of latent values, (n, 1), by minus the Hessian of the log likelihood."""
        return self.weighted(2.0 * p * (1.0 - p) * change)


class GaussianRows(SoftmaxRows):
    """Rows of a regression with standardised targets and one latent value; see `SoftmaxRows`."""

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


def make_rows(features: Floats, target: Any, n_classes: int, weights: Floats | None) -> SoftmaxRows:
    """Create `GaussianRows` if targets (n,) are floats, else `LogisticRows` or `SoftmaxRows`."""
    if is_regression_target(target):
        return GaussianRows(features, target, 1, weights)
    if n_classes == 2:
        return LogisticRows(features, target, 1, weights)
    return SoftmaxRows(features, target, n_classes, weights)


def is_regression_target(target: Any) -> bool:
    """Return whether targets are regression targets, not class codes."""
    return bool(target.dtype.kind == "f")


def predictions(mean: Doubles, target: Any) -> Doubles:
    """Return log class probabilities (n, K) from latent means; in a regression the means (n, 1)."""
    if is_regression_target(target):
        return mean
    if mean.shape[1] == 1:  # from `LogisticRows`
        mean = np.hstack([mean, -mean]) / ROOT
    return np.asarray(log_softmax(mean, axis=1))


def target_log_p(prediction: Doubles, target: Any, weights: Floats | None = None) -> Doubles:
    """Return log p of the target of each row, (n,), given the result of `predictions`.

    Weights (n,) only affect the noise variance in a regression.
    """
    if not is_regression_target(target):
        return np.asarray(prediction[np.arange(len(target)), target])
    square = (target - prediction[:, 0]) ** 2
    noise = _noise(square, weights)
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * noise) + square / noise))


def _row_sums(values: Floats) -> Floats:
    """Return the sums of the rows of (n, K), up to eight times as fast as numpy for few columns."""
    return np.asarray(np.ascontiguousarray(values.T).sum(axis=0))


def _noise(square: Floats, weights: Floats | None) -> float:
    return max(float(np.average(square, weights=weights)), MIN_NOISE)
