"""Terms of the evidence criterion and its gradient for the rows of a block that are not active.

The formulas are in learning/evidence.py. Rows are processed in pieces of fixed groups of tiles, so
that the result does not depend on the partition into blocks. Small sums are sent to the driver for
each group; matrices are summed exactly (math/summation.py). Everything is float64: float32 would
save a quarter of the time, but cause errors of a thousandth of a nat or more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.likelihoods.base import Likelihood
from sparsegp.math.summation import LevelSum
from sparsegp.types import Booleans, Doubles, Floats

PIECE = 1024
"""Number of rows processed at a time, so that temporaries stay small."""


@dataclass(frozen=True)
class Process:
    """Posterior of one process, from its active rows and their sites (SLH eq. 4).

    With L L^T = I + Pi^(1/2) K_I Pi^(1/2) the root is Pi^(1/2) L^-T, (d, d), so that M = K_.I root.
    """

    kernel: Kernel
    x: Doubles  # scaled inputs of the active rows (d, p)
    root: Doubles
    beta: Doubles  # weights of the latent means (d,): h = M beta

    def weights(self, M: Doubles, rho: Doubles, E: Doubles) -> Doubles:
        """Return the factor of dK_.I in eq. 14 for some rows, (m, d), with E1 = M root^T."""
        weights = -2.0 * ((E[:, np.newaxis] * M) @ self.root.T)
        weights -= np.outer(rho, self.root @ self.beta)
        return np.asarray(weights)


@dataclass
class ProcessSums:
    """Sums over the counted rows of a block, for one process.

    `kernel` is the gradient of -log Z in the kernel's parameters through K_JI and diag K_J alone.
    """

    kernel: Doubles  # (groups, q)
    square: LevelSum  # M^T E M (d, d), where E = -d log Z / da
    slope: LevelSum  # M^T rho (d,), where rho = d log Z / dh


@dataclass
class RowSums:
    """Sums over the counted rows of a block."""

    log_z: Doubles  # log predictive probabilities (groups,)
    likelihood: Doubles  # gradients of -log Z in the likelihood's parameters (groups, r)
    processes: list[ProcessSums]


def row_sums(
    X: Floats,
    target: Any,
    counts: Booleans,
    group: int,
    processes: Sequence[Process],
    likelihood: Likelihood,
    spare: int,
    weights: Doubles | None = None,
) -> RowSums:
    """Return the sums over the counted rows of a block.

    Parameters
    ----------
    X : Floats (m, p)
    target : array (m,)
    counts : Booleans (m,)
        Mask of the rows that count; none of them is active.
    group : int
        Rows in a group; blocks hold whole groups.
    processes : sequence of Process
        One per latent value.
    likelihood : Likelihood
    spare : int
        All blocks together have at most 2^spare pieces.
    weights : Doubles (m,), optional
        Factors on the log predictive probabilities.
    """
    starts = range(0, len(X), group)
    sums = RowSums(
        log_z=np.zeros(len(starts)),
        likelihood=np.zeros((len(starts), len(likelihood.parameters()))),
        processes=[
            ProcessSums(
                kernel=np.zeros((len(starts), len(process.kernel.parameters()))),
                square=LevelSum((len(process.x), len(process.x)), spare),
                slope=LevelSum((len(process.x),), spare),
            )
            for process in processes
        ],
    )
    for number, start in enumerate(starts):
        rows = start + np.flatnonzero(counts[start : start + group])
        for first in range(0, len(rows), PIECE):
            piece = rows[first : first + PIECE]
            part = X[piece].astype(np.float64)
            own = None if weights is None else weights[piece]
            _add(sums, number, part, target[piece], processes, likelihood, own)
    return sums


def pieces(n_rows: int, group: int) -> int:
    """Return the maximum number of pieces into which n rows are divided."""
    return -(-n_rows // group) * -(-group // PIECE)


def _add(
    sums: RowSums,
    group: int,
    X: Doubles,
    target: Any,
    processes: Sequence[Process],
    likelihood: Likelihood,
    weights: Doubles | None,
) -> None:
    """Add the terms of rows X (m, p) to the sums of a group."""
    M = [process.kernel(X, process.x) @ process.root for process in processes]
    mean, variance = np.empty((2, len(X), len(M)))
    for c, (own, process) in enumerate(zip(M, processes, strict=True)):
        mean[:, c] = own @ process.beta
        variance[:, c] = process.kernel.diag(X) - np.einsum("ij,ij->i", own, own)
    found = likelihood.moments(mean, variance, target)
    rho, log_z = found.slope, found.log_z
    E = 0.5 * (found.curvature - np.square(rho))  # E2 of eq. 14 where pi = b = 0
    slopes = likelihood.parameter_gradient(mean, variance, target)
    if weights is not None:
        wide = weights[:, np.newaxis]
        log_z, rho, E, slopes = log_z * weights, rho * wide, E * wide, slopes * wide

    sums.log_z[group] += log_z.sum()
    sums.likelihood[group] -= slopes.sum(axis=0)
    parts = zip(sums.processes, processes, M, rho.T, E.T, strict=True)
    for total, process, own, rho_c, E_c in parts:
        total.square.add(own.T @ (E_c[:, np.newaxis] * own))
        total.slope.add(rho_c @ own)
        weights = process.weights(own, rho_c, E_c)
        total.kernel[group] += process.kernel.pull_back(X, process.x, weights)
        total.kernel[group] += process.kernel.pull_back_diag(X, E_c)
