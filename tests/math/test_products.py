"""Products in pieces are the products, and their bits depend on shapes alone."""

import numpy as np
import pytest

from sparsegp.math.products import tall_times, thin_times, times_thin


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "depth", "thin"), [(64, 784, 32), (64, 1500, 32), (50, 5, 3)])
def test_tall_times_thin(dtype, rows, depth, thin):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(3, rows, depth)), rng.normal(size=(depth, thin))
    found = times_thin(A.astype(dtype), B.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A @ B, atol=1e-5 * depth if dtype == np.float32 else 1e-11)
    alone = times_thin(A[1:2].astype(dtype), B.astype(dtype))
    assert np.array_equal(alone[0], found[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "thin"), [(1000, 10), (1, 26), (400, 100)])
def test_tall_times_a_thin_one_each(dtype, rows, thin):
    rng = np.random.default_rng(2)
    A, B = rng.normal(size=(3, rows + 9, 256)).astype(dtype), rng.normal(size=(3, 256, thin))
    right = B.astype(dtype)
    found = tall_times(A[:, :rows], right)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A[:, :rows] @ B, atol=2e-3 if dtype == np.float32 else 1e-11)
    assert np.array_equal(tall_times(A[2:, :rows], right[2:])[0], found[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [1, 256, 700])
@pytest.mark.parametrize(("thin", "columns"), [(32, 256), (128, 128), (5, 100)])
def test_thin_times_wide(dtype, depth, thin, columns):
    rng = np.random.default_rng(1)
    P, S = rng.normal(size=(thin, depth)), rng.normal(size=(4, 800, columns))
    stub = S.astype(dtype)
    found = thin_times(P.astype(dtype), stub[:, :depth])
    assert found.dtype == dtype
    expected = P @ S[:, :depth]
    np.testing.assert_allclose(found, expected, atol=1e-5 * depth if dtype == np.float32 else 1e-11)
    assert np.array_equal(thin_times(P.astype(dtype), stub[2:3, :depth])[0], found[2])
