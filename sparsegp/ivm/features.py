"""Sums over the rows of a block for the all-data posterior (posterior/all_data.py).

The features of a row are its stub column: with C = K_uu on the active rows and I + C = L L^T, the
stub matrix is M = L^-1 K_un, so any function in the span of the active rows is M^T c. No other
matrix of that size is needed.

In all functions `stub` holds M, (tiles, d, TILE), for each process, and `unit` is the number of
tiles in a group. Groups are summed separately, and blocks hold whole groups.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.math.linalg import BLOCK, symmetrise_from_lower
from sparsegp.math.products import matmul_few_rows
from sparsegp.math.summation import snap
from sparsegp.types import Booleans, Doubles, Floats

FEW_ROWS = 512
"""Number of rows processed at a time: few enough to stay in cache between products."""


def gram(
    stub: Sequence[Floats],
    counts: Booleans,
    unit: int,
    quantum: float,
    weights: Doubles | None = None,
) -> Doubles:
    """Return M W M^T of each process, (C, d, d), over the rows in the mask `counts` (rows,).

    W holds the row weights (rows,), if there are any. Terms are rounded to multiples of `quantum`
    and then summed exactly.
    """
    n_tiles, d, tile = stub[0].shape
    total, buffer = np.zeros((len(stub), d, d)), np.empty(d * unit * tile, stub[0].dtype)
    for start in range(0, n_tiles, unit):
        dropped = ~counts[start * tile : (start + unit) * tile]
        for c, M in enumerate(stub):
            flat = buffer[: d * len(dropped)].reshape(d, -1)  # memory reused by every group
            flat.reshape(d, -1, tile)[:] = M[start : start + unit].transpose(1, 0, 2)
            flat[:, dropped] = 0.0
            if weights is not None:
                flat *= np.sqrt(weights[start * tile : (start + unit) * tile], dtype=flat.dtype)
            for first in range(0, d, BLOCK):  # the lower triangle only
                own = flat[first : first + BLOCK]
                rows = total[c, first : first + BLOCK]
                rows[:, :first] += snap(own @ flat[:first].T, quantum)
                rows[:, first : first + BLOCK] += snap(own @ own.T, quantum)  # half the work
    for each in total:
        symmetrise_from_lower(each)
    return total


def slope(
    stub: Sequence[Floats],
    coefficients: Doubles,
    gradient: Callable[[Floats, slice], Floats],
    unit: int,
    quantum: float,
) -> Doubles:
    """Return M p(M^T c) of each process, (C, d, R), summed as in `gram`.

    Parameters
    ----------
    stub : sequence of Floats (tiles, d, TILE)
    coefficients : Doubles (C, d, R)
    gradient : callable
        Maps latent means (rows, K) of a slice of tiles to p at these rows, (rows, K).
    unit : int
    quantum : float
    """
    n_tiles, few = len(stub[0]), max(FEW_ROWS // stub[0].shape[2], 1)
    c = np.ascontiguousarray(coefficients.transpose(0, 2, 1), dtype=stub[0].dtype)
    width, total = c.shape[1], np.zeros(c.shape)
    for start in range(0, n_tiles, few):
        tiles = slice(start, min(start + few, n_tiles))
        parts = [matmul_few_rows(c[k], M[tiles]) for k, M in enumerate(stub)]
        mean = np.ascontiguousarray(np.concatenate(parts, axis=1).transpose(0, 2, 1))
        p = gradient(mean.reshape(-1, mean.shape[2]), tiles).reshape(mean.shape)
        p = np.ascontiguousarray(p.transpose(0, 2, 1))
        for k, M in enumerate(stub):
            own = p[:, k * width : (k + 1) * width]
            pulls = matmul_few_rows(own, M[tiles].swapaxes(1, 2))  # faster in BLAS than M p
            for first in range(0, len(pulls), unit):
                group = pulls[first : first + unit].sum(axis=0, dtype=np.float64)
                total[k] += snap(group, quantum)
    return np.ascontiguousarray(total.transpose(0, 2, 1))


def chosen_columns(stub: Sequence[Floats], unit: int, chosen: Booleans) -> Iterator[list[Floats]]:
    """Yield the stub columns of the rows in a mask (rows,), group by group.

    The columns of a group are (d, m) for each process.
    """
    tile = stub[0].shape[2]
    for start in range(0, len(stub[0]), unit):
        of_tiles = chosen[start * tile : (start + unit) * tile].reshape(-1, tile)
        yield [
            np.concatenate([M[start + k][:, some] for k, some in enumerate(of_tiles)], axis=1)
            for M in stub
        ]


def first_columns(values: NDArray[Any], unit: int, columns: int) -> NDArray[Any]:
    """Return the first columns of every tile, joined within each group and padded with zeros.

    Parameters
    ----------
    values : array (tiles, ..., TILE)
    unit, columns : int

    Returns
    -------
    array (groups, ..., unit * columns)
    """
    n_tiles, *inner, _ = values.shape
    found = np.zeros((-(-n_tiles // unit), *inner, unit, columns), values.dtype)
    for k in range(unit):
        some = values[k::unit, ..., :columns]
        found[: len(some), ..., k, :] = some
    return found.reshape(*found.shape[:-2], -1)
