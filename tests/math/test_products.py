"""Products in pieces are the products, and their bits depend on shapes alone."""

import numpy as np
import pytest

from sparsegp.math.products import few_times, times_few, times_thin


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
@pytest.mark.parametrize("few", range(1, 10))
def test_few_columns(dtype, few):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(30, 200)).T.astype(dtype), rng.normal(size=(30, few)).astype(dtype)
    found = times_few(A, B)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, A @ B, atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("few", range(1, 10))
def test_few_rows(dtype, few):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, few, 30)).astype(dtype), rng.normal(size=(2, 200, 30)).astype(dtype)
    found = few_times(A, B.swapaxes(1, 2))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, A @ B.swapaxes(1, 2), atol=1e-4 if dtype == np.float32 else 1e-12
    )
    assert np.array_equal(few_times(A[0], B.swapaxes(1, 2))[0], found[0])
