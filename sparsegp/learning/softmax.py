"""The softmax of latent values that are linear in some coefficients, and its maximum.

The log likelihood of rows with latent values f = F^T c, less a quadratic penalty, is concave in c
and needs no quadrature. With p the probabilities of a row, its curvature in the latent values is
diag(p) - p p^T, at most (I - 1 1^T / K) / 2 (Böhning 1992, Ann. Inst. Statist. Math. 44).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from sparsegp.math.lbfgs import Ascent, Function
from sparsegp.math.products import times_few
from sparsegp.types import Doubles, Floats

MAX_ROUNDS = 30
"""Of one ascent."""
RESOLUTION = 1e-6
"""Difference of log likelihoods, in nats a row, that means nothing in single precision."""
ROOT = 2.0**0.5


@dataclass(frozen=True, eq=False)
class Softmax:
    """Rows, and the features of which their latent values are made.

    Attributes
    ----------
    features : Floats (d, n)
        All large products have their precision.
    target : array (n,)
        Class codes.
    n_classes : int
    weights : Floats (n,), optional
        By which the log likelihoods of the rows are multiplied.
    """

    features: Floats
    target: Any
    n_classes: int
    weights: Floats | None = None

    bound: ClassVar[float] = 0.5
    """Of the curvature of minus log p in the latent values."""

    @property
    def n_latent(self) -> int:
        """Number of latent values of a row."""
        return self.n_classes

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(len(self.target) if self.weights is None else self.weights.sum())

    def latent(self, c: Doubles) -> Floats:
        """Return the latent values (n, K) of coefficients (d, K)."""
        return times_few(self.features.T, c.astype(self.features.dtype))

    def pulled(self, slope: Floats) -> Doubles:
        """Return the slope in the coefficients, (d, K), by that in the latent values, (n, K)."""
        return np.asarray(times_few(self.features, slope), np.float64)

    def log_p_and_rest(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log p of the class of each row (n,), and by how much all p miss 0 or 1, (n, K).

        That rest is the slope of log p in the latent values (n, K).
        """
        mean = latent - latent.max(axis=1, keepdims=True)
        p = np.exp(mean)
        total, number = p.sum(axis=1, keepdims=True), np.arange(len(mean))
        log_p = mean[number, self.target] - np.log(total[:, 0])
        p /= -total
        p[number, self.target] += 1.0
        return log_p, p

    def probability(self, rest: Floats) -> Floats:
        """Return the probabilities (n, K) that miss 0 or 1 by so much."""
        p = -rest
        p[np.arange(len(p)), self.target] += 1.0
        return p

    def judged(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log p of rows that are held out (n,), and its slopes (n, K)."""
        return self.log_p_and_rest(latent)

    def curvature(self, p: Floats) -> Floats:
        """Return that of minus log p, (n,), averaged over the classes as if independent."""
        found: Floats = (p * (1.0 - p)).sum(axis=1) / (self.n_classes - 1)
        return found

    def bend(self, p: Floats, change: Floats) -> Floats:
        """Return minus the Hessian of the log likelihood times changes of latent values, (n, K)."""
        bent = p * change
        bent -= p * bent.sum(axis=1, keepdims=True)
        return self.weighted(bent)

    def weighted(self, of_rows: Floats) -> Floats:
        """Return what belongs to rows, (n, ...), times their weights."""
        if self.weights is None:
            return of_rows
        weights = self.weights.astype(of_rows.dtype)
        return np.asarray((of_rows.T * weights).T)

    def value_and_gradient(self, c: Doubles, pull: Doubles) -> tuple[float, Doubles]:
        """Return the log likelihood less c . pull / 2, and its gradient, (d, K), for pull = P c."""
        log_p, rest = self.log_p_and_rest(self.latent(c))
        value = float(self.weighted(log_p).sum(dtype=np.float64)) - 0.5 * float(np.vdot(c, pull))
        return value, self.pulled(self.weighted(rest)) - pull

    def climb(
        self,
        ascent: Ascent,
        function: Function,
        solve: Callable[[Doubles], Doubles],
        small: float,
    ) -> None:
        """Go to the maximum of a function, until a round gains little.

        Parameters
        ----------
        ascent : Ascent
            Where to start; the end is left there.
        function : callable
        solve : callable
            Applies the inverse of the metric of the ascent.
        small : float
            Nats a row.
        """
        for _ in range(MAX_ROUNDS):
            gain = ascent.step(function, solve, RESOLUTION * self.total)
            if gain <= small * self.total:
                break


class Logistic(Softmax):
    """Rows of two classes, whose latent values are h and -h over the root of two; see `Softmax`.

    At the maximum those of the softmax are so too. Here only h is worked out: the penalty of its
    coefficients is that of both together, and products have one column in place of two.
    """

    @property
    def n_latent(self) -> int:
        """One."""
        return 1

    def log_p_and_rest(self, latent: Floats) -> tuple[Floats, Floats]:
        """Return log p of the class of each row (n,), and its slopes (n, 1)."""
        sign = np.where(self.target == 0, ROOT, -ROOT).astype(latent.dtype)
        lead = sign * latent[:, 0]
        ratio = np.exp(-np.abs(lead))
        other = np.where(lead > 0.0, ratio, 1.0) / (1.0 + ratio)
        return np.minimum(lead, 0.0) - np.log1p(ratio), (sign * other)[:, np.newaxis]

    def probability(self, rest: Floats) -> Floats:
        """Return how probable the other class is, (n, 1)."""
        return np.asarray(np.abs(rest) / rest.dtype.type(ROOT))

    def curvature(self, p: Floats) -> Floats:
        """Return that of minus log p, (n,)."""
        return np.asarray(2.0 * p[:, 0] * (1.0 - p[:, 0]))

    def bend(self, p: Floats, change: Floats) -> Floats:
        """Return minus the Hessian of the log likelihood times changes, (n, 1)."""
        return self.weighted(2.0 * p * (1.0 - p) * change)


def log_probabilities(mean: Doubles) -> Doubles:
    """Return those of the classes, (n, K), for latent means (n, K); or (n, 1), see `Logistic`."""
    if mean.shape[1] == 1:
        mean = np.hstack([mean, -mean]) / ROOT
    return np.asarray(log_softmax(mean, axis=1))
