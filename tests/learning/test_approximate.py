"""Approximate fits against a direct maximisation, and what their scale is chosen by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.linear_model import LogisticRegression, Ridge

from sparsegp.kernels import parse
from sparsegp.learning import approximate, linear_rows
from sparsegp.learning.approximate import ApproximateFit, choose_prior_variance

N, D, K = 150, 20, 3
KERNEL = parse("20*matern52(1.5)")
rng = np.random.default_rng(0)
X = rng.normal(size=(3 * N, 2))
LATENT = np.stack([np.sin(2 * X[:, 0]), X[:, 1], 0 * X[:, 0]], axis=1)
Y = (LATENT + 0.3 * rng.gumbel(size=LATENT.shape)).argmax(axis=1)


def direct(X, y, X_new, scale):
    """Log probabilities of new rows by the whitened weights v that maximise log p - |v|^2 / (2 s).

    Of two classes scikit-learn has the difference of their weights, which is twice as far.
    """
    white = np.linalg.inv(np.linalg.cholesky(KERNEL(X[:D], X[:D]))).T
    C = scale if y.max() > 1 else 2.0 * scale
    fit = LogisticRegression(C=C, fit_intercept=False, tol=1e-9, max_iter=10**4)
    fit.fit(KERNEL(X, X[:D]) @ white, y)
    return np.asarray(fit.predict_log_proba(KERNEL(X_new, X[:D]) @ white))


@pytest.fixture
def exact(monkeypatch):
    monkeypatch.setattr(linear_rows, "MAX_ROUNDS", 300)
    monkeypatch.setattr(approximate, "TOLERANCE", 1e-12)


@pytest.mark.parametrize(("n_classes", "atol"), [(2, 0.01), (K, 0.02)])
def test_means_are_those_of_the_maximum(exact, n_classes, atol):
    """Two classes have one latent value."""
    y = np.minimum(Y, n_classes - 1)
    fit = ApproximateFit(KERNEL, X[:N], y[:N], n_classes, D, X[N:])
    for scale in (0.1, 3.0):  # the second goes on from the first
        found = fit.maximise(scale)
        assert found.shape == (2 * N, 1 if n_classes == 2 else K)
        expected = direct(X[:N], y[:N], X[N:], scale)
        assert_allclose(linear_rows.predictions(found, y), expected, atol=atol)
    kernel, U, w = fit.part()
    assert_allclose(kernel(X[N:], U) @ w, found, atol=1e-3)


def test_the_scale_is_that_which_predicts_the_held_out_rows_best():
    parts = [(np.s_[:N], np.s_[N : 2 * N]), (np.s_[N : 2 * N], np.s_[2 * N :])]
    fits = [ApproximateFit(KERNEL, X[a], Y[a], K, D, X[b]) for a, b in parts]
    target = np.concatenate([Y[b] for _, b in parts])
    found = choose_prior_variance(fits, target)
    at = range(len(target))

    def nlpp(scale):
        each = [ApproximateFit(KERNEL, X[a], Y[a], K, D, X[b]).maximise(scale) for a, b in parts]
        return -float(log_softmax(np.concatenate(each), axis=1)[at, target].mean())

    assert found.nlpp == pytest.approx(-found.predicted[at, target].mean())
    assert found.nlpp == pytest.approx(nlpp(found.scale), abs=1e-3)
    assert found.nlpp < min(nlpp(found.scale * 10.0), nlpp(found.scale / 10.0))


def test_a_row_of_weight_two_is_two_rows(exact):
    twice = np.concatenate([np.arange(N), np.arange(D, 2 * D)])
    weights = np.ones(N)
    weights[D : 2 * D] = 2.0
    weighted = ApproximateFit(KERNEL, X[:N], Y[:N], K, D, X[N:], weights)
    repeated = ApproximateFit(KERNEL, X[twice], Y[twice], K, D, X[N:])
    assert_allclose(weighted.maximise(1.0), repeated.maximise(1.0), atol=1e-3)
    target = Y[N:]
    some = np.where(np.arange(len(target)) < N, 1.0, 1e-12)
    first = ApproximateFit(KERNEL, X[:N], Y[:N], K, D, X[N : 2 * N])
    every = ApproximateFit(KERNEL, X[:N], Y[:N], K, D, X[N:])
    expected = choose_prior_variance([first], target[:N]).nlpp
    assert choose_prior_variance([every], target, some).nlpp == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kernel", "rel"), [("20*matern52(5)", 1e-4), ("10 + 0.3*linear", 0.2), ("300*rbf(300)", 0.2)]
)
def test_single_precision_is_as_good(kernel, rel):
    """Also for kernels of fewer directions than active rows."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    how, both = (y[:400], 2, 300), (X.astype(np.float32), X)
    fits = (ApproximateFit(parse(kernel), x[:400], *how, x[400:]) for x in both)
    single, double = (choose_prior_variance([fit], y[400:]).nlpp for fit in fits)
    assert single == pytest.approx(double, rel=rel)


@pytest.mark.parametrize("kernel", ["300*additive(2)", "30*rbf(2)"])
def test_no_direction_of_active_rows_is_rewarded(kernel):
    """Else an ascent would go on until it overflows; here many rows have equal inputs."""
    copies = np.repeat(X[:30], 10, axis=0)
    fit = ApproximateFit(parse(kernel), copies, copies[:, 0], 1, len(copies), copies)
    assert np.linalg.eigvalsh(fit.penalty).min() > 0.0
    assert np.isfinite(fit.maximise(0.01)).all()


def test_numbers_beside_ridge_regression_and_exact_processes():
    y = X @ [2.0, -1.0] + np.sin(X[:, 0])
    ridge = Ridge(alpha=1.0 / 0.6, fit_intercept=False).fit(X[:N], y[:N])
    line = ApproximateFit(parse("2*linear(1)"), X[:N], y[:N], 0, D, X[N:])
    assert_allclose(line.maximise(0.3)[:, 0], ridge.predict(X[N:]), atol=1e-6)
    prior = ConstantKernel(20.0 * 0.1) * Matern(1.5, nu=2.5)
    exact = GaussianProcessRegressor(prior, alpha=1.0, optimizer=None).fit(X[:N], y[:N])
    every = ApproximateFit(KERNEL, X[:N], y[:N], 0, N, X[N:])
    assert_allclose(every.maximise(0.1)[:, 0], exact.predict(X[N:]), atol=1e-5)
    found = choose_prior_variance([every], y[N:])
    rest = y[N:] - found.predicted[:, 0]
    expected = 0.5 * (np.log(2.0 * np.pi * np.mean(rest**2)) + 1.0)
    assert found.nlpp == pytest.approx(expected)
