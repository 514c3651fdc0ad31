"""Products, small factors and differences beside numpy's; their bits depend on shapes alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_triangular

from sparsegp.errors import NumericalError
from sparsegp.math.differences import LONGEST, summed_differences
from sparsegp.math.linalg import (
    BLOCK,
    inverse_of_square,
    lower_cholesky,
    product_of_triangles,
    reverse_cholesky,
    solve_lower,
    symmetrise_from_lower,
    triangle_of_inverse,
)
from sparsegp.math.products import matmul_few_columns, matmul_few_rows, matmul_thin


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "depth", "thin"), [(64, 784, 32), (64, 1500, 32), (50, 5, 3)])
def test_tall_times_thin(dtype, rows, depth, thin):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(3, rows, depth)), rng.normal(size=(depth, thin))
    found = matmul_thin(A.astype(dtype), B.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A @ B, atol=1e-5 * depth if dtype == np.float32 else 1e-11)
    alone = matmul_thin(A[1:2].astype(dtype), B.astype(dtype))
    assert np.array_equal(alone[0], found[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("few", range(1, 10))
def test_few_columns_or_rows(dtype, few):
    rng, atol = np.random.default_rng(0), 1e-4 if dtype == np.float32 else 1e-12
    A, B = rng.normal(size=(30, 200)).T.astype(dtype), rng.normal(size=(30, few)).astype(dtype)
    found = matmul_few_columns(A, B)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, A @ B, atol=atol)
    A, B = rng.normal(size=(2, few, 30)).astype(dtype), rng.normal(size=(2, 200, 30)).astype(dtype)
    found = matmul_few_rows(A, B.swapaxes(1, 2))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A @ B.swapaxes(1, 2), atol=atol)
    assert np.array_equal(matmul_few_rows(A[0], B.swapaxes(1, 2))[0], found[0])


@pytest.mark.parametrize("d", [1, 6, BLOCK + 40])
def test_factors_and_products_of_triangles(d):
    rng = np.random.default_rng(d)
    A, B = np.tril(rng.normal(size=(2, d, d)) / np.sqrt(d)) + 2.0 * np.eye(d)
    matrix = A @ A.T
    assert_allclose(product_of_triangles(A, B), A @ B, atol=1e-12)
    inverse = inverse_of_square(A.copy())
    assert_allclose(inverse, np.linalg.inv(A.T @ A), atol=1e-10)
    assert_array_equal(inverse, inverse.T)
    below = matrix + np.triu(rng.normal(size=(d, d)), 1)  # what is above does not count
    assert_array_equal(symmetrise_from_lower(below), np.tril(below) + np.tril(below, -1).T)
    inverse = np.tril(np.linalg.inv(matrix))
    for in_place in (False, True):
        given = matrix.copy()
        factor = lower_cholesky(given, "it", in_place=in_place)
        assert_allclose(factor @ factor.T, matrix, atol=1e-12)
        assert np.shares_memory(factor, given) == in_place
        assert_allclose(triangle_of_inverse(factor, in_place), inverse, atol=1e-10)
    given = np.tril(matrix)
    root = reverse_cholesky(given, "it")
    assert_allclose(root.T @ root, matrix, atol=1e-12)
    assert_array_equal(root, np.tril(root))
    assert np.shares_memory(root, given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_solutions_are_those_of_scipy(order, dtype):
    rng = np.random.default_rng(7)
    factor = np.tril(rng.normal(size=(5, 5)), -1) + 2.0 * np.eye(5)
    factor = np.asarray(factor, dtype, order)
    for shape in ((5,), (5, 3), (5, 0)):
        right = rng.normal(size=shape).astype(dtype)
        for transposed in (False, True):
            expected = solve_triangular(factor, right, int(transposed), lower=True)
            found = solve_lower(factor, right, transposed)
            assert_array_equal(found, expected)
            assert (found.dtype, found.shape) == (dtype, shape)
    factor[2, 2] = 0.0
    with pytest.raises(NumericalError, match="zero on its diagonal"):
        solve_lower(factor, np.ones(5))


def decay(differences):
    np.negative(differences, out=differences)
    np.exp(differences, out=differences)


@pytest.mark.parametrize("each", [None, decay])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_bit_depends_on_the_division_of_rows(dtype, each):
    rng = np.random.default_rng(5)
    X, Z = (rng.normal(size=(rows, 5)).astype(dtype) for rows in (LONGEST + 1500, 21))
    weights = rng.uniform(0.5, 2.0, size=5)
    whole = summed_differences(X, Z, weights, each)
    terms = weights * np.abs(X[:, np.newaxis].astype(np.float64) - Z)
    expected = (terms if each is None else np.exp(-terms)).sum(axis=2)
    np.testing.assert_allclose(whole, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
    assert whole.dtype == dtype
    for rows in (slice(0, 256), slice(8000, 8003), slice(9000, None), slice(17, 18)):
        for others in (slice(None), slice(3, 20), slice(7, 8)):
            part = summed_differences(X[rows], Z[others], weights, each)
            np.testing.assert_array_equal(part, whole[rows, others])
            turned = summed_differences(Z[others], X[rows], weights, each)
            np.testing.assert_array_equal(turned.T, whole[rows, others])
    tiles = X[:1024].reshape(4, 256, 5)
    found = summed_differences(tiles, Z, weights, each)
    np.testing.assert_array_equal(found.reshape(1024, -1), whole[:1024])


def test_numbers_out_of_range_give_no_nan():
    X = np.array([[3.0, 1.0], [3.0, -1.0], [-3.0, 1.0]], np.float32)
    with np.errstate(over="ignore"):
        found = summed_differences(X, X, np.full(2, 2e38))
    np.testing.assert_array_equal(np.isinf(found), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(np.diagonal(found), 0.0)
