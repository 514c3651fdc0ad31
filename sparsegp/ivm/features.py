"""Sums over the rows of a block for the all-data posterior (posterior/all_data.py).

The features of a row are its stub column: with C = K_uu on the active rows and I + C = L L^T, the
stub matrix is M = L^-1 K_un, so any function in the span of the active rows is M^T c. No other
matrix of that size is needed.
"""

from collections.abc import Callable

import numpy as np

from sparsegp.math.products import tall_times, thin_times
from sparsegp.math.summation import snap
from sparsegp.types import Booleans, Doubles, Floats

FEW_TILES = 16
"""Tiles worked on at a time: enough rows for the quadrature to be quick."""


def gram(stub: Floats, counts: Booleans, unit: int, quantum: float) -> Doubles:
    """Return M M^T of every process, (C, d, d), summed exactly over fixed groups of tiles.

    Parameters
    ----------
    stub : Floats (C, tiles, d, TILE)
    counts : Booleans (tiles, TILE)
        Rows that count.
    unit : int
        Tiles in a group; blocks hold whole groups.
    quantum : float
        Quantum of the sum.
    """
    n_processes, n_tiles, d, _ = stub.shape
    total = np.zeros((n_processes, d, d))
    for start in range(0, n_tiles, unit):
        tiles = slice(start, min(start + unit, n_tiles))
        dropped = ~counts[tiles].reshape(-1)
        for c in range(n_processes):
            flat = np.ascontiguousarray(stub[c, tiles].transpose(1, 0, 2)).reshape(d, -1)
            flat[:, dropped] = 0.0
            total[c] += snap(flat @ flat.T, quantum)
    return total


def means(stub: Floats, coefficients: Doubles) -> Doubles:
    """Return M^T c of all processes, (rows, K), tile by tile.

    Parameters
    ----------
    stub : Floats (C, tiles, d, TILE)
    coefficients : Doubles (C, d, R)
    """
    c = coefficients.transpose(0, 2, 1).astype(stub.dtype)
    found = np.concatenate([np.matmul(part, some) for part, some in zip(c, stub, strict=True)], 1)
    return found.transpose(0, 2, 1).reshape(-1, found.shape[1]).astype(np.float64)


def slope(
    stub: Floats,
    coefficients: Doubles,
    gradient: Callable[[Floats, slice], Floats],
    unit: int,
    quantum: float,
) -> Doubles:
    """Return M p(M^T c) of every process, (C, d, R), summed exactly over fixed groups of tiles.

    Parameters
    ----------
    stub : Floats (C, tiles, d, TILE)
    coefficients : Doubles (C, d, R)
    gradient : callable
        From latent means (rows, K) of a slice of rows to the gradient there, (rows, K).
    unit : int
        Tiles in a group; blocks hold whole groups. It divides `FEW_TILES`.
    quantum : float
        Quantum of the sum.
    """
    n_processes, n_tiles, _, tile = stub.shape
    c = np.ascontiguousarray(coefficients.transpose(0, 2, 1), dtype=stub.dtype)
    width, total = c.shape[1], np.zeros(coefficients.shape)
    for start in range(0, n_tiles, FEW_TILES):
        tiles = slice(start, min(start + FEW_TILES, n_tiles))
        means = [thin_times(c[k], stub[k, tiles]) for k in range(n_processes)]
        mean = np.ascontiguousarray(np.concatenate(means, axis=1).transpose(0, 2, 1))
        rows = slice(tiles.start * tile, tiles.stop * tile)
        p = gradient(mean.reshape(-1, mean.shape[2]), rows).reshape(mean.shape)
        for k in range(n_processes):
            own = np.ascontiguousarray(p[:, :, k * width : (k + 1) * width])
            parts = tall_times(stub[k, tiles], own)
            for first in range(0, len(parts), unit):
                group = parts[first : first + unit].sum(axis=0, dtype=np.float64)
                total[k] += snap(group, quantum)
    return total
