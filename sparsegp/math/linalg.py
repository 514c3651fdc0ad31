"""Triangular factors, and products and solves with them, mostly in float64."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from scipy.linalg import cholesky, get_blas_funcs
from scipy.linalg.lapack import dpotri, dtrtri, dtrtrs, strtrs

from sparsegp.errors import NumericalError
from sparsegp.math.subnormals import drop_tiny, rounded
from sparsegp.types import Doubles, Floats

BLOCK = 512
"""Rows and columns of a block in products of triangular matrices."""
SOLVED, SMALL = 64, 1e-9
"""Rows of a block in `solve_lower_in_place`, and the magnitude up to which numbers are small."""


def lower_cholesky(matrix: Doubles, name: str, in_place: bool = False) -> Doubles:
    """Return the lower Cholesky factor of a symmetric positive definite matrix, (d, d).

    Parameters
    ----------
    matrix : Doubles (d, d)
    name : str
        Name of the matrix in messages.
    in_place : bool
        Whether the factor may overwrite the matrix, whose rows or columns should be contiguous. For
        large matrices a copy into LAPACK's order takes as long as the factorisation.

    Raises
    ------
    NumericalError
        If the matrix is not finite, or not positive definite after rounding.
    """
    if not np.isfinite(matrix).all():
        raise NumericalError(f"{name} must be finite; check the kernel and the scale of the inputs")
    try:
        if in_place and matrix.flags.c_contiguous:  # the transpose is in LAPACK's order
            return np.asarray(cholesky(matrix.T, overwrite_a=True, check_finite=False).T)
        return np.asarray(cholesky(matrix, lower=True, overwrite_a=in_place, check_finite=False))
    except np.linalg.LinAlgError as error:
        raise NumericalError(
            f"{name} {matrix.shape} is not positive definite after rounding: {error}; "
            "use a kernel of smaller variance"
        ) from error


def jittered_cholesky(
    matrix: Doubles | Callable[[], Doubles], name: str, least: float = 0.0
) -> tuple[Doubles, float]:
    """Return the Cholesky factor of a matrix with as little jitter on its diagonal as needed.

    Parameters
    ----------
    matrix : Doubles (d, d), or callable
        A callable must return a new matrix, which the factor overwrites: this saves memory.
    name : str
        Name of the matrix in messages.
    least : float
        Minimum jitter, relative to the mean of the diagonal.

    Returns
    -------
    factor : Doubles (d, d)
        With contiguous rows.
    jitter : float
        The jitter added, relative to the mean of the diagonal.

    Raises
    ------
    NumericalError
        If a jitter of 1e-3 is not enough.
    """

    def factor(jitter: float) -> tuple[Doubles, float]:
        raised = matrix() if callable(matrix) else matrix.copy()
        raised[np.diag_indices_from(raised)] += jitter * (float(np.trace(raised)) / len(raised))
        return lower_cholesky(raised, name, in_place=True), jitter

    for jitter in (least, *(10.0**k for k in range(-15, -3) if 10.0**k > least)):
        with suppress(NumericalError):
            return factor(jitter)
    return factor(1e-3)


def reverse_cholesky(matrix: Doubles, name: str) -> Doubles:
    """Return the lower triangular W with W' W = A, (d, d), from the lower triangle of A.

    A is overwritten if its rows are contiguous. Raises the errors of `lower_cholesky`.
    """
    return _reverse_in_place(lower_cholesky(_reverse_in_place(matrix).T, name, in_place=True).T)


def _reverse_in_place(matrix: Doubles) -> Doubles:
    """Reverse the rows and columns of a matrix in place, and return it."""
    for i in range((len(matrix) + 1) // 2):
        matrix[i], matrix[-1 - i] = matrix[-1 - i, ::-1].copy(), matrix[i, ::-1].copy()
    return matrix


def inverse_lower(lower: Doubles) -> Doubles:
    """Return the inverse of a lower triangle, whose row i depends on rows up to i alone.

    With pivoting, as in numpy's inv, the last bits of a row would depend on later rows. Raises a
    NumericalError if the triangle is not finite.
    """
    if not np.isfinite(lower).all():
        raise NumericalError("a Cholesky factor is not finite; use a kernel of smaller variance")
    return solve_lower(lower, np.eye(len(lower)))


def triangle_of_inverse(lower: Doubles, in_place: bool = False) -> Doubles:
    """Return the lower triangle of (L L')^-1, (d, d), with zeros above it.

    With `in_place` L is overwritten if its rows or columns are contiguous.
    """
    if lower.flags.f_contiguous:
        return np.asarray(dpotri(lower, lower=1, overwrite_c=in_place)[0])
    return np.asarray(dpotri(lower.T, lower=0, overwrite_c=in_place)[0].T)


def inverse_of_factored(lower: Doubles) -> Doubles:
    """Return (L L')^-1, (d, d), in a third of the time of solving for all columns."""
    triangle = triangle_of_inverse(lower)
    return triangle + np.tril(triangle, -1).T


def inverse_of_square(lower: Doubles) -> Doubles:
    """Return (L' L)^-1, (d, d); L, whose rows are contiguous, is overwritten."""
    reversed_ = _reverse_in_place(lower)  # its transpose is the lower factor of the reversed L' L
    inverse = triangle_of_inverse(np.ascontiguousarray(reversed_.T), in_place=True)
    return _reverse_in_place(symmetrise_from_lower(inverse))


def inverse_triangle(lower: Doubles) -> Doubles:
    """Return the inverse of a lower triangle (d, d), in a third of the time of `inverse_lower`.

    The last bits of a row may depend on later rows.
    """
    if lower.flags.f_contiguous:
        return np.asarray(dtrtri(lower, lower=1)[0])
    return np.asarray(dtrtri(lower.T, lower=0)[0].T)


def product_of_triangles(left: Doubles, right: Doubles) -> Doubles:
    """Return the product of two lower triangles, (d, d), skipping most of the zeros."""
    product = np.zeros_like(left, order="C")
    for start in range(0, len(left), BLOCK):
        rows = slice(start, start + BLOCK)
        for first in range(0, start + 1, BLOCK):
            inner, columns = slice(first, start + BLOCK), slice(first, first + BLOCK)
            product[rows, columns] = left[rows, inner] @ right[inner, columns]
    return product


def symmetrise_from_lower(matrix: Doubles) -> Doubles:
    """Copy the lower triangle of a matrix (d, d) to the upper one in place, and return it."""
    for start in range(0, len(matrix), BLOCK):
        some = slice(start, start + BLOCK)
        matrix[:start, some] = matrix[some, :start].T
        inner = np.tril(matrix[some, some])
        matrix[some, some] = inner + np.tril(inner, -1).T
    return matrix


def solve_lower(factor: Doubles, right: Doubles, transposed: bool = False) -> Doubles:
    """Return L^-1 R, or L^-T R, for a lower triangular L (d, d) and R (d,) or (d, m)."""
    if right.size == 0:
        return right.copy()
    # the overhead of scipy's `solve_triangular` exceeds the solve itself if L is small
    is_lower = factor.flags.f_contiguous
    columns, trans = (factor, transposed) if is_lower else (factor.T, not transposed)
    trtrs = strtrs if factor.dtype == right.dtype == np.float32 else dtrtrs
    found, first_zero = trtrs(columns, right, lower=is_lower, trans=trans)
    if first_zero:
        raise NumericalError(
            "a triangular factor has a zero on its diagonal; use a kernel of smaller variance"
        )
    return np.asarray(found)


def solve_lower_in_place(factor: Doubles, right: Floats) -> Floats:
    """Return L^-1 R, (d, n), in the precision of R, whose rows are contiguous and overwritten.

    If L is close to block diagonal, numbers decay from row to row until they are subnormal. If some
    of R are small to begin with, only matrix products are used, and tiny numbers dropped between.
    """
    if np.abs(right).min(initial=np.inf) > SMALL:
        own = factor.astype(right.dtype)
        trsm = get_blas_funcs("trsm", (own, right))
        return np.asarray(trsm(1.0, own, right.T, side=1, lower=1, trans_a=1, overwrite_b=1).T)
    for start in range(0, len(factor), SOLVED):
        rows = slice(start, start + SOLVED)
        inverse = rounded(inverse_triangle(factor[rows, rows]), right.dtype)
        before, block = np.hsplit(rounded(factor[rows, : start + SOLVED], right.dtype), [start])
        own = drop_tiny(right[rows] - before @ right[:start])
        found = drop_tiny(inverse @ own)
        found += inverse @ drop_tiny(own - block @ found)  # now as accurate as substitution
        right[rows] = drop_tiny(found)
    return right


def solve_factored(factor: Doubles, right: Doubles) -> Doubles:
    """Return (L L')^-1 R for a lower triangular L (d, d) and R (d, ...)."""
    return solve_lower(factor, solve_lower(factor, right), transposed=True)
