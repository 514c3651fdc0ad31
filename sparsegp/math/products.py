"""Products with a thin matrix, in pieces for which BLAS needs no packing.

For a product of tall and thin, BLAS spends a third of its time on copies of the tall matrix into
the order that its kernels want. OpenBLAS leaves that out where the product of the three sizes is at
most `SMALL`; in such pieces it is half as fast again. The pieces depend on the shapes alone, so
equal shapes give equal bits.
"""

import numpy as np

from sparsegp.types import Floats

TILE = 256
"""Rows of a block that are worked on in one product: the bits of a row depend on its tile alone."""
SMALL = 1_000_000
PIECE_ROWS = (32, 16)
PIECE_COLUMNS = 64
PIECE_DEPTH = 256


def times_thin(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (..., n, q), for A (..., n, p) and B (p, q)."""
    *lead, n, p = A.shape
    q = B.shape[-1]
    for rows in PIECE_ROWS:
        if rows * p * q <= SMALL and n % rows == 0 and A.flags.c_contiguous and B.ndim == 2:
            pieces = A.reshape(*lead, n // rows, rows, p)
            product: Floats = np.matmul(pieces, np.ascontiguousarray(B))
            return product.reshape(*lead, n, q)
    return A @ B


def tall_times(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (..., n, q), for A (..., n, p) and B (..., p, q)."""
    n, p = A.shape[-2:]
    product: Floats = np.empty((*A.shape[:-1], B.shape[-1]), dtype=A.dtype)
    step = max(1, SMALL // (p * B.shape[-1]))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        np.matmul(A[..., rows, :], B, out=product[..., rows, :])
    return product


def thin_times(P: Floats, S: Floats) -> Floats:
    """Return P @ S, (..., q, n), for P (q, t) and S (..., t, n)."""
    q, t = P.shape
    n = S.shape[-1]
    if n % PIECE_COLUMNS or q * PIECE_COLUMNS * min(t, PIECE_DEPTH) > SMALL:
        return P @ S
    pieces = S.reshape(*S.shape[:-1], n // PIECE_COLUMNS, PIECE_COLUMNS).swapaxes(-3, -2)
    total: Floats = np.zeros((*pieces.shape[:-2], q, PIECE_COLUMNS), dtype=S.dtype)
    for start in range(0, t, PIECE_DEPTH):
        depth = slice(start, min(start + PIECE_DEPTH, t))
        total += np.matmul(np.ascontiguousarray(P[:, depth]), pieces[..., depth, :])
    return total.swapaxes(-3, -2).reshape(*S.shape[:-2], q, n)
