"""What the rows of a block outside the active set add to the evidence criterion and its gradient.

See learning/evidence.py for the formulas. Rows are taken from fixed groups of tiles, in pieces that
depend on the group alone, so that every number is the same however groups are dealt to blocks. What
is small goes to the driver group by group; matrices are summed exactly (math/levels.py). All is in
float64: float32 saves a quarter of the time, and leaves errors of a thousandth of a nat and more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.likelihoods.base import Likelihood
from sparsegp.math.levels import LevelSum
from sparsegp.types import Booleans, Doubles, Floats

PIECE = 1024
"""Rows worked on at a time, so that temporaries stay small."""


@dataclass(frozen=True)
class Representation:
    """The posterior of one process that its active rows and their sites make (SLH eq. 4).

    Attributes
    ----------
    kernel : Kernel
    likelihood : Likelihood
    x : Doubles (d, p)
        Scaled inputs of the active rows.
    root : Doubles (d, d)
        Pi^(1/2) L^-T with L L^T = I + Pi^(1/2) K_I Pi^(1/2), so that M = K_.I root.
    beta : Doubles (d,)
        So that h = M beta.
    """

    kernel: Kernel
    likelihood: Likelihood
    x: Doubles
    root: Doubles
    beta: Doubles


@dataclass
class RowSums:
    """Sums over the rows of a block that count.

    Attributes
    ----------
    log_z : Doubles (groups,)
        Of log predictive probabilities.
    kernel : Doubles (groups, q)
        Of gradients of -log Z by the kernel's parameters, through K_JI and diag K_J alone.
    likelihood : Doubles (groups, r)
        Of gradients of -log Z by the likelihood's parameters.
    square : LevelSum (d, d)
        Of M^T E M, where E = -d log Z / da.
    slope : LevelSum (d,)
        Of M^T rho, where rho = d log Z / dh.
    """

    log_z: Doubles
    kernel: Doubles
    likelihood: Doubles
    square: LevelSum
    slope: LevelSum


def row_sums(
    X: Floats,
    target: Any,
    counts: Booleans,
    unit: int,
    representation: Representation,
    spare: int,
) -> RowSums:
    """Return the sums over the rows of a block.

    Parameters
    ----------
    X : Floats (tiles, TILE, p)
    target : array (tiles * TILE,)
    counts : Booleans (tiles * TILE,)
        Rows that count; none of them is active.
    unit : int
        Tiles in a group; blocks hold whole groups.
    representation : Representation
    spare : int
        All blocks together have at most 2^spare pieces.
    """
    d, tile = len(representation.x), X.shape[1]
    n_groups = -(-len(X) // unit)
    sums = RowSums(
        log_z=np.zeros(n_groups),
        kernel=np.zeros((n_groups, len(representation.kernel.parameters()))),
        likelihood=np.zeros((n_groups, len(representation.likelihood.parameters()))),
        square=LevelSum((d, d), spare),
        slope=LevelSum((d,), spare),
    )
    flat = X.reshape(-1, X.shape[2])
    for group in range(n_groups):
        first = group * unit * tile
        rows = first + np.flatnonzero(counts[first : first + unit * tile])
        for some in _pieces(rows):
            _add(sums, group, flat[some].astype(np.float64), target[some], representation)
    return sums


def pieces(n_rows: int, tile: int, unit: int) -> int:
    """Return in how many pieces n rows are worked on at most."""
    groups = -(-n_rows // (unit * tile))
    return groups * -(-unit * tile // PIECE)


def _pieces(rows: Any) -> Iterator[Any]:
    for start in range(0, len(rows), PIECE):
        yield rows[start : start + PIECE]


def _add(sums: RowSums, group: int, X: Doubles, target: Any, q: Representation) -> None:
    """Add a few rows X, (m, p), with their targets."""
    M = q.kernel(X, q.x) @ q.root
    mean = (M @ q.beta)[:, np.newaxis]
    variance = (q.kernel.diag(X) - np.einsum("ij,ij->i", M, M))[:, np.newaxis]
    found = q.likelihood.moments(mean, variance, target)
    rho = found.slope[:, 0]
    E = 0.5 * (found.curvature[:, 0] - np.square(rho))  # E2 of eq. 14 where pi = b = 0

    sums.log_z[group] += found.log_z.sum()
    weighted = E[:, np.newaxis] * M
    sums.square.add(M.T @ weighted)
    sums.slope.add(rho @ M)
    weights = -2.0 * (weighted @ q.root.T)  # -2 E2 E1, as E1 = M root^T
    weights -= np.outer(rho, q.root @ q.beta)
    sums.kernel[group] += q.kernel.pull_back(X, q.x, weights)
    sums.kernel[group] += q.kernel.pull_back_diag(X, E)
    slopes = q.likelihood.parameter_gradient(mean, variance, target)
    sums.likelihood[group] -= slopes.sum(axis=0)
