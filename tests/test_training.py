"""Training as a whole: the same result however it is run, cut short or asked for."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.data import Table, open_dataset, table_from_arrays
from sparsegp.errors import DataError, Interrupted, SettingsError, StoreError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.run_directory import RunDirectory
from sparsegp.settings import TrainSettings
from sparsegp.training import Training

train = functools.partial(sparsegp.train, posterior="adf", kernel="10*rbf")

ORDERS = {
    "one by one": {"lookahead": 1},
    "lookahead": {"lookahead": 16},
    "panels": {"panel": 16},
    "random": {"criterion": "random"},
    "residual": {"criterion": "residual"},
    "per class": {"kernel_per_class": True, "lookahead": 8},
}


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    data = open_dataset("digits")
    assert data.test is not None
    assert data.train.y is not None
    assert data.test.y is not None
    return data.train.X.compute(), data.train.y, data.test.X.compute(), data.test.y


@pytest.fixture(scope="module")
def workers() -> Iterator[Runtime]:
    with open_runtime(workers=2) as runtime:
        yield runtime


@pytest.mark.parametrize("order", ORDERS)
def test_same_bits_for_any_blocks_threads_and_workers(
    order: str, digits: tuple[np.ndarray, ...], workers: Runtime
) -> None:
    X, y, X_test, _ = digits
    ways: list[dict[str, Any]] = [
        {"threads": 1, "block_rows": len(X)},  # one block
        {"threads": 2, "block_rows": 768},  # two
        {"threads": 2, "block_rows": 256},  # six
        {"runtime": workers},
        {"runtime": workers, "block_rows": 256},
    ]
    models = [train(X, y, n_active=80, **ORDERS[order], **way) for way in ways]
    expected = models[0].predict_log_proba(X_test)
    for model in models[1:]:
        assert_array_equal(model.rows, models[0].rows)
        assert_array_equal(model.predict_log_proba(X_test), expected)


def test_lookahead_and_lazy_scores_do_not_change_the_active_set(
    digits: tuple[np.ndarray, ...],
) -> None:
    X, y = digits[:2]
    rows = [
        train(X, y, n_active=150, precision="float64", lookahead=q, lazy=lazy).rows
        for q in (1, 5, 32)
        for lazy in (True, False)
    ]
    for other in rows[1:]:
        assert_array_equal(other, rows[0])


def test_dask_arrays_in_any_chunks_are_the_same_data(digits: tuple[np.ndarray, ...]) -> None:
    X, y = digits[:2]
    lazy = da.from_array(X, chunks=(101, 7))
    expected = train(X, y, n_active=40)
    model = train(lazy, da.from_array(y, chunks=333), n_active=40)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(model.active.site, expected.active.site)


@pytest.mark.parametrize("order", ORDERS)
def test_resumed_equals_uninterrupted(
    order: str, digits: tuple[np.ndarray, ...], tmp_path: Path, stop_after: Any
) -> None:
    X, y, X_test, _ = digits
    settings = {"n_active": 90, "report_every": 7, **ORDERS[order]}
    expected = train(X, y, **settings)
    cuts = [1, 3, 8]
    for cut in cuts:
        with pytest.raises(Interrupted, match="go on by --resume"):
            _run_some_rounds(
                table_from_arrays(X, y),
                TrainSettings(posterior="adf", kernel="10*rbf", **settings),
                tmp_path,
                stop_after(cut),
            )
    model = train(X, y, out=tmp_path, resume=True, block_rows=512, **settings)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(model.active.site, expected.active.site)
    assert_array_equal(model.predict_proba(X_test), expected.predict_proba(X_test))
    assert [h["train_error"] for h in model.history] == [h["train_error"] for h in expected.history]


def _run_some_rounds(table: Table, settings: TrainSettings, path: Path, stop: Any) -> None:
    directory = RunDirectory(path, 2, pytest.fail)
    with (
        open_runtime() as runtime,
        Training(
            table,
            settings,
            runtime=runtime,
            directory=directory,
            resume=True,
            checkpoint_every=10**6,
        ) as run,
    ):
        run.build()
        run.select(stop)


def test_refuses_to_resume_with_other_settings_or_data(
    digits: tuple[np.ndarray, ...], tmp_path: Path, stop_after: Any
) -> None:
    X, y = digits[:2]
    settings = {"n_active": 40, "lookahead": 4}
    with pytest.raises(Interrupted):
        _run_some_rounds(
            table_from_arrays(X, y),
            TrainSettings(posterior="adf", kernel="10*rbf", **settings),
            tmp_path,
            stop_after(3),
        )
    with pytest.raises(SettingsError, match="n_active was 40 and is now 41"):
        train(X, y, out=tmp_path, resume=True, n_active=41, lookahead=4)
    swapped = X.copy()
    same = np.flatnonzero(y == y[700])
    swapped[same[:2]] = X[same[1::-1]]  # the same columns' statistics
    with pytest.raises(SettingsError, match=r"inputs or labels differ.*first in rows 0 to 255"):
        train(swapped, y, out=tmp_path, resume=True, **settings)
    with pytest.raises(SettingsError, match=r"other settings or data: .*rows was 1437"):
        train(X[:-1], y[:-1], out=tmp_path, resume=True, **settings)
    with pytest.raises(StoreError, match="holds another run"):
        train(X, y, out=tmp_path, **settings)


@pytest.mark.parametrize(("criterion", "scored_by"), [("residual", [64]), ("predictive", [])])
def test_recovery_brings_the_scores_back(
    criterion: str, scored_by: list[int], digits: tuple[np.ndarray, ...]
) -> None:
    settings = TrainSettings(n_active=80, criterion=criterion, panel=16, report_every=80)
    table = table_from_arrays(*digits[:2])
    with open_runtime(threads=1) as runtime, Training(table, settings, runtime=runtime) as run:
        run.build()
        run.select()
        messages = runtime.recovery()
    assert [name for name, _ in messages] == ["include"] * 5 + ["rescore"] * len(scored_by)
    assert [args[0].shape[1] for name, args in messages if name == "rescore"] == scored_by


def test_state_is_shown_as_dask_arrays(digits: tuple[np.ndarray, ...]) -> None:
    X, y = digits[:2]
    settings = TrainSettings(
        n_active=30, posterior="adf", precision="float64", kernel="2*rbf(3)", scaling="none"
    )
    with (
        open_runtime() as runtime,
        Training(table_from_arrays(X / 16, y), settings, runtime=runtime, block_rows=512) as run,
    ):
        run.build()
        run.select()
        stub, means, variances = run.stub(), run.means(), run.variances()
        assert stub.chunks == ((30,), (512, 512, 413))
        assert means.chunks == ((512, 512, 413), (10,))
        stub, means, variances = stub.compute(), means.compute(), variances.compute()
        kernel = run.block_settings.kernels[0]
        rows, site = run.active.rows, run.active.site
    cross = kernel(X / 16, X[rows] / 16)
    covariance = kernel(X[rows] / 16, X[rows] / 16)
    gain = np.linalg.solve(covariance + np.eye(30), cross.T)
    assert_allclose(stub.T @ stub, cross @ gain, atol=1e-10)
    assert_allclose(means, gain.T @ site, atol=1e-10)
    assert_allclose(variances[:, 0], 2.0 - (cross.T * gain).sum(axis=0), atol=1e-10)


def test_followed_error_is_that_of_the_model(digits: tuple[np.ndarray, ...]) -> None:
    X, y, X_test, y_test = digits
    model = train(X, y, test=(X_test, y_test), n_active=60, report_every=20, precision="float64")
    assert [h["n_active"] for h in model.history] == [20, 40, 60]
    log_p = model.predict_log_proba(X_test)
    assert model.history[-1]["heldout_error"] == np.mean(model.predict(X_test) != y_test)
    nlpp = -log_p[np.arange(len(y_test)), y_test].mean()
    assert_allclose(model.history[-1]["heldout_nlpp"], nlpp, rtol=1e-4)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [-3, 0, 10**12], [True, False, True]])
def test_labels_of_any_kind_come_back(labels: list[Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 200)
    X = rng.normal(size=(200, 2)) + 6.0 * np.array([[0, 0], [1, 0], [0, 1]])[codes]
    y = np.array(labels)[codes]
    train(X, y, n_active=30, out=tmp_path / "run")
    model = sparsegp.load(tmp_path / "run")
    predicted = model.predict(X)
    assert predicted.dtype.kind == y.dtype.kind
    assert np.mean(predicted == y) > 0.99
    assert_array_equal(model.classes, np.unique(y))


def test_duplicate_rows_and_constant_columns_are_harmless(
    digits: tuple[np.ndarray, ...],
) -> None:
    X, y = digits[:2]
    doubled = np.concatenate([X, X])
    padded = np.concatenate([doubled, np.full((len(doubled), 2), 7.0)], axis=1)
    model = train(padded, np.concatenate([y, y]), n_active=60, scaling="standard")
    assert np.isfinite(model.predict_log_proba(padded)).all()
    first = train(padded, np.concatenate([y, y]), n_active=60, scaling="standard", threads=1)
    assert_array_equal(model.rows, first.rows)


def test_active_posterior_is_the_fixed_point_of_eq_4_6(digits: tuple[np.ndarray, ...]) -> None:
    X, y = digits[0] / 16, digits[1]
    model = train(X, y, n_active=60, posterior="active", kernel="2*rbf(3)", scaling="none")
    x = X[model.rows]
    covariance = model.active.kernels[0](x, x)
    smoother = covariance @ np.linalg.inv(covariance + np.eye(60))
    mean = np.zeros((60, 10))
    zero = np.zeros((60, 1))
    for _ in range(2000):
        p = model.active.likelihood.gradient(mean, zero, model.active.target)[1]
        mean = smoother @ (mean + p)
    assert_allclose(model.latent_mean_and_variance(x)[0], mean, atol=2e-6)


def test_bad_input_is_named(digits: tuple[np.ndarray, ...]) -> None:
    X, y = digits[:2]
    with pytest.raises(SettingsError, match="n_active=2000 exceeds the 1437 training rows"):
        train(X, y, n_active=2000)
    with pytest.raises(DataError, match="one class only"):
        train(X, np.zeros(len(X)))
    broken = X.astype(float)
    broken[1000, 5] = np.nan
    with pytest.raises(DataError, match=r"row 1000.*column 5"):
        train(broken, y)
    with pytest.raises(DataError, match="65 columns"):
        train(X, y, test=(np.ones((3, 65)), y[:3]), n_active=10)
    with pytest.raises(
        SettingsError, match="unknown criterion 'best'; known: entropy, information"
    ):
        train(X, y, criterion="best")
    with pytest.raises(SettingsError, match="position 4"):
        train(X, y, kernel="10*rfb")
