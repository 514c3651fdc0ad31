"""The fitted model: predictions whatever the chunks, and its directory."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.data import open_dataset
from sparsegp.errors import DataError, StoreError
from sparsegp.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    data = open_dataset("digits")
    return sparsegp.train(data.train, n_active=60, posterior="adf", kernel="10*rbf")


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    X: np.ndarray = open_dataset("digits").train.X.compute()
    return X


def test_predictions_do_not_depend_on_chunks(model: Model, X: np.ndarray) -> None:
    expected = model.predict_proba(X)
    assert_allclose(expected.sum(axis=1), 1.0, atol=1e-12)
    for rows in (100, 512, 2000):
        lazy = model.predict_proba(da.from_array(X, chunks=(rows, 64)))
        assert isinstance(lazy, da.Array)
        assert_array_equal(lazy.compute(), expected)
    assert_array_equal(model.predict_proba(X[:512]), expected[:512])
    assert_allclose(model.predict_proba(X[5:6]), expected[5:6], rtol=1e-10)


def test_latent_values_are_those_of_regression_on_the_sites(model: Model, X: np.ndarray) -> None:
    mean, variance = model.latent_mean_and_variance(X)
    scaled = model.scaling.apply(X)
    kernel, x = model.active.kernels[0], model.active.x.astype(float)
    gain = np.linalg.solve(kernel(x, x) + np.eye(len(x)), kernel(x, scaled))
    assert_allclose(mean, gain.T @ model.active.site, atol=1e-9)
    expected = kernel.diag(scaled) - (kernel(x, scaled) * gain).sum(axis=0)
    assert_allclose(variance, np.broadcast_to(expected[:, None], mean.shape), atol=1e-9)


def test_round_trip(model: Model, X: np.ndarray, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = sparsegp.load(tmp_path / "m")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.settings == model.settings
    size = sum(path.stat().st_size for path in (tmp_path / "m").rglob("*") if path.is_file())
    assert size < 60 * 64 * 4 + 60 * 10 * 16 + 40_000  # active rows and sites, no training rows


def test_altered_model_is_refused(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    for path in sorted(path for path in (tmp_path / "m").rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(StoreError):
            sparsegp.load(tmp_path / "m")
        path.write_bytes(content)
    sparsegp.load(tmp_path / "m")


def test_missing_model(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        sparsegp.load(tmp_path / "nothing")


def test_bad_rows_are_named(model: Model) -> None:
    with pytest.raises(DataError, match="64 columns"):
        model.predict(np.zeros((3, 63)))
    bad = np.zeros((3, 64))
    bad[1, 2] = np.inf
    with pytest.raises(DataError, match="row 1, column 2"):
        model.predict(bad)
