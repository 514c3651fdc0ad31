"""Latent variances of the all-data posterior, against its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.blas import single_threaded_blas
from sparsegp.kernels import parse
from sparsegp.math.linalg import lower_cholesky
from sparsegp.math.products import TILE
from sparsegp.posterior.predict import JITTERS, reduction, squared_length


@pytest.mark.parametrize(
    ("text", "columns", "rounding", "tolerance", "jitter"),
    [
        ("50*matern52(1)", 4, 0.0, 1e-7, JITTERS[0]),
        ("5*rbf(4)", 1, 0.0, 1e-4, None),  # nearly singular
        ("5*rbf(4)", 1, 1e-6, 2e-3, None),  # B as single precision leaves it
    ],
)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_what_the_data_take_off_the_variance(text, columns, rounding, tolerance, jitter, scale):
    rng, kernel = np.random.default_rng(0), parse(text)
    x, rows, new = (rng.normal(size=(n, columns)) for n in (60, 400, 50))
    precision = rng.uniform(0.5, 2.0, 60)
    C = kernel(x, x)
    L = lower_cholesky(C + np.diag(1.0 / precision), "test")
    features = np.linalg.solve(L, kernel(x, rows))
    noise = rounding * np.abs(features @ features.T).max() * rng.normal(size=(60, 60))
    penalty = np.linalg.solve(L, np.linalg.solve(L, C).T) / scale
    B = penalty + features @ features.T + noise @ noise.T

    def metric(least):
        return lower_cholesky(B + (1e-9 + least) * np.eye(60), "test")

    W, used = reduction(kernel, (x, precision), L, metric, scale)
    assert used == jitter or jitter is None

    k = kernel(x, new)
    inside = np.einsum("dn,dn->n", k, np.linalg.pinv(C, rcond=1e-12, hermitian=True) @ k)
    w = np.linalg.solve(L, k)
    expected = scale * (kernel.diag(new) - inside) + np.einsum("dn,dn->n", w, np.linalg.solve(B, w))
    found = scale * kernel.diag(new) - squared_length(W, k)
    assert_allclose(found, expected, atol=tolerance * scale * kernel.diag(new).max())


@pytest.mark.parametrize("d", [1, 7, 40, TILE, TILE + 44, 2 * TILE + 7])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-6), (np.float64, 1e-12)])
def test_a_length_leaves_out_zeros_and_does_not_depend_on_its_place(d, dtype, rtol):
    rng = np.random.default_rng(d)
    W, k = np.tril(rng.normal(size=(d, d))).astype(dtype), rng.normal(size=(d, TILE))
    order = rng.permutation(TILE)
    with single_threaded_blas():
        found = squared_length(W, k)
        assert_array_equal(squared_length(W, k[:, order]), found[order])
    assert_allclose(found, np.square(W @ k).sum(axis=0), rtol=rtol)
