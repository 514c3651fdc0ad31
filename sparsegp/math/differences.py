"""Sums over the columns of absolute differences, in tiles that stay in cache.

The differences of a column, of some rows by some others, are one array that is overwritten by those
of the next column. Every entry is summed in the order of the columns: no bit depends on the tiles.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from scipy.spatial.distance import cdist

from sparsegp.types import Doubles, Floats

ENTRIES = 1 << 16
"""Of a tile: two of them in single precision fill half a megabyte."""
LONGEST = 8192
"""Entries along the longer side of a tile: numpy takes its time to begin a line."""
BUFFER = 1024
"""Entries of numpy's buffer. Where three lines have room in it, which is 8192 by default, numpy
copies a column that stands for many into it, and takes three times as long."""


@contextmanager
def small_buffer() -> Iterator[None]:
    """Leave columns that stand for many where they are; no bit changes."""
    former = np.setbufsize(BUFFER)
    try:
        yield
    finally:
        np.setbufsize(former)


def summed_differences(
    X: Floats, Z: Floats, weights: Doubles, each: Callable[[Floats], object] | None = None
) -> Floats:
    """Return sum_j f(w_j |x_ij - z_kj|), (..., n, m), in an array that the caller may overwrite.

    Parameters
    ----------
    X : Floats (..., n, p)
    Z : Floats (..., m, p)
        Of the same precision.
    weights : Doubles (p,)
        w_j > 0.
    each : callable, optional
        Puts f in the place of its argument, entry by entry; the identity if left out.
    """
    if Z.ndim == 2:
        return _flat(X.reshape(-1, X.shape[-1]), Z, weights, each).reshape(*X.shape[:-1], len(Z))
    batch = np.broadcast_shapes(X.shape[:-2], Z.shape[:-2])
    X, Z = (np.broadcast_to(rows, (*batch, *rows.shape[-2:])) for rows in (X, Z))
    sums = np.empty((*batch, X.shape[-2], Z.shape[-2]), X.dtype)
    for index in np.ndindex(batch):
        sums[index] = _flat(X[index], Z[index], weights, each)
    return sums


def weighted_differences(
    X: Doubles, Z: Doubles, weights: Doubles, each: Callable[[Doubles], object] | None = None
) -> Doubles:
    """Return sum_ik w_ik f(|x_ij - z_kj|) for every column j, (p,).

    Parameters
    ----------
    X : Doubles (n, p)
    Z : Doubles (m, p)
    weights : Doubles (n, m)
    each : callable, optional
        Puts f in the place of its argument, entry by entry; the identity if left out.
    """
    total = np.zeros(X.shape[1])
    for tile, columns, others in _tiles(X.T, Z.T, weights):
        differences = np.empty_like(tile)
        with small_buffer():
            for j, (x, z) in enumerate(zip(columns, others, strict=True)):
                np.subtract(x[:, np.newaxis], z, out=differences)
                np.abs(differences, out=differences)
                if each is not None:
                    each(differences)
                total[j] += np.vdot(tile, differences)
    return total


def weighted_rises(
    X: Floats,
    Z: Floats,
    weights: Doubles,
    decline: Callable[[Doubles], Doubles | float] | None = None,
) -> Doubles:
    """Return sum_ik w_ik g(sum_s |x_ijs - z_kjs|) |x_ijs - z_kjs| for all j and s, (p, s).

    The x_ijs and z_kjs of one j rise together. So a difference has the sign of those of all s, and
    its sum is one of x_ijs, and one of z_kjs, by sums of signed weights.

    Parameters
    ----------
    X : Floats (n, p, s)
    Z : Floats (m, p, s)
    weights : Doubles (n, m)
    decline : callable, optional
        Returns g, entry by entry; one if left out.
    """
    total = np.zeros(X.shape[1:])
    for tile, columns, others in _tiles(X.transpose(1, 2, 0), Z.transpose(1, 2, 0), weights):
        signed, of_x, of_z = np.empty_like(tile), *(np.ones(n, tile.dtype) for n in tile.shape)
        for j, (x, z) in enumerate(zip(columns, others, strict=True)):
            from_x, from_z, weighted = x.sum(axis=0)[:, np.newaxis], z.sum(axis=0), tile
            if decline is not None:
                weighted = tile * decline(np.abs(from_x - from_z))
            with small_buffer():
                is_above = from_x > from_z
            np.multiply(weighted, is_above, out=signed)
            signed *= 2.0
            signed -= weighted
            total[j] += x @ (signed @ of_z) - z @ (of_x @ signed)
    return total


def _tiles(
    columns: Floats, others: Floats, weights: Doubles
) -> Iterator[tuple[Doubles, Floats, Floats]]:
    """Yield weights (n, m) of some rows after the other, and columns (..., n) and (..., m)."""
    columns, others = np.ascontiguousarray(columns), np.ascontiguousarray(others)
    height = max(1, 4 * ENTRIES // weights.itemsize // max(1, weights.shape[1]))
    for start in range(0, len(weights), height):
        some = slice(start, start + height)
        yield np.ascontiguousarray(weights[some]), columns[..., some], others


def _flat(
    X: Floats, Z: Floats, weights: Doubles, each: Callable[[Floats], object] | None
) -> Floats:
    """Return the sums of X (n, p) and Z (m, p)."""
    if len(X) < len(Z):
        return _flat(Z, X, weights, each).T
    if each is None and X.dtype == np.float64:  # it computes in double precision, and is as fast
        return cdist(X * weights, Z * weights, "cityblock")
    w = weights.astype(X.dtype)[:, np.newaxis]
    columns, others = (np.multiply(rows.T, w, order="C") for rows in (X, Z))
    for scaled in (columns, others):  # no differences of infinities
        np.clip(scaled, np.finfo(X.dtype).min, np.finfo(X.dtype).max, out=scaled)
    sums = np.empty((len(Z), len(X)), X.dtype)
    width = -(-len(X) // max(1, -(-len(X) // LONGEST)))
    for start in range(0, len(X), width or 1):
        part = columns[:, start : start + width]
        height = max(1, ENTRIES // part.shape[1])
        scratch = np.empty((height, part.shape[1]), X.dtype)
        for first in range(0, len(Z), height):
            tile = sums[first : first + height, start : start + width]
            _fill(tile, scratch[: len(tile)], part, others[:, first : first + height], each)
    return sums.T


def _fill(
    tile: Floats,
    scratch: Floats,
    columns: Floats,
    others: Floats,
    each: Callable[[Floats], object] | None,
) -> None:
    """Put the sums of all columns, (p, n) by others (p, m), into a tile (m, n)."""
    with small_buffer():
        for j, (x, z) in enumerate(zip(columns, others, strict=True)):
            differences = scratch if j else tile
            np.subtract(x, z[:, np.newaxis], out=differences)
            np.abs(differences, out=differences)
            if each is not None:
                each(differences)
            if j:
                tile += differences
