"""Laplace-type kernels of columns that share a length scale: products where rows are indicators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.data.column import CODE_STEP
from sparsegp.kernels import parse
from sparsegp.kernels.indicators import VALUES
from tests.differences import central
from tests.kernels.test_contract import differences

SCALES = [1.3, *[2.1] * 5, 0.7, *[3.3] * 6]
"""Of a number, a category of five levels, a number, and one of six levels, some with codes."""
NAMES = {"laplace": lambda t: t, "additive": lambda t: np.exp(-t), "power(0.5, ": np.sqrt}


def rows(n, seed=0):
    """Some rows have other values than those of indicators and codes."""
    rng = np.random.default_rng(seed)
    levels = [np.eye(size)[rng.integers(size, size=n)] for size in (5, 6)]
    levels[1][rng.random(n) < 0.2] = CODE_STEP * rng.integers(2, size=6)
    levels[0][rng.random(n) < 0.1] = rng.normal(size=5)
    return np.column_stack([rng.normal(size=n), levels[0], rng.normal(size=n), levels[1]])


def kernel_of(name, scales):
    return parse(f"{name}{'' if name.endswith(', ') else '('}{', '.join(map(str, scales))})")


@pytest.mark.parametrize("is_warped", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_differences(name, is_warped):
    scales = np.outer(SCALES, [1.0, 2.0, 0.5, 1.5] if is_warped else 1.0).ravel()
    kernel, X, Z = kernel_of(name, scales), rows(150), rows(70, seed=1)
    sums = NAMES[name](differences(X, Z, scales)).sum(axis=2)
    expected = sums / len(SCALES) if name == "additive" else np.exp(-sums)
    assert_allclose(kernel(X, Z), expected, rtol=1e-12)
    single = kernel(X.astype(np.float32), Z.astype(np.float32))
    assert_allclose(single, expected, rtol=2e-5)


@pytest.mark.parametrize("is_warped", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, is_warped):
    kernel = kernel_of(name, np.repeat(SCALES, 4) if is_warped else SCALES)
    X, Z, weights = rows(20), rows(70, seed=1), np.random.default_rng(2).normal(size=(20, 70))
    logs, found = kernel.parameters(), kernel.pull_back(X, Z, weights)
    expected = central(lambda at: np.vdot(weights, kernel.with_parameters(at)(X, Z)), logs)
    assert_allclose(found, expected, atol=1e-5)
    # with unequal length scales there is no product, so that differences check it
    unequal = kernel.with_parameters(logs + 1e-9 * np.arange(len(logs)))
    assert_allclose(found, unequal.pull_back(X, Z, weights), atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_others", [5, 16, 48, 100])
def test_no_row_depends_on_the_others(precision, n_others, name):
    """Whether it is beside rows of other values or not."""
    kernel, tiles = kernel_of(name, SCALES), rows(4 * 256).reshape(4, 256, -1)
    Z, tiles = rows(n_others, seed=1).astype(precision), tiles.astype(precision)
    tiles[1] = 0.5  # no row of indicators
    tiles[2] = tiles[0]
    whole = kernel(tiles, Z)
    for some in (slice(0, 1), slice(1, 3), slice(3, 4)):
        assert_array_equal(kernel(tiles[some], Z), whole[some])
    assert_array_equal(whole[2], whole[0])
    flat = kernel(tiles.reshape(4 * 256, -1), Z).reshape(whole.shape)
    assert_allclose(whole, flat, rtol=1e-4 if precision == "float32" else 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_tiny_length_scales(name):
    """Equal rows have a covariance of one, and unequal ones of zero, or that of equal columns."""
    X = np.random.default_rng(0).integers(2, size=(100, 60)).astype(np.float32)
    X[:50] = X[50:]
    kernel, unequal = kernel_of(name, [*[1.7e-7] * 30, *[2.3e-9] * 30]), X[:, np.newaxis] != X
    expected = 1.0 - unequal.mean(axis=2) if name == "additive" else ~unequal.any(axis=2)
    assert_allclose(kernel(X, X), expected, atol=1e-3)


def test_codes_are_among_the_values():
    assert {0.0, CODE_STEP, 1.0} == {*VALUES}
