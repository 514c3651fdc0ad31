"""The dense regressor against scikit-learn's, and its settings."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import sparsegp
from sparsegp import DenseGPRegressor, SparseGPRegressor
from sparsegp.dense import Exact, Problem
from sparsegp.errors import SettingsError, StoreError
from sparsegp.kernels import parse
from sparsegp.likelihoods import Gaussian
from sparsegp.settings import DenseSettings
from sparsegp.types import Doubles


@pytest.fixture(scope="module")
def data() -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, size=(60, 2))
    return X, 20 + 5 * np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=60)


def reference(v: float, length: float, noise: float, optimise: bool) -> GaussianProcessRegressor:
    kernel = ConstantKernel(v) * RBF(length) + WhiteKernel(noise, (1e-4, 10.0))
    return GaussianProcessRegressor(kernel, optimizer="fmin_l_bfgs_b" if optimise else None)


def test_with_a_given_kernel(data: tuple[Doubles, Doubles]) -> None:
    X, y = data
    ours = DenseGPRegressor(
        kernel="2*rbf(1.5)", likelihood="gaussian(0.05)", learn="none", scaling="none"
    ).fit(X[:40], y[:40])
    mean, scale = y[:40].mean(), y[:40].std()
    theirs = reference(2.0, 1.5, 0.05, False).fit(X[:40], (y[:40] - mean) / scale)
    expected, sd = theirs.predict(X[40:], return_std=True)
    found, std = ours.predict(X[40:], return_std=True)
    assert_allclose(found, mean + scale * expected, rtol=1e-6)
    assert_allclose(std, scale * sd, rtol=1e-6)
    latent, variance = ours.latent_mean_and_variance(X[40:])
    assert_allclose(latent, found)
    assert_allclose(variance, std**2 - 0.05 * scale**2, rtol=1e-6)
    assert ours.noise_variance_ == pytest.approx(0.05 * scale**2)
    evidence = ours.model_.report["log_evidence"]
    assert evidence == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)


def test_kernel_and_noise_are_those_of_the_highest_evidence(data: tuple[Doubles, Doubles]) -> None:
    X, y = data
    ours = DenseGPRegressor(kernel="1*rbf(1)", hyperprior="", scaling="none").fit(X, y)
    theirs = reference(1.0, 1.0, 0.3, True).fit(X, (y - y.mean()) / y.std())
    evidence = ours.model_.report["log_evidence"]
    assert evidence == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-3)
    noise = np.exp(theirs.kernel_.theta[2]) * y.std() ** 2
    assert ours.noise_variance_ == pytest.approx(noise, rel=0.02)
    assert 0.4 < ours.noise_variance_ < 2.0  # drawn with one
    assert ours.score(X, y) > 0.9
    assert_array_equal(ours.active_indices_, np.arange(60))


def test_gradient_of_the_evidence_in_the_noise_too(data: tuple[Doubles, Doubles]) -> None:
    X, y = data
    y = (y - y.mean()) / y.std()
    problem = Problem(X, y, [parse("2*ard(1, 2)")], Gaussian(0.2), 1, learns_likelihood=True)
    assert_allclose(problem.parameters(), np.log([2.0, 1.0, 2.0, 0.2]))
    at = np.array([0.3, -0.2, 0.4, -1.0])
    found = Exact().evidence(problem.with_parameters(at))
    numeric = approx_fprime(at, lambda t: Exact().evidence(problem.with_parameters(t)).value, 1e-6)
    assert_allclose(found.gradient, numeric, rtol=1e-4)
    fixed = Problem(X, y, problem.kernels, problem.likelihood, 1)
    assert_allclose(fixed.parameters(), np.log([2.0, 1.0, 2.0]))
    assert fixed.with_parameters(at[:3]).likelihood == Gaussian(0.2)


def test_the_sparse_regressor_with_all_rows_is_the_same(data: tuple[Doubles, Doubles]) -> None:
    X, y = data
    common = {"kernel": "2*rbf(1.5)", "likelihood": "gaussian(0.1)", "learn": "none"}
    dense, sparse = DenseGPRegressor(**common).fit(X, y), SparseGPRegressor(**common).fit(X, y)
    for one, other in zip(
        dense.predict(X, return_std=True), sparse.predict(X, return_std=True), strict=True
    ):
        assert_allclose(one, other, rtol=1e-6)


def test_kept_on_disk(data: tuple[Doubles, Doubles], tmp_path: Path) -> None:
    X, y = data
    fitted = DenseGPRegressor(steps=5).fit(X, y)
    fitted.save(tmp_path / "kept")
    again = DenseGPRegressor.load(tmp_path / "kept")
    assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.get_params() == fitted.get_params()
    assert again.noise_variance_ == fitted.noise_variance_
    assert_array_equal(sparsegp.load(tmp_path / "kept").rows, np.arange(60))
    with pytest.raises(StoreError, match="a model of a dense method, which SparseGPRegressor"):
        SparseGPRegressor.load(tmp_path / "kept")


def test_a_finished_run_is_taken_as_it_is(data: tuple[Doubles, Doubles], tmp_path: Path) -> None:
    X, y = data
    fitted = DenseGPRegressor(checkpoint_dir=tmp_path / "run").fit(X, y)
    again = DenseGPRegressor(checkpoint_dir=tmp_path / "run", resume=True).fit(X, y)
    assert_array_equal(again.predict(X), fitted.predict(X))


def test_samples_of_kernels(data: tuple[Doubles, Doubles]) -> None:
    X, y = data
    prior = "v: lognormal(0, 1); l: lognormal(0, 1)"
    fitted = DenseGPRegressor(learn="hmc", steps=10, hyperprior=prior).fit(X, y)
    assert len(fitted.model_.mixture.components) == 40
    assert fitted.noise_variance_ == pytest.approx(0.3 * y.var())
    assert fitted.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "probit"}, "likelihood=probit is not for task=regression; use another"),
        ({"likelihood": "gaussian(-1)"}, "noise_variance must be positive"),
        ({"likelihood": "gaussian(0.1, 2)"}, "gaussian takes at most 1"),
        ({"hyperprior": "bias: normal(0, 1)"}, "must be of a parameter that is learnt"),
    ],
)
def test_refusals(data: tuple[Doubles, Doubles], options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        DenseGPRegressor(**options).fit(*data)


def test_numbers_of_other_likelihoods_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"are for gaussian, got probit\(-1.5\); leave them"):
        DenseSettings(method="laplace", likelihood="probit(-1.5)")
    assert DenseSettings(method="exact", likelihood="gaussian(0.2)").is_regression
