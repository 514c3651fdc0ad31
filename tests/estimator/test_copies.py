"""Fitted estimators on disk and in other processes."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsegp
from sparsegp import SparseGPClassifier
from sparsegp.errors import StoreError
from sparsegp.types import Doubles, Labels

Data = tuple[Doubles, Labels]


def by_directory(estimator: SparseGPClassifier, folder: Path) -> SparseGPClassifier:
    estimator.save(folder / "saved")
    return SparseGPClassifier.load(folder / "saved")


def by_pickle(estimator: SparseGPClassifier, _: Path) -> Any:
    return pickle.loads(pickle.dumps(estimator))


def by_copy(estimator: SparseGPClassifier, _: Path) -> SparseGPClassifier:
    return copy.deepcopy(estimator)


ways = pytest.mark.parametrize("way", [by_directory, by_pickle, by_copy])
Way = Callable[[SparseGPClassifier, Path], SparseGPClassifier]


@ways
@pytest.mark.parametrize("posterior", ["adf", "all"])
def test_a_copy_predicts_the_same(
    iris: Data, words: Labels, tmp_path: Path, way: Way, posterior: str
) -> None:
    X = pd.DataFrame(iris[0], columns=list("abcd"))
    original = SparseGPClassifier(n_active=30, posterior=posterior, random_state=2).fit(X, words)
    found = way(original, tmp_path)
    assert found.get_params() == original.get_params()
    np.testing.assert_array_equal(found.predict(X), original.predict(X))
    tolerance = 1e-6 if way is by_directory else 0.0  # variances are stored in float32
    np.testing.assert_allclose(found.predict_proba(X), original.predict_proba(X), rtol=tolerance)
    for name in ("classes_", "active_indices_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(original, name))
    assert found.classes_.dtype == original.classes_.dtype
    for name in ("kernel_", "history_", "n_features_in_"):
        assert getattr(found, name) == getattr(original, name)
    assert found.client_ is None
    found.fit(X, words)


@pytest.mark.parametrize("dtype", ["float64", "uint8", "bool", "object", "U1"])
def test_labels_are_stored_with_their_type(iris: Data, tmp_path: Path, dtype: str) -> None:
    y = (iris[1] > 0).astype(int).astype("U1" if dtype == "object" else dtype).astype(dtype)
    original = SparseGPClassifier(n_active=10).fit(iris[0], y)
    found = by_directory(original, tmp_path)
    assert found.predict(iris[0]).dtype == y.dtype
    np.testing.assert_array_equal(found.predict(iris[0]), original.predict(iris[0]))


def test_what_was_saved_is_a_model(fitted: SparseGPClassifier, iris: Data, tmp_path: Path) -> None:
    fitted.save(tmp_path / "saved")
    model = sparsegp.load(tmp_path / "saved")
    np.testing.assert_array_equal(model.predict(iris[0]), fitted.predict(iris[0]))


def test_runs_and_models_of_train_can_be_loaded(iris: Data, tmp_path: Path) -> None:
    model = sparsegp.train(*iris, n_active=10, seed=4, out=tmp_path / "run")
    for place in ("run", "run/model"):
        estimator = SparseGPClassifier.load(tmp_path / place)
        assert estimator.random_state == 4
        assert estimator.n_active == 10
        assert estimator.n_features_in_ == 4
        assert not hasattr(estimator, "feature_names_in_")
        np.testing.assert_array_equal(
            estimator.predict_proba(iris[0]), model.predict_proba(iris[0])
        )


def test_saving_again_replaces(iris: Data, tmp_path: Path) -> None:
    named = pd.DataFrame(iris[0], columns=list("abcd"))
    by_directory(SparseGPClassifier(n_active=5).fit(named, iris[1]), tmp_path)
    found = by_directory(SparseGPClassifier(n_active=7, random_state=None).fit(*iris), tmp_path)
    assert len(found.active_indices_) == 7
    assert not hasattr(found, "feature_names_in_")
    assert isinstance(found.random_state, int)


def test_a_parameter_that_is_an_object_is_stored_as_text(iris: Data, tmp_path: Path) -> None:
    kernel = sparsegp.kernels.parse("3*rbf")
    found = by_directory(SparseGPClassifier(n_active=5, kernel=kernel).fit(*iris), tmp_path)
    assert found.kernel == "3.0*rbf"


def test_what_is_not_there_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        SparseGPClassifier.load(tmp_path / "none")
