"""The regressor beside scikit-learn's exact one, and in the places where it is used."""

import copy
import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sparsegp
from sparsegp import SparseGPClassifier, SparseGPRegressor
from sparsegp.errors import SettingsError, StoreError
from sparsegp.kernels import parse
from sparsegp.types import Doubles

Data = tuple[Doubles, Doubles]


def sine(n: int, noise: float = 0.2) -> Data:
    rng = np.random.default_rng(0)
    X = rng.uniform(-5.0, 5.0, (n, 1))
    return X, 30.0 + 4.0 * np.sin(2.0 * X[:, 0]) + 4.0 * noise * rng.standard_normal(n)


@pytest.fixture(scope="module")
def diabetes() -> Data:
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200]


@pytest.fixture(scope="module")
def fitted(diabetes: Data) -> SparseGPRegressor:
    return SparseGPRegressor(n_active=50, major_steps=2).fit(*diabetes)


def exact(X: Doubles, y: Doubles, kernel: Any, optimizer: str | None) -> Any:
    """Return the exact process of scikit-learn on standardised data."""
    process = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
    return make_pipeline(StandardScaler(), process).fit(X, y)


# -- against exact Gaussian process regression -----------------------------------------------------


def test_with_all_rows_it_is_exact(diabetes: Data) -> None:
    X, y = diabetes
    kernel = ConstantKernel(0.7) * RBF(2.5) + WhiteKernel(0.3)
    mean, std = exact(X, y, kernel, None).predict(X, return_std=True)
    own = SparseGPRegressor(kernel="0.7*rbf(2.5)", likelihood="gaussian(0.3)", learn="none")
    found = own.fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(found[0], mean, rtol=1e-8)
    np.testing.assert_allclose(found[1], std, rtol=1e-8)
    latent_mean, latent_variance = own.latent_mean_and_variance(X)
    np.testing.assert_array_equal(latent_mean, found[0])
    np.testing.assert_allclose(latent_variance + own.noise_variance_, std**2, rtol=1e-8)
    assert own.noise_variance_ == pytest.approx(0.3 * y.var())
    np.testing.assert_array_equal(np.sort(own.active_indices_), np.arange(200))


@pytest.mark.parametrize("data", [sine(30), sine(200)], ids=["30", "200"])
def test_it_learns_what_the_exact_evidence_says(data: Data) -> None:
    X, y = data
    pipeline = exact(X, y, ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1), "fmin_l_bfgs_b")
    theirs = pipeline[-1].kernel_
    ours = SparseGPRegressor().fit(X, y)
    assert ours.noise_variance_ / y.var() == pytest.approx(theirs.k2.noise_level, rel=0.03)
    length_scale = float(str(ours.kernel_).partition("rbf(")[2].rstrip(")"))
    assert length_scale == pytest.approx(theirs.k1.k2.length_scale, rel=0.03)
    grid = np.linspace(-4.5, 4.5, 50)[:, np.newaxis]
    mean, std = ours.predict(grid, return_std=True)
    other_mean, other_std = pipeline.predict(grid, return_std=True)
    np.testing.assert_allclose(mean, other_mean, atol=0.02 * y.std())
    np.testing.assert_allclose(std, other_std, rtol=0.03)


def test_few_active_rows_are_nearly_enough() -> None:
    X, y = sine(600)
    few, new = SparseGPRegressor(n_active=60).fit(X[:400], y[:400]), slice(400, None)
    assert few.score(X[new], y[new]) > 0.99 * SparseGPRegressor().fit(X[:400], y[:400]).score(
        X[new], y[new]
    )
    mean, std = few.predict(X[new], return_std=True)
    assert np.mean(np.abs(y[new] - mean) < 1.96 * std) == pytest.approx(0.95, abs=0.035)
    assert few.noise_variance_ == pytest.approx(0.64, rel=0.15)


# -- untuned, on data that are no friends of it ----------------------------------------------------


@pytest.mark.parametrize("kernel", ["1*rbf", "1*ard"])
def test_labels_without_noise(kernel: str) -> None:
    X = np.random.default_rng(1).normal(size=(120, 3))
    for y in (X[:, 0], np.sin(X[:, 0]) * X[:, 1]):
        regressor = SparseGPRegressor(kernel=kernel).fit(X[:100], y[:100])
        assert regressor.score(X[100:], y[100:]) > 0.95
        assert 0.0 < regressor.noise_variance_ < 1e-3 * y.var()


def test_constant_labels_and_single_rows() -> None:
    X = np.random.default_rng(1).normal(size=(40, 3))
    for n in (1, 2, 40):
        mean, std = SparseGPRegressor().fit(X[:n], np.full(n, 7.0)).predict(X, return_std=True)
        np.testing.assert_allclose(mean, 7.0, rtol=1e-6)
        assert np.isfinite(std).all()


def test_columns_that_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 8))
    y = np.sin(2.0 * X[:, 3]) + 0.1 * rng.normal(size=500)
    score = {
        kernel: SparseGPRegressor(n_active=100, kernel=kernel)
        .fit(X[:300], y[:300])
        .score(X[300:], y[300:])
        for kernel in ("1*rbf", "1*ard")
    }
    assert score["1*ard"] > 0.96 > score["1*rbf"]


def test_labels_that_say_little(diabetes: Data) -> None:
    """From less noise to start with, learning ends where every row is explained by itself."""
    X, y = diabetes
    for half, other in ((slice(100), slice(100, 200)), (slice(100, 200), slice(100))):
        assert SparseGPRegressor(n_active=30).fit(X[half], y[half]).score(X[other], y[other]) > 0.3


# -- parameters and attributes ---------------------------------------------------------------------


def test_fits_as_train_does(diabetes: Data) -> None:
    X, y = diabetes
    given: dict[str, Any] = {"n_active": 30, "kernel": "2*matern52", "learn": "none", "panel": 4}
    given["likelihood"] = "gaussian(0.2)"
    model = sparsegp.train(X, y, task="regression", seed=3, criterion="random", **given)
    estimator = SparseGPRegressor(
        **given, criterion="random", random_state=3, precision="float32"
    ).fit(X, y)
    np.testing.assert_array_equal(estimator.predict(X), model.predict(X))
    np.testing.assert_array_equal(estimator.active_indices_, model.rows)
    assert estimator.kernel_ == str(model.active.kernels[0])


def test_includes_all_rows_where_they_are_fewer(diabetes: Data) -> None:
    X, y = diabetes
    for n_active in (None, 500, 40):
        estimator = SparseGPRegressor(n_active=n_active, learn="none").fit(X[:40], y[:40])
        assert len(estimator.active_indices_) == 40
        assert estimator.n_active == n_active
    assert [record["n_active"] for record in estimator.history_] == [40]
    assert estimator.history_[0]["train_mse"] > 0.0


def test_kernel_may_be_an_object(diabetes: Data) -> None:
    found = [
        SparseGPRegressor(n_active=10, kernel=kernel, learn="none").fit(*diabetes).predict(X)
        for X in [diabetes[0][:5]]
        for kernel in ("2*matern32(1.5)", parse("2*matern32(1.5)"))
    ]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"likelihood": "probit"}, "likelihood=probit is not for task=regression"),
        ({"likelihood": "gaussian(-1)"}, "noise_variance must be positive"),
        ({"n_active": 0}, "n_active must be at least 1"),
        ({"criterion": "residual", "panel": 8}, "criterion=residual is for"),
        ({"hyperprior": "bias: normal(0, 1)"}, "must be of a parameter that is learnt"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_wrong_values_are_refused_by_fit(
    diabetes: Data, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        SparseGPRegressor(**given).fit(*diabetes)


def test_useless_labels_are_refused(diabetes: Data) -> None:
    X, y = diabetes
    for labels, message in (
        (np.where(y == y[3], np.nan, y), "Input y contains NaN"),
        (np.stack([y, y], axis=1), "1d array"),
        (np.array(["a", "b"] * 100), "a regression needs numbers as labels"),
        (y[:7], "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ):
        with pytest.raises(ValueError, match=message):
            SparseGPRegressor().fit(X, labels)
    with pytest.raises(NotFittedError):
        SparseGPRegressor().predict(X)


# -- in pipelines and searches, and with dask ------------------------------------------------------


def test_pipeline_and_search(diabetes: Data) -> None:
    X, y = diabetes
    pipeline = make_pipeline(
        StandardScaler(), SparseGPRegressor(n_active=30, major_steps=1, scaling="none")
    )
    mean, std = pipeline.fit(X, y).predict(X, return_std=True)
    assert mean.shape == std.shape == (200,)
    grid = {"sparsegpregressor__kernel": ["1*rbf", "1*rbf + 1*linear", "1*ard"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.3
    assert cross_val_score(SparseGPRegressor(n_active=30), X, y, cv=2).mean() > 0.4


def test_weights_of_the_score(fitted: SparseGPRegressor, diabetes: Data) -> None:
    X, y = diabetes
    weight = np.arange(200.0)
    assert fitted.score(X, y, weight) == r2_score(y, fitted.predict(X), sample_weight=weight)


def test_dask_arrays_give_lazy_dask_arrays(fitted: SparseGPRegressor, diabetes: Data) -> None:
    X, y = da.from_array(diabetes[0], chunks=(70, 10)), da.from_array(diabetes[1], chunks=70)
    found = SparseGPRegressor(n_active=50, major_steps=2).fit(X, y)
    np.testing.assert_array_equal(found.active_indices_, fitted.active_indices_)
    np.testing.assert_array_equal(found.predict(diabetes[0]), fitted.predict(diabetes[0]))
    lazy = (found.predict(X), *found.predict(X, True), *found.latent_mean_and_variance(X))
    rows = diabetes[0]
    dense = (fitted.predict(rows), *fitted.predict(rows, True))
    for mine, other in zip(lazy, (*dense, *fitted.latent_mean_and_variance(rows)), strict=True):
        assert isinstance(mine, da.Array)
        assert mine.chunks == ((70, 70, 60),)
        np.testing.assert_allclose(mine.compute(), other, rtol=1e-12)
    assert found.score(X, y) == fitted.score(*diabetes)


# -- copies ----------------------------------------------------------------------------------------


def test_copies_predict_the_same(diabetes: Data, tmp_path: Path) -> None:
    X, y = pd.DataFrame(diabetes[0], columns=list("abcdefghij")), pd.Series(diabetes[1])
    original = SparseGPRegressor(n_active=20, major_steps=1, random_state=None).fit(X, y)
    original.save(tmp_path / "saved")
    loaded = SparseGPRegressor.load(tmp_path / "saved")
    assert loaded.get_params() == {**original.get_params(), "random_state": loaded.random_state}
    for found in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original), loaded):
        for mine, other in zip(found.predict(X, True), original.predict(X, True), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12)
        for name in ("kernel_", "noise_variance_", "history_", "n_features_in_"):
            assert getattr(found, name) == getattr(original, name)
        assert list(found.feature_names_in_) == list("abcdefghij")
        assert clone(found).get_params() == found.get_params()
    model = sparsegp.load(tmp_path / "saved")
    np.testing.assert_array_equal(model.predict(X.to_numpy()), loaded.predict(X))


def test_each_estimator_loads_its_own_kind(diabetes: Data, tmp_path: Path) -> None:
    X, y = diabetes
    sparsegp.train(X, y, task="regression", n_active=10, out=tmp_path / "numbers")
    sparsegp.train(X, y > 100, n_active=10, out=tmp_path / "classes")
    regressor = SparseGPRegressor.load(tmp_path / "numbers")
    assert (regressor.n_active, regressor.learn, regressor.n_features_in_) == (10, "none", 10)
    assert SparseGPClassifier.load(tmp_path / "classes").posterior == "all"
    with pytest.raises(StoreError, match=r"is for classification, but .* a regression"):
        SparseGPClassifier.load(tmp_path / "numbers")
    with pytest.raises(StoreError, match=r"is for regression, but .* a classification"):
        SparseGPRegressor.load(tmp_path / "classes")
