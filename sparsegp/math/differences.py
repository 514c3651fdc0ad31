"""Sums of absolute column differences between rows, in tiles that stay in cache.

The differences of one column, for a tile of row pairs, are overwritten by those of the next column.
Every entry is summed in the order of the columns, so results do not depend on the tiles.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from sparsegp.types import Doubles, Floats

ENTRIES = 1 << 16
"""Elements of a tile: two tiles in single precision fill half a megabyte."""
LONGEST = 8192
"""Maximum length of a tile's rows, which are long because numpy has an overhead per row."""
Derivative: TypeAlias = Callable[[Floats, Floats], Floats | float]
"""Returns a function's derivative at the first argument; may write it into the second."""
BUFFER = 1024
"""Elements of numpy's ufunc buffer, instead of the default 8192: numpy copies a broadcast column
into it if three rows fit, which takes three times as long."""


@contextmanager
def small_buffer() -> Iterator[None]:
    """Keep numpy from copying broadcast columns into its buffer; results do not change."""
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
        In the same precision as X.
    weights : Doubles (p,)
        w_j > 0.
    each : callable, optional
        Replaces its argument by f in place, elementwise; default: the identity.
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
    X: Floats, Z: Floats, weights: Floats, derivative: Derivative | None = None
) -> Doubles:
    """Return sum_ik w_ik g(|x_ij - z_kj|) |x_ij - z_kj| for every column j, (p,).

    Parameters
    ----------
    X : Floats (n, p)
    Z : Floats (m, p)
    weights : Floats (n, m)
    derivative : callable, optional
        Returns g, elementwise; default: one.
    """
    total, columns, others = np.zeros(X.shape[1]), *map(np.ascontiguousarray, (X.T, Z.T))
    for rows, tile in _tiles(weights):
        differences, scratch = np.empty_like(tile), np.empty_like(tile)
        with small_buffer():
            for j, (x, z) in enumerate(zip(columns[:, rows], others, strict=True)):
                np.subtract(x[:, np.newaxis], z, out=differences)
                np.abs(differences, out=differences)
                if derivative is not None:
                    differences *= derivative(differences, scratch)
                total[j] += np.vdot(tile, differences)
    return total


def weighted_segment_differences(
    X: Floats, Z: Floats, weights: Floats, derivative: Derivative | None = None
) -> Doubles:
    """Return sum_ik w_ik g(sum_s |x_ijs - z_kjs|) |x_ijs - z_kjs| for all j and s, (p, s).

    For each j, x_ijs and z_kjs must be monotone in one variable for all s. Then the differences of
    all s have the same sign, and the sum separates into sums over x and z with signed weights.

    Parameters
    ----------
    X : Floats (n, p, s)
    Z : Floats (m, p, s)
    weights : Floats (n, m)
        In the same precision as X and Z.
    derivative : callable, optional
        Returns g, elementwise; default: one.
    """
    total, bits = np.zeros(X.shape[1:]), np.dtype(f"i{weights.itemsize}")
    columns, others = (np.ascontiguousarray(each.transpose(1, 2, 0)) for each in (X, Z))
    from_x, from_z = columns.sum(axis=1), others.sum(axis=1)
    minus = np.iinfo(bits).min
    for rows, tile in _tiles(weights):
        differences, weighted = np.empty_like(tile), np.empty_like(tile) if derivative else tile
        signed = differences.view(bits)
        of_x, of_z = (np.ones(n, tile.dtype) for n in tile.shape)
        with small_buffer():
            for j, (x, z) in enumerate(zip(columns[..., rows], others, strict=True)):
                np.subtract(from_x[j, rows, np.newaxis], from_z[j], out=differences)
                if derivative is not None:
                    slopes = derivative(np.abs(differences, out=weighted), weighted)
                    np.multiply(slopes, tile, out=weighted)
                signed &= minus  # flip sign bits instead of multiplying by signs
                signed ^= weighted.view(bits)
                total[j] += x @ (differences @ of_z) - z @ (of_x @ differences)
    return total


def _tiles(weights: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield slices of a few rows, with the weights of those rows."""
    height = max(1, 4 * ENTRIES // weights.itemsize // max(1, weights.shape[1]))
    for start in range(0, len(weights), height):
        rows = slice(start, start + height)
        yield rows, np.ascontiguousarray(weights[rows])


def _flat(
    X: Floats, Z: Floats, weights: Doubles, each: Callable[[Floats], object] | None
) -> Floats:
    """Return the sums (n, m) for X (n, p) and Z (m, p)."""
    if len(X) < len(Z):
        return _flat(Z, X, weights, each).T
    if each is None and X.dtype == np.float64:  # cdist is as fast in double precision
        return cdist(X * weights, Z * weights, "cityblock")
    w = weights.astype(X.dtype)[:, np.newaxis]
    columns, others = (np.multiply(rows.T, w, order="C") for rows in (X, Z))
    for scaled in (columns, others):  # avoids inf - inf
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
    """Write the sums over all columns (p, n) and others (p, m) into a tile (m, n)."""
    with small_buffer():
        for j, (x, z) in enumerate(zip(columns, others, strict=True)):
            differences = scratch if j else tile
            np.subtract(x, z[:, np.newaxis], out=differences)
            np.abs(differences, out=differences)
            if each is not None:
                each(differences)
            if j:
                tile += differences
