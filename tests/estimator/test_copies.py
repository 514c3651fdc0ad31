"""Fitted estimators on disk and in other processes."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sparsegp
from sparsegp import DenseGPClassifier, DenseGPRegressor, SparseGPClassifier, SparseGPRegressor
from sparsegp.errors import StoreError

ESTIMATORS = [
    SparseGPClassifier(n_active=30, posterior="adf", random_state=2, settings={"panel": 4}),
    SparseGPClassifier(n_active=30, kernel=sparsegp.kernels.parse("3*rbf")),
    DenseGPClassifier(method="variational", random_state=None),
    SparseGPRegressor(n_active=20, major_steps=1, random_state=None),
    DenseGPRegressor(steps=5),
]


def by_directory(estimator, folder):
    estimator.save(folder / "saved")
    return type(estimator).load(folder / "saved")


WAYS = {
    "directory": by_directory,
    "pickle": lambda estimator, _: pickle.loads(pickle.dumps(estimator)),
    "copy": lambda estimator, _: copy.deepcopy(estimator),
}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_a_copy_predicts_the_same(iris, words, tmp_path, estimator):
    X = pd.DataFrame(iris[0][:60], columns=list("0123"))  # digits are names too
    y = words[:60] if hasattr(estimator, "predict_proba") else (X["0"] - X["2"]).to_numpy()
    original = clone(estimator).fit(X, y)
    for way, copied in WAYS.items():
        found = copied(original, tmp_path)
        expected = original.get_params()
        if way == "directory":  # what no file can hold as it is
            expected["random_state"] = original.model_.settings["seed"]
            expected["kernel"] = expected["kernel"] and str(expected["kernel"])
            model = sparsegp.load(tmp_path / "saved")
            np.testing.assert_array_equal(model.predict(X), found.predict(X))
        assert {**found.get_params(), "kernel": None} == {**expected, "kernel": None}
        assert str(found.kernel) == str(expected["kernel"])
        np.testing.assert_array_equal(found.predict(X), original.predict(X))
        latent = (each.latent_mean_and_variance(X) for each in (found, original))
        np.testing.assert_array_equal(*latent)
        names = ("active_indices_", "feature_names_in_", "kernel_", "history_", "n_features_in_")
        for name in names:
            np.testing.assert_array_equal(getattr(found, name), getattr(original, name))
        if hasattr(original, "classes_"):
            assert found.classes_.dtype == original.classes_.dtype
        assert found.client_ is None
        found.fit(X, y)


def test_saving_again_replaces(iris, tmp_path):
    named = pd.DataFrame(iris[0], columns=list("abcd"))
    by_directory(SparseGPClassifier(n_active=5).fit(named, iris[1]), tmp_path)
    found = by_directory(SparseGPClassifier(n_active=7, random_state=None).fit(*iris), tmp_path)
    assert len(found.active_indices_) == 7
    assert not hasattr(found, "feature_names_in_")


def test_frames_of_numbered_columns(tmp_path):
    rng = np.random.default_rng(3)
    codes, x = rng.integers(0, 5, 300), rng.normal(size=300)
    frame, y = pd.DataFrame({0: [f"c{code}" for code in codes], 1: x}), (np.sin(codes) + x > 0) * 1
    model = SparseGPClassifier(n_active=30, kernel="rbf").fit(frame, y)
    expected = model.predict_proba(frame)
    model.save(tmp_path / "a.zarr.zip")
    model.model_.save(tmp_path / "b.zarr.zip")
    for name in ("a", "b"):
        again = SparseGPClassifier.load(tmp_path / f"{name}.zarr.zip")
        np.testing.assert_array_equal(again.predict_proba(frame), expected)


def test_each_estimator_loads_its_own_kind_of_run(iris, tmp_path):
    X, y = iris
    sparsegp.train(X, X[:, 0], task="regression", n_active=10, out=tmp_path / "numbers")
    how = {"n_active": 10, "seed": 4, "tolerance": 1e-3}
    model = sparsegp.train(X, y, **how, out=tmp_path / "classes")
    sparsegp.train(X, y, method="laplace", out=tmp_path / "dense")
    estimator = SparseGPClassifier.load(tmp_path / "classes")
    assert (estimator.random_state, estimator.n_active) == (4, 10)
    assert estimator.settings == {"tolerance": 1e-3}
    assert not hasattr(estimator, "feature_names_in_")
    np.testing.assert_array_equal(estimator.predict_proba(X), model.predict_proba(X))
    regressor = SparseGPRegressor.load(tmp_path / "numbers")
    assert (regressor.n_active, regressor.learn, regressor.n_features_in_) == (10, "none", 4)
    for kind, place, message in (
        (SparseGPClassifier, "numbers", "a regression by the .*, which SparseGPClassifier is not"),
        (SparseGPRegressor, "classes", "holds a classification by"),
        (SparseGPClassifier, "dense", "a classification by a dense method"),
        (DenseGPClassifier, "classes", "by the informative vector machine"),
        (SparseGPClassifier, "none", "none"),
    ):
        with pytest.raises(StoreError, match=message):
            kind.load(tmp_path / place)
