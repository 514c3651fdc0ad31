"""Faster matrix products where BLAS is slow: with a thin matrix, or with few rows or columns.

When multiplying a tall matrix by a thin one, BLAS spends a third of the time on packing the tall
matrix. OpenBLAS skips packing if the product of the three dimensions is at most `SMALL`, so pieces
of this size are 1.5 times as fast. The partition depends on the shapes alone, so equal shapes give
equal bits.
"""

import numpy as np

from sparsegp.types import Floats

TILE = 256
"""Rows multiplied in one product, so that the bits of a row depend on its tile alone."""
SMALL = 1_000_000
PIECE_ROWS = (32, 16)
WIDTH = 8
"""Number of columns of a product at which the kernels of BLAS are fully used."""


def matmul_thin(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (..., n, q), for A (..., n, p) and B (p, q)."""
    *lead, n, p = A.shape
    q = B.shape[-1]
    for rows in PIECE_ROWS:
        if rows * p * q <= SMALL and n % rows == 0 and A.flags.c_contiguous and B.ndim == 2:
            pieces = A.reshape(*lead, n // rows, rows, p)
            product: Floats = np.matmul(pieces, np.ascontiguousarray(B))
            return product.reshape(*lead, n, q)
    return A @ B


def matmul_few_rows(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (..., q, m), for few rows q of A (..., q, n), where OpenBLAS is slow.

    Two rows are faster one by one, more are faster when padded with zeros to a multiple of four.
    """
    q = A.shape[-2]
    if q == 2:
        return np.concatenate([A[..., :1, :] @ B, A[..., 1:, :] @ B], axis=-2)
    if q > 2 and q % 4:
        A = np.concatenate([A, np.zeros((*A.shape[:-2], -q % 4, A.shape[-1]), A.dtype)], axis=-2)
    product: Floats = np.matmul(A, B)
    return product[..., :q, :]


def matmul_few_columns(A: Floats, B: Floats) -> Floats:
    """Return A @ B, (n, q), for few columns q, where OpenBLAS is slow.

    Two or three columns take half the time one by one, five to seven when padded with zeros.
    """
    q = B.shape[1]
    if q in (2, 3):
        return np.stack([A @ column for column in np.ascontiguousarray(B.T)], axis=1)
    if 4 < q < WIDTH:
        wide = np.zeros((len(B), WIDTH), B.dtype)
        wide[:, :q] = B
        return np.ascontiguousarray((A @ wide)[:, :q])
    return A @ B
