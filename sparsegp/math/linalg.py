"""Small dense factors in float64."""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import numpy as np
from scipy.linalg import cholesky, get_blas_funcs, solve_triangular
from scipy.linalg.lapack import dpotri, dtrtri

from sparsegp.errors import NumericalError
from sparsegp.types import Doubles, Floats

BLOCK = 512
"""Rows and columns of the pieces of a product of triangles."""


def lower_cholesky(matrix: Doubles, name: str, in_place: bool = False) -> Doubles:
    """Return the lower Cholesky factor of a symmetric positive definite matrix, (d, d).

    Parameters
    ----------
    matrix : Doubles (d, d)
    name : str
        For messages.
    in_place : bool
        Whether the factor may take the place of the matrix, whose rows or columns are contiguous.
        For large ones copies into the order of LAPACK take as long as the factor.

    Raises
    ------
    NumericalError
        If the matrix is not finite, or not positive definite after rounding.
    """
    if not np.isfinite(matrix).all():
        raise NumericalError(f"{name} must be finite; check the kernel and the scale of the inputs")
    try:
        if in_place and matrix.flags.c_contiguous:  # rows of it are columns of the upper triangle
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
    """Return the factor of a matrix whose diagonal was raised as little as needed.

    Parameters
    ----------
    matrix : Doubles (d, d), or callable
        Which makes one that the factor may take the place of: no other is held then.
    name : str
        For messages.
    least : float
        What is added at least, relative to the mean of the diagonal.

    Returns
    -------
    factor : Doubles (d, d)
        With contiguous rows.
    jitter : float
        What was added, relative to the mean of the diagonal.

    Raises
    ------
    NumericalError
        If a thousandth of the mean of the diagonal is not enough.
    """

    def factor(jitter: float) -> tuple[Doubles, float]:
        raised = matrix() if callable(matrix) else matrix.copy()
        raised[np.diag_indices_from(raised)] += jitter * (float(np.trace(raised)) / len(raised))
        return lower_cholesky(raised, name, in_place=True), jitter

    for jitter in (least, *(10.0**k for k in range(-15, -3) if 10.0**k > least)):
        with suppress(NumericalError):
            return factor(jitter)
    return factor(1e-3)


def root_from_below(matrix: Doubles, name: str) -> Doubles:
    """Return the lower triangle W of W' W = A, (d, d), from the lower triangle of A.

    In its place, where its rows are contiguous. Raises as `lower_cholesky`.
    """
    return _turned(lower_cholesky(_turned(matrix).T, name, in_place=True).T)


def _turned(matrix: Doubles) -> Doubles:
    """Return a matrix with rows and columns in reverse order, in place."""
    for i in range((len(matrix) + 1) // 2):
        matrix[i], matrix[-1 - i] = matrix[-1 - i, ::-1].copy(), matrix[i, ::-1].copy()
    return matrix


def inverse_lower(lower: Doubles) -> Doubles:
    """Return the inverse of a lower triangle, row by row from the rows above and that row alone.

    Elimination with pivots (numpy's inv) would mix in the rows below: the first rows would then
    depend, in the last bits, on those that follow.
    """
    return np.asarray(solve_triangular(lower, np.eye(len(lower)), lower=True))


def triangle_of_inverse(lower: Doubles, in_place: bool = False) -> Doubles:
    """Return the lower triangle of (L L')^-1, (d, d), with zeros above it.

    In the place of L where that is allowed, and its rows or columns are contiguous.
    """
    if lower.flags.f_contiguous:
        return np.asarray(dpotri(lower, lower=1, overwrite_c=in_place)[0])
    return np.asarray(dpotri(lower.T, lower=0, overwrite_c=in_place)[0].T)


def inverse_of_factored(lower: Doubles) -> Doubles:
    """Return (L L')^-1, (d, d), in a third of the time that solving for all columns takes."""
    triangle = triangle_of_inverse(lower)
    return triangle + np.tril(triangle, -1).T


def inverse_of_square(lower: Doubles) -> Doubles:
    """Return (L' L)^-1, (d, d); L, whose rows are contiguous, is overwritten."""
    turned = _turned(lower)  # of which the transpose is the lower factor of L' L, turned
    return _turned(mirrored(triangle_of_inverse(np.ascontiguousarray(turned.T), in_place=True)))


def inverse_triangle(lower: Doubles) -> Doubles:
    """Return the inverse of a lower triangle (d, d), in a third of the time of `inverse_lower`.

    Its first rows may depend, in the last bits, on those that follow.
    """
    if lower.flags.f_contiguous:
        return np.asarray(dtrtri(lower, lower=1)[0])
    return np.asarray(dtrtri(lower.T, lower=0)[0].T)


def product_of_triangles(left: Doubles, right: Doubles) -> Doubles:
    """Return the product of two lower triangles, (d, d), without most of their zeros."""
    product = np.zeros_like(left, order="C")
    for start in range(0, len(left), BLOCK):
        rows = slice(start, start + BLOCK)
        for first in range(0, start + 1, BLOCK):
            inner, columns = slice(first, start + BLOCK), slice(first, first + BLOCK)
            product[rows, columns] = left[rows, inner] @ right[inner, columns]
    return product


def mirrored(matrix: Doubles) -> Doubles:
    """Return a matrix (d, d) with what is above its diagonal made that below it, in place."""
    for start in range(0, len(matrix), BLOCK):
        some = slice(start, start + BLOCK)
        matrix[:start, some] = matrix[some, :start].T
        inner = np.tril(matrix[some, some])
        matrix[some, some] = inner + np.tril(inner, -1).T
    return matrix


def solve_lower(factor: Doubles, right: Doubles, transposed: bool = False) -> Doubles:
    """Return L^-1 R, or L^-T R, for a lower triangular L (d, d) and R (d, ...)."""
    trans: Literal[0, 1] = 1 if transposed else 0
    return np.asarray(solve_triangular(factor, right, trans=trans, lower=True, check_finite=False))


def solved_in_place(factor: Floats, right: Floats) -> Floats:
    """Return L^-1 R, (d, n), in the place of R where its rows are contiguous.

    For R of many columns the copies into the order of LAPACK take half as long as the solution.
    """
    trsm = get_blas_funcs("trsm", (factor, right))
    return np.asarray(trsm(1.0, factor, right.T, side=1, lower=1, trans_a=1, overwrite_b=1).T)


def solve_factored(factor: Doubles, right: Doubles) -> Doubles:
    """Return (L L')^-1 R for a lower triangular L (d, d) and R (d, ...)."""
    return solve_lower(factor, solve_lower(factor, right), transposed=True)
