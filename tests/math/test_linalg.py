"""Small dense factors against numpy's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.math.linalg import (
    BLOCK,
    lower_cholesky,
    mirrored,
    product_of_triangles,
    root_from_below,
    square_of_triangle,
    triangle_of_inverse,
)


@pytest.mark.parametrize("d", [1, 6, BLOCK + 40])
def test_factors_and_products_of_triangles(d: int) -> None:
    rng = np.random.default_rng(d)
    A, B = np.tril(rng.normal(size=(2, d, d)) / np.sqrt(d)) + 2.0 * np.eye(d)
    matrix = A @ A.T
    assert_allclose(product_of_triangles(A, B), A @ B, atol=1e-12)
    square = square_of_triangle(np.asfortranarray(A))
    assert_allclose(square, matrix, atol=1e-12)
    assert_array_equal(square, square.T)
    below = matrix + np.triu(rng.normal(size=(d, d)), 1)  # what is above does not count
    assert_array_equal(mirrored(below), np.tril(below) + np.tril(below, -1).T)
    inverse = np.tril(np.linalg.inv(matrix))
    for in_place in (False, True):
        given = matrix.copy()
        factor = lower_cholesky(given, "it", in_place=in_place)
        assert_allclose(factor @ factor.T, matrix, atol=1e-12)
        assert np.shares_memory(factor, given) == in_place
        assert_allclose(triangle_of_inverse(factor, in_place), inverse, atol=1e-10)
    given = np.tril(matrix)
    root = root_from_below(given, "it")
    assert_allclose(root.T @ root, matrix, atol=1e-12)
    assert_array_equal(root, np.tril(root))
    assert np.shares_memory(root, given)
