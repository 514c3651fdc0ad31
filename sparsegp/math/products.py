"""Products with a thin matrix, in pieces for which BLAS needs no packing; or with few columns.

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


WIDTH = 8
"""Columns of a product of which the kernels of BLAS waste none."""


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


def few_times(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (..., q, m), for few rows q of A (..., q, n), which OpenBLAS does not foresee.

    Two take less time one by one, and more with rows of zeros up to a multiple of four.
    """
    q = A.shape[-2]
    if q == 2:
        return np.concatenate([A[..., :1, :] @ B, A[..., 1:, :] @ B], axis=-2)
    if q > 2 and q % 4:
        A = np.concatenate([A, np.zeros((*A.shape[:-2], -q % 4, A.shape[-1]), A.dtype)], axis=-2)
    product: Floats = np.matmul(A, B)
    return product[..., :q, :]


def times_few(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (n, q), for few columns q, which OpenBLAS does not foresee.

    Two or three take half the time one by one, and five to seven with columns of zeros.
    """
    q = B.shape[1]
    if q in (2, 3):
        return np.stack([A @ column for column in np.ascontiguousarray(B.T)], axis=1)
    if 4 < q < WIDTH:
        wide = np.zeros((len(B), WIDTH), B.dtype)
        wide[:, :q] = B
        return np.ascontiguousarray((A @ wide)[:, :q])
    return A @ B
