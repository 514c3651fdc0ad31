"""Binary classification, regression and active sets a class: whole runs, however they are run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.errors import DataError, Interrupted, SettingsError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.training.progress import Quiet
from tests.runs import outcome, select_some

KINDS: dict[str, dict[str, Any]] = {
    "binary": {"likelihood": "probit", "n_active": 40},
    "logistic": {"likelihood": "logistic", "n_active": 40, "criterion": "predictive"},
    "panels": {"likelihood": "probit", "n_active": 40, "panel": 8},
    "random": {"likelihood": "probit", "n_active": 40, "criterion": "random"},
    "ordered": {"likelihood": "ordered_probit", "n_active": 80},
    "regression": {"task": "regression", "n_active": 60, "kernel": "rbf"},
    "pairs": {"active_per_class": True, "n_active": 40},
    "softmax": {"active_per_class": True, "likelihood": "softmax", "n_active": 40},
    "shared": {"sites": "moments", "kernel_per_class": True, "n_active": 80},
}
kinds = pytest.mark.parametrize("kind", KINDS)


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def data_for(kind: str) -> Data:
    """Rows of three noisy clusters on a line, their numbers, or whether they are the middle one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 3))
    code = np.digitize(X[:, 0] + 0.05 * rng.normal(size=900), [-0.5, 0.5])
    if kind == "regression":
        y: np.ndarray = 20.0 + 5.0 * np.sin(2.0 * X[:, 0]) + 0.5 * rng.normal(size=900)
    elif kind in {"binary", "logistic", "panels", "random"}:
        y = np.array(["other", "middle"])[(code == 1).astype(int)]
    else:
        y = code
    return Data(X[:700], y[:700], X[700:], y[700:])


@pytest.fixture(scope="module")
def workers() -> Iterator[Runtime]:
    with open_runtime(workers=2) as runtime:
        yield runtime


@kinds
def test_same_bits_for_any_blocks_and_workers(kind: str, workers: Runtime) -> None:
    X, y, X_test, y_test = data_for(kind)
    ways: list[dict[str, Any]] = [{"threads": 1}, {"threads": 2, "block_rows": 256}]
    if kind in {"regression", "pairs"}:
        ways.append({"runtime": workers, "block_rows": 256})
    models = [sparsegp.train(X, y, test=(X_test, y_test), **KINDS[kind], **way) for way in ways]
    for model in models[1:]:
        assert_array_equal(model.rows, models[0].rows)
        assert_array_equal(outcome(model, X_test), outcome(models[0], X_test))


@kinds
def test_resumed_equals_uninterrupted(kind: str, tmp_path: Path, stop_after: Any) -> None:
    X, y, X_test, _ = data_for(kind)
    settings = {"report_every": 10, **KINDS[kind]}
    expected = sparsegp.train(X, y, **settings)
    for cut in (1, 2):
        with pytest.raises(Interrupted, match="go on by --resume"):
            select_some(X, y, settings, tmp_path, stop_after(cut))
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **settings)
    assert_array_equal(model.rows, expected.rows)
    for mine, other in zip(model.span.coefficients, expected.span.coefficients, strict=True):
        assert_array_equal(mine, other)
    assert_array_equal(outcome(model, X_test), outcome(expected, X_test))


@kinds
def test_a_stored_model_is_the_same(kind: str, tmp_path: Path) -> None:
    X, y, X_test, _ = data_for(kind)
    model = sparsegp.train(X, y, out=tmp_path / "run", **KINDS[kind])
    same = sparsegp.load(tmp_path / "run")
    assert same.active.likelihood == model.active.likelihood
    assert_array_equal(same.predict(X_test), model.predict(X_test))
    assert_allclose(outcome(same, X_test), outcome(model, X_test), rtol=1e-12, atol=1e-12)


@kinds
def test_it_learns_and_the_curve_tells_so(kind: str) -> None:
    X, y, X_test, y_test = data_for(kind)
    plain = {**KINDS[kind], "calibration": "none"}  # the curve is that of the marginals
    model = sparsegp.train(X, y, test=(X_test, y_test), **plain)
    last, found = model.history[-1], model.predict(X_test)
    if kind == "regression":
        error = np.mean((found - y_test) ** 2)
        assert error < 1.5
        assert_allclose(last["heldout_mse"], error, rtol=1e-4)
        mean, variance = model.predictive_mean_and_variance(X_test)
        nlpp = 0.5 * (np.log(2 * np.pi * variance) + (y_test - mean) ** 2 / variance).mean()
    else:
        error = np.mean(found != y_test)
        assert error < 0.75 * (1.0 - np.unique(y_test, return_counts=True)[1].max() / len(y_test))
        assert_allclose(last["heldout_error"], error, atol=0.006)
        codes = np.searchsorted(model.classes, y_test)
        nlpp = -model.predict_log_proba(X_test)[np.arange(len(codes)), codes].mean()
        assert_allclose(model.predict_proba(X_test).sum(axis=1), 1.0, rtol=1e-12)
    rough = kind == "softmax"  # three nodes a class: probabilities sum to one only nearly
    assert_allclose(last["heldout_nlpp"], nlpp, rtol=0.05 if rough else 1e-3)


@pytest.mark.parametrize("kind", ["binary", "ordered", "pairs"])
def test_rows_kept_aside_mend_probabilities_that_are_too_soft(kind: str) -> None:
    X, y, X_test, y_test = data_for(kind)
    nlpp = {}
    for calibration in ("none", "learned"):
        model = sparsegp.train(X, y, **{**KINDS[kind], "calibration": calibration})
        codes = np.searchsorted(model.classes, y_test)
        nlpp[calibration] = -model.predict_log_proba(X_test)[np.arange(len(codes)), codes].mean()
        aside = 70 if calibration == "learned" else 0
        assert TrainSettings.given(**KINDS[kind], calibration=calibration).rows_aside(700) == aside
    assert model.span.calibration.variance_weight < 1.0
    assert nlpp["learned"] < nlpp["none"]


def test_dask_arrays_give_lazy_predictions() -> None:
    X, y, X_test, _ = data_for("regression")
    model = sparsegp.train(da.from_array(X, chunks=(200, 3)), y, **KINDS["regression"])
    lazy = da.from_array(X_test, chunks=(90, 3))
    mean, variance = model.predictive_mean_and_variance(lazy)
    expected = model.predictive_mean_and_variance(X_test)
    assert_array_equal(mean.compute(), expected[0])
    assert_array_equal(variance.compute(), expected[1])
    assert_array_equal(model.predict(lazy).compute(), expected[0])


def test_units_of_the_labels_do_not_matter() -> None:
    X, y, X_test, _ = data_for("regression")
    one = sparsegp.train(X, y, **KINDS["regression"])
    other = sparsegp.train(X, 1000.0 * y - 7.0, **KINDS["regression"])
    mean, variance = one.predictive_mean_and_variance(X_test)
    found = other.predictive_mean_and_variance(X_test)
    assert_allclose(found[0], 1000.0 * mean - 7.0, rtol=1e-4)
    assert_allclose(found[1], 1e6 * variance, rtol=1e-4)


REFUSED = {
    "task": ({"task": "ranking"}, "task must be classification or regression, got 'ranking'"),
    "task and likelihood": (
        {"task": "regression", "likelihood": "probit"},
        "likelihood=probit is not for task=regression; use one of gaussian",
    ),
    "variational": (
        {"likelihood": "probit", "sites": "variational"},
        "sites=variational are those of likelihood=multinomial_probit, got probit",
    ),
    "posterior": (
        {"likelihood": "probit", "posterior": "all"},
        "posterior=all is for sites=variational; with sites=moments use adf",
    ),
    "residual": ({"likelihood": "probit", "criterion": "residual", "panel": 8}, "is for sites="),
    "pairs": (
        {"active_per_class": True, "criterion": "predictive"},
        "a criterion that scores single classes, got predictive; use one of entropy, information",
    ),
    "classes": ({"likelihood": "probit"}, "needs exactly 2 classes, got 3"),
    "kernels": ({"sites": "moments"}, "needs a kernel of its own|need a kernel|give kernel_per"),
    "epsilon": ({"likelihood": "probit", "epsilon": 0.0}, "epsilon must be positive, got 0.0"),
    "unknown": ({"likelihood": "cauchy"}, "unknown likelihood 'cauchy'; known: gaussian"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_do_not_go_together_are_refused(case: str) -> None:
    settings, message = REFUSED[case]
    X, y, _, _ = data_for("pairs")
    with pytest.raises(SettingsError, match=message):
        sparsegp.train(X, y, **settings)


class Told(Quiet):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        self.texts.append(text)


def test_variances_lost_by_rounding_end_a_selection_in_good_order() -> None:
    """Without noise float32 cannot tell what is left of the variances; nothing else goes wrong."""
    data, told = data_for("regression"), Told()
    y, options = 5.0 * np.sin(2.0 * data.X[:, 0]), {"task": "regression", "kernel": "10*rbf"}
    test = (data.X_test, 5.0 * np.sin(2.0 * data.X_test[:, 0]))
    model = sparsegp.train(
        data.X,
        y,
        test=test,
        likelihood="gaussian(1e-10)",
        n_active=600,
        progress=told,
        **options,
    )
    assert len(model.rows) < 600
    (text,) = told.texts
    assert f"{len(model.rows)} rows included" in text
    assert text.endswith("latent variance left in float32")
    assert np.mean(np.square(model.predict(test[0]) - test[1])) < 1e-3 * test[1].var()
    assert all(np.isfinite(list(record.values())).all() for record in model.history)


def test_labels_of_a_regression_are_finite_numbers() -> None:
    X, y, _, _ = data_for("regression")
    with pytest.raises(DataError, match="a regression needs numbers as labels"):
        sparsegp.train(X, y.astype(str), task="regression")
    y = y.copy()
    y[17] = np.nan
    with pytest.raises(DataError, match=r"1 of X are not, the first, nan, in row 17"):
        sparsegp.train(X, y, task="regression")


def test_each_kind_of_model_has_its_own_predictions() -> None:
    X, y, X_test, _ = data_for("regression")
    with pytest.raises(SettingsError, match="a regression has no class probabilities"):
        sparsegp.train(X, y, **KINDS["regression"]).predict_proba(X_test)
    X, y, X_test, _ = data_for("binary")
    with pytest.raises(SettingsError, match="a classifier predicts probabilities"):
        sparsegp.train(X, y, **KINDS["binary"]).predictive_mean_and_variance(X_test)
