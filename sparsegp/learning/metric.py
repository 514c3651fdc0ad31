"""Distance metric over all columns, learnt from the gradients of the latent means.

Isotropic kernels depend on the inputs only through distances. For the latent means f_c of a model,
centred over the classes, the average gradient outer product

    G = mean over rows and classes of grad f_c grad f_c^T

shows in which directions they change. Scaled inputs are multiplied by the symmetric matrix

    M = c ((1 - rho) G + rho tr(G) / p I)^s,

and the model is fitted again. This is a recursive feature machine (Radhakrishnan, Beaglehole,
Pandit & Belkin 2024, Science 383) with the latent means of the informative vector machine. The
factor c preserves the sum of the column variances, which determines the length scales that
`Kernel.fill` chooses. The gradient in the scaled inputs is M times that in the multiplied inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.fields import Checked, setting
from sparsegp.kernels import Kernel
from sparsegp.registry import Registry
from sparsegp.texts import Member, read
from sparsegp.types import Doubles, Floats

NONE = "none"
"""Text for no metric."""
FULL = "full"
"""Text for a metric with the default settings."""
MAX_METRIC_COLUMNS = 256
"""Maximum number of columns: with more, the matrix is mostly noise and takes too long to learn."""
SHRINKAGE = 0.1
"""rho; it is positive so that no direction is dropped for good."""
ROWS = 128
"""Rows processed at a time, so that temporaries stay in cache."""

METRICS: Registry[type["Metric"]] = Registry("metric")

Part = tuple[Kernel, Doubles, Doubles]
"""Kernel, active rows (d, p) and weights (d, R) of latent means f_c(x) = sum_i w_ic k(x, u_i)."""


@dataclass(frozen=True)
class Metric(Checked, Member, name=FULL):
    """Settings for learning a metric, as text ``full`` or ``full(rounds=2, power=0.4)``."""

    rounds: int = setting(3, "Fits from whose gradients the metric is taken.", least=1, most=20)
    power: float = setting(0.5, "s, the power of G.", least=0, most=1)

    family: ClassVar[Registry[Any]] = METRICS

    @classmethod
    def of(cls, text: str) -> "Metric | None":
        """Parse the text of a metric; return None for ``none``.

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
        """Return the next matrix by which scaled inputs are multiplied, (p, p).

        Parameters
        ----------
        mixing : Doubles (p, p)
            The current matrix.
        slopes : Doubles (p, p)
            Average gradient outer product in the inputs multiplied by `mixing`.
        covariance : Doubles (p, p)
            Covariance of the scaled inputs.
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
    """Learn the matrix by which scaled inputs are multiplied, (p, p).

    Parameters
    ----------
    metric : Metric
    covariance : Doubles (p, p)
        Covariance of the scaled inputs.
    fit : callable
        Maps a matrix to the rows multiplied by it, and the latent means fitted to them.
    report : callable
        Called after each fit with the number of fits so far.
    """
    mixing = np.eye(len(covariance))
    for done in range(metric.rounds):
        mixed, parts = fit(mixing)
        mixing = metric.next(mixing, average_outer_product(parts, mixed), covariance)
        report(done + 1)
    return mixing


def average_outer_product(parts: Sequence[Part], X: Floats) -> Doubles:
    """Return the mean over rows and classes of grad f_c grad f_c^T, (p, p), for rows X (n, p).

    If the parts have more than one latent value in all, the mean over these is subtracted.
    """
    p = X.shape[1]
    total, count = np.zeros((p, p)), 0
    for start in range(0, len(X), ROWS):
        rows = X[start : start + ROWS]
        slopes = np.concatenate([kernel.slopes(rows, U, w) for kernel, U, w in parts])
        if len(slopes) > 1:
            slopes -= slopes.mean(axis=0)
        slopes = slopes.reshape(-1, p)
        total += slopes.T @ slopes
        count += len(slopes)
    return total / count


def is_per_column(kernel: Kernel) -> bool:
    """Return whether a kernel, or a part of it, treats columns separately."""
    return any(leaf.variadic for leaf in kernel.leaves)
