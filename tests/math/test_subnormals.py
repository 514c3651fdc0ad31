"""Subnormal numbers do not come about where kernels of rows far apart decay."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import sparsegp
from sparsegp.kernels import parse
from sparsegp.math.linalg import solve_lower_in_place
from sparsegp.math.subnormals import drop_tiny, exp_in_place, rounded


def subnormal(x):
    """Return how many numbers are subnormal, or have subnormal squares."""
    size = np.abs(x[x != 0.0]).astype(np.float64)
    return int((size**2 < np.finfo(x.dtype).tiny).sum())


def far_apart(gap, rng):
    """Return rows in five groups with a distance between neighbouring ones."""
    groups = gap * np.arange(5.0).repeat(60)
    return np.column_stack([rng.normal(size=(300, 2)), groups])[rng.permutation(300)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials(dtype):
    x = np.linspace(-800.0, 3.0, 1001, dtype=dtype)
    found, exact = exp_in_place(x.copy()), np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=np.finfo(dtype).eps ** 2)
    assert (found == 0.0).sum() == (exact < np.finfo(dtype).eps ** 2).sum()
    assert np.isnan(exp_in_place(np.array([np.nan, -1e3], dtype))[0])
    assert exp_in_place(np.zeros((0, 3), dtype)).shape == (0, 3)


def test_tiny_numbers_are_dropped_and_others_kept():
    x = np.array([1e-45, -1e-30, 2e-19, -1.0, 0.0], np.float32)
    assert drop_tiny(x.copy()).tolist() == [0.0, 0.0, x[2], -1.0, 0.0]
    assert drop_tiny(x.copy(), scale=1e6).tolist() == [0.0, 0.0, 0.0, -1.0, 0.0]
    assert rounded(np.array([1e-40, 0.1]), np.float32).tolist() == [0.0, np.float32(0.1)]


@pytest.mark.parametrize("text", ["3*rbf(1)", "3*laplace(1)", "matern52(1) + 2*matern32(1)"])
@pytest.mark.parametrize("gap", [0.1, 4.0, 9.0, 13.0, 40.0])
def test_solutions_have_no_subnormal_numbers(text, gap):
    X = far_apart(gap, np.random.default_rng(0))
    K = np.asarray(parse(text)(X, X))
    factor = np.linalg.cholesky(K[:150, :150] + 0.01 * np.eye(150))
    found = solve_lower_in_place(factor, K[:150].astype(np.float32))
    exact = solve_triangular(factor, K[:150], lower=True)
    np.testing.assert_allclose(found, exact, atol=1e-4 * np.abs(exact).max())
    assert subnormal(found) == 0


@pytest.mark.parametrize("gap", [9.0, 13.0])
def test_models_have_no_subnormal_numbers(gap):
    X = far_apart(gap, np.random.default_rng(1))
    kinds = {"kernel": "5*rbf(1)", "scaling": "none", "n_active": 100, "runtime": "threads=1"}
    model = sparsegp.train(X, X[:, 0] > X[:, 1], **kinds)
    assert np.isfinite(model.predict_proba(X)).all()
    assert [subnormal(W) for W in model.posterior.reduction] == [0]


def test_solutions_of_ill_conditioned_systems_are_as_exact_as_by_substitution():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(297, 2)), rng.normal(size=(3, 2)) + 40.0])
    K = np.asarray(parse("rbf(1)")(X, X))
    factor, right = np.linalg.cholesky(K + 1e-6 * np.eye(300)), K.astype(np.float32)
    exact = solve_triangular(factor, K, lower=True)
    usual = solve_triangular(factor.astype(np.float32), right, lower=True)
    found = solve_lower_in_place(factor, right.copy())
    assert np.abs(found - exact).max() < 2.0 * np.abs(usual - exact).max()
