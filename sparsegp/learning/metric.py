"""A metric of all columns, from the gradients of the latent means.

Isotropic kernels see inputs through their distances alone. With the latent means f_c of a model,
centred over the classes, the average gradient outer product

    G = mean over rows and classes of grad f_c grad f_c^T

says along which directions they change. Scaled inputs are multiplied by the symmetric matrix

    M = c ((1 - rho) G + rho tr(G) / p I)^s,

and a model is fitted anew. That is a recursive feature machine (Radhakrishnan, Beaglehole, Pandit &
Belkin 2024, Science 383) whose latent means are those of the informative vector machine. Here c
keeps the sum of the variances of the columns, on which the length scales that `Kernel.fill` chooses
depend. Under M, gradients in the scaled inputs are those in the mixed ones times M.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sparsegp.fields import Checked, setting
from sparsegp.kernels import Kernel
from sparsegp.registry import Registry
from sparsegp.texts import read
from sparsegp.types import Doubles, Floats

NONE = "none"
"""The text that asks for no metric."""
FULL = "full"
"""The text that asks for one, by the usual numbers."""
MOST_COLUMNS = 256
"""With more columns a matrix of them is chance, and takes too long."""
SHRINKAGE = 0.1
"""rho: no direction is lost for good."""
ROWS = 128
"""Worked on at a time, so that temporaries stay in cache."""

METRICS: Registry[type["Metric"]] = Registry("metric")

Part = tuple[Kernel, Doubles, Doubles]
"""Latent means f_c(x) = sum_i w_ic k(x, u_i): kernel, active rows (d, p) and weights (d, R)."""


@METRICS.register(FULL)
@dataclass(frozen=True)
class Metric(Checked):
    """How a metric is learnt, by a text such as ``full`` or ``full(rounds=2, power=0.4)``."""

    rounds: int = setting(3, "Fits from whose gradients the metric is taken.", least=1, most=20)
    power: float = setting(0.5, "s, the power of G.", least=0, most=1)

    name: ClassVar[str] = FULL

    @classmethod
    def of(cls, text: str) -> "Metric | None":
        """Read the text of a metric; None for that of none.

        Raises
        ------
        SettingsError
            If it cannot be read.
        """
        if text == NONE:
            return None
        metric, made = read(text, METRICS, "'full(rounds=2, power=0.4)'", [NONE])
        return made or metric()

    def next(self, mixing: Doubles, slopes: Doubles, covariance: Doubles) -> Doubles:
        """Return the matrix by which scaled inputs are multiplied next, (p, p).

        Parameters
        ----------
        mixing : Doubles (p, p)
            The present one.
        slopes : Doubles (p, p)
            Average gradient outer product in inputs that were multiplied by that.
        covariance : Doubles (p, p)
            Of scaled inputs.
        """
        values, vectors = np.linalg.eigh(mixing @ slopes @ mixing.T)
        shrunk = (1.0 - SHRINKAGE) * np.maximum(values, 0.0) + SHRINKAGE * values.mean()
        if not shrunk[0] > 0.0:  # a flat function
            return mixing
        root = (vectors * (shrunk / shrunk[-1]) ** self.power) @ vectors.T
        total = np.trace(root @ covariance @ root)
        return np.asarray(root * np.sqrt(np.trace(covariance) / total if total else 1.0))


def learn_mixing(
    metric: Metric,
    covariance: Doubles,
    fit: Callable[[Doubles], tuple[Floats, Sequence[Part]]],
    report: Callable[[int], None] = lambda done: None,
) -> Doubles:
    """Return the matrix by which scaled inputs are multiplied, (p, p).

    Parameters
    ----------
    metric : Metric
    covariance : Doubles (p, p)
        Of scaled inputs.
    fit : callable
        From a matrix to rows that were multiplied by it, and the latent means that fit them.
    report : callable
        Called with the number of fits after each.
    """
    mixing = np.eye(len(covariance))
    for done in range(metric.rounds):
        mixed, parts = fit(mixing)
        mixing = metric.next(mixing, average_outer_product(parts, mixed), covariance)
        report(done + 1)
    return mixing


def average_outer_product(parts: Sequence[Part], X: Floats) -> Doubles:
    """Return the mean over rows and classes of grad f_c grad f_c^T, (p, p), for rows X (n, p)."""
    total, count = np.zeros((X.shape[1], X.shape[1])), 0
    for slopes in centred_slopes(parts, X):
        total += slopes.T @ slopes
        count += len(slopes)
    return total / count


def centred_slopes(parts: Sequence[Part], X: Floats) -> Iterator[Doubles]:
    """Yield the slopes of latent means at some rows of X (n, p) after the other, (R * rows, p).

    With several latent values, in all parts together, their mean is taken from each.
    """
    for start in range(0, len(X), ROWS):
        rows = X[start : start + ROWS]
        slopes = np.concatenate([kernel.slopes(rows, U, w) for kernel, U, w in parts])
        if len(slopes) > 1:
            slopes -= slopes.mean(axis=0)
        yield slopes.reshape(-1, X.shape[1])


def sees_columns(kernel: Kernel) -> bool:
    """Whether a kernel, or a part of it, treats columns one by one."""
    parts: Sequence[Kernel] = getattr(kernel, "parts", ())
    return kernel.variadic or any(map(sees_columns, parts))
