"""What the constructor takes, and what fit makes of it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp.estimator.base
from sparsegp import DenseGPClassifier, SparseGPClassifier, SparseGPRegressor, train
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.estimator.parameters import PARAMETER, n_threads
from sparsegp.execution.threads import usable_cpus
from sparsegp.kernels import parse
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.types import Doubles, Labels

Data = tuple[Doubles, Labels]


OPEN = {"kernel", "kernel_per_class", "criterion", "posterior", "sites"}
"""Parameters of the classifier that are None where the likelihood is to choose."""

ELSEWHERE = {"n_jobs", "client", "checkpoint_dir", "resume", "verbose"}

CLASSES_ONLY = {
    *("kernel_per_class", "posterior", "sites", "active_per_class", "epsilon", "strategy"),
    *("lazy", "tolerance", "calibration", "n_nodes"),
}


def test_every_setting_is_a_parameter_with_the_same_default() -> None:
    parameters = SparseGPClassifier().get_params()
    for field in fields(TrainSettings):
        default = None if field.name in OPEN else field.default
        assert parameters.pop(PARAMETER.get(field.name, field.name)) == default
    assert set(parameters) == ELSEWHERE


def test_a_regressor_has_the_settings_that_mean_something_to_it() -> None:
    settings = {PARAMETER.get(field.name, field.name) for field in fields(TrainSettings)}
    assert set(SparseGPRegressor().get_params()) == settings - CLASSES_ONLY | ELSEWHERE


def test_a_dense_classifier_has_all_settings_of_dense_methods() -> None:
    parameters = DenseGPClassifier().get_params()
    for field in fields(DenseSettings):
        assert parameters.pop(PARAMETER.get(field.name, field.name)) == field.default
    assert set(parameters) == ELSEWHERE


@pytest.mark.parametrize("posterior", ["adf", "all"])
def test_predicts_what_the_model_of_train_predicts(iris: Data, posterior: str) -> None:
    X, y = iris
    model = train(X, y, n_active=20, posterior=posterior, seed=3)
    estimator = SparseGPClassifier(n_active=20, posterior=posterior, random_state=3).fit(X, y)
    np.testing.assert_array_equal(estimator.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(estimator.predict(X), model.predict(X))
    np.testing.assert_array_equal(estimator.active_indices_, model.rows)
    for mine, its in zip(
        estimator.latent_mean_and_variance(X), model.latent_mean_and_variance(X), strict=True
    ):
        assert mine.shape == (len(X), 3)
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(
    ("posterior", "calibration", "rows"),
    [("adf", "none", 40), ("all", "none", 40), ("all", "learned", 40)],
)
def test_includes_all_rows_where_they_are_fewer(
    iris: Data, posterior: str, calibration: str, rows: int
) -> None:
    X, y = iris[0][:40], iris[1][:40]
    for n_active in (None, 50):
        estimator = SparseGPClassifier(
            n_active=n_active, posterior=posterior, calibration=calibration
        ).fit(X, y)
        assert len(estimator.active_indices_) == rows
        assert estimator.n_active == n_active


def test_kernel_is_text_or_object(iris: Data) -> None:
    by_text = SparseGPClassifier(n_active=10, kernel="2*matern32(1.5)").fit(*iris)
    by_object = SparseGPClassifier(n_active=10, kernel=parse("2*matern32(1.5)")).fit(*iris)
    assert by_text.kernel_ == by_object.kernel_
    np.testing.assert_array_equal(by_text.predict_proba(iris[0]), by_object.predict_proba(iris[0]))


def test_kernel_of_each_class_is_listed(iris: Data) -> None:
    estimator = SparseGPClassifier(n_active=10, kernel_per_class=True, kernel="3*rbf").fit(*iris)
    assert len(estimator.kernel_) == 3
    assert all(text.startswith("3.0*rbf(") for text in estimator.kernel_)


def test_history_follows_the_selection(iris: Data) -> None:
    estimator = SparseGPClassifier(n_active=10, report_every=5).fit(*iris)
    assert [record["n_active"] for record in estimator.history_] == [5, 10]
    assert {"seconds", "train_error"} <= set(estimator.history_[0])


def test_numpy_numbers_are_taken(iris: Data) -> None:
    given: dict[str, Any] = {
        "n_active": np.int64(10),
        "tolerance": np.float64(1e-3),
        "lazy": np.bool_(True),
        "random_state": np.int32(5),
    }
    estimator = SparseGPClassifier(**given).fit(*iris)
    assert len(estimator.active_indices_) == 10
    assert all(getattr(estimator, name) is value for name, value in given.items())


def test_random_state(iris: Data) -> None:
    def rows(random_state: Any) -> list[int]:
        estimator = SparseGPClassifier(n_active=10, criterion="random", random_state=random_state)
        return list(estimator.fit(*iris).active_indices_)

    assert rows(4) == rows(4) != rows(5)
    state = np.random.RandomState(0)
    assert rows(state) != rows(state)
    assert rows(np.random.RandomState(0)) == rows(np.random.RandomState(0))
    assert len(rows(None)) == 10
    with pytest.raises(ValueError, match="cannot be used to seed"):
        rows("seven")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_active", 0),
        ("kernel", "rbf("),
        ("criterion", "best"),
        ("posterior", "best"),
        ("scaling", "big"),
        ("precision", "float16"),
        ("calibration", "some"),
        ("random_state", -1),
        ("n_jobs", 0),
    ],
)
def test_wrong_values_are_refused_by_fit(iris: Data, name: str, value: Any) -> None:
    estimator = SparseGPClassifier().set_params(**{name: value})
    with pytest.raises(SettingsError):
        estimator.fit(*iris)


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    usable = usable_cpus()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert n_threads(None) == n_threads(-1) == usable
    assert n_threads(7) == 7
    assert n_threads(-usable - 5) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert n_threads(None) == 1
    assert n_threads(-1) == usable


def test_results_do_not_depend_on_threads(iris: Data) -> None:
    one, three = (SparseGPClassifier(n_active=20, n_jobs=n).fit(*iris) for n in (1, 3))
    np.testing.assert_array_equal(one.predict_proba(iris[0]), three.predict_proba(iris[0]))


def test_checkpoints_and_resume(iris: Data, tmp_path: Path) -> None:
    estimator = SparseGPClassifier(n_active=10, checkpoint_dir=tmp_path / "run").fit(*iris)
    assert (tmp_path / "run" / "model").is_dir()
    with pytest.raises(OSError, match="holds another run"):
        estimator.fit(*iris)
    again = SparseGPClassifier(n_active=10, checkpoint_dir=tmp_path / "run", resume=True)
    again.fit(*iris)
    np.testing.assert_array_equal(again.predict_proba(iris[0]), estimator.predict_proba(iris[0]))
    with pytest.raises(ValueError, match="n_active was 10"):
        again.set_params(n_active=11).fit(*iris)


@pytest.mark.parametrize("kept", [True, False])
def test_a_stop_is_an_interrupt_and_no_failed_fit(
    iris: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise Interrupted("stopped by SIGINT")

    monkeypatch.setattr(sparsegp.estimator.base, "train", stopped)
    estimator = SparseGPClassifier(checkpoint_dir=tmp_path / "run" if kept else None)
    with pytest.raises(KeyboardInterrupt, match="resume=True" if kept else "nothing was kept"):
        estimator.fit(*iris)


def test_progress_is_shown_on_demand(iris: Data, capsys: pytest.CaptureFixture[str]) -> None:
    SparseGPClassifier(n_active=5).fit(*iris)
    assert not capsys.readouterr().err
    SparseGPClassifier(n_active=5, verbose=1).fit(*iris)
    shown = capsys.readouterr()
    assert "select" in shown.err
    assert not shown.out
