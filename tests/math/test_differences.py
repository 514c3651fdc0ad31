"""Sums of absolute differences: the same bits however the rows are divided."""

import numpy as np
import pytest

from sparsegp.math.differences import LONGEST, summed_differences


def decay(differences: np.ndarray) -> None:
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
    np.testing.assert_array_equal(
        summed_differences(tiles, Z, weights, each).reshape(1024, -1), whole[:1024]
    )


def test_numbers_out_of_range_give_no_nan():
    X = np.array([[3.0, 1.0], [3.0, -1.0], [-3.0, 1.0]], np.float32)
    with np.errstate(over="ignore"):
        found = summed_differences(X, X, np.full(2, 2e38))
    np.testing.assert_array_equal(np.isinf(found), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(np.diagonal(found), 0.0)
