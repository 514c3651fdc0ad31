"""What the constructors take, and what fit makes of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp.estimator.base
from sparsegp import (
    DenseGPClassifier,
    DenseGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    train,
)
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.estimator.parameters import n_threads
from sparsegp.kernels import parse
from sparsegp.runtime.threads import usable_cpus
from sparsegp.settings import DenseSettings, TrainSettings, declared
from sparsegp.types import Doubles, Labels

Data = tuple[Doubles, Labels]
ELSEWHERE = {"settings", "n_jobs", "client", "checkpoint_dir", "resume", "verbose", "random_state"}
ESTIMATORS = [SparseGPClassifier, SparseGPRegressor, DenseGPClassifier, DenseGPRegressor]


@pytest.fixture(scope="module")
def two(iris: Data) -> Data:
    """Rows of two classes that overlap, with names."""
    X, y = iris
    return X[y > 0], np.array(["versicolor", "virginica"])[y[y > 0] - 1]


# -- constructors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_settings_and_documented(estimator: Any) -> None:
    dense = estimator in {DenseGPClassifier, DenseGPRegressor}
    parameters = estimator().get_params()
    known = declared(DenseSettings if dense else TrainSettings)
    assert set(parameters) - ELSEWHERE <= set(known)
    for name in parameters:
        assert f"\n{name} : " in estimator.__doc__
        if name in known and name != "likelihood":
            assert known[name].description[:40] in " ".join(estimator.__doc__.split())


def test_defaults_are_those_of_the_settings() -> None:
    for estimator, settings in (
        (SparseGPClassifier(), TrainSettings()),
        (DenseGPClassifier(), DenseSettings()),
    ):
        for name, value in estimator.get_params().items():
            assert name in ELSEWHERE or value is None or value == getattr(settings, name)


def test_other_settings_go_into_one_mapping(iris: Data) -> None:
    more = {"panel": 8, "tolerance": np.float64(1e-3), "lazy": np.bool_(False), "n_nodes": 5}
    model = train(*iris, n_active=20, **more)
    estimator = SparseGPClassifier(n_active=20, settings=more).fit(*iris)
    np.testing.assert_array_equal(estimator.predict_proba(iris[0]), model.predict_proba(iris[0]))
    assert estimator.model_.settings["panel"] == 8


@pytest.mark.parametrize(
    "settings", [{"n_active": 5}, {"seed": 3}, {"task": "regression"}, {"nix": 1}, {3: 4}, 7]
)
def test_only_other_settings_go_there(iris: Data, settings: Any) -> None:
    with pytest.raises(SettingsError, match="settings must be"):
        SparseGPClassifier(settings=settings).fit(*iris)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_active", 0),
        ("n_active", 1.5),
        ("n_active", "5"),
        ("n_active", True),
        ("kernel", "rbf("),
        ("criterion", "best"),
        ("random_state", -1),
        ("n_jobs", 0),
        ("settings", {"epsilon": 0.0}),
        ("settings", {"panel": "8"}),
    ],
)
def test_wrong_values_are_refused_by_fit(iris: Data, name: str, value: Any) -> None:
    estimator = SparseGPClassifier().set_params(**{name: value})
    with pytest.raises(SettingsError):
        estimator.fit(*iris)


# -- beside `train` --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"posterior": "adf"}, {}),
        ({"posterior": "all", "precision": "float64"}, {}),
        ({"kernel": parse("2*matern32(1.5)")}, {}),
        ({"likelihood": "ordered_probit"}, {"n_nodes": 5}),
    ],
)
def test_predicts_what_the_model_of_train_predicts(
    iris: Data, given: dict[str, Any], settings: dict[str, Any]
) -> None:
    X, y = iris
    named = {name: value if isinstance(value, str) else str(value) for name, value in given.items()}
    model = train(X, y, n_active=20, seed=3, **named, **settings)
    estimator = SparseGPClassifier(
        n_active=np.int64(20), random_state=np.int32(3), settings=settings, **given
    ).fit(X, y)
    np.testing.assert_array_equal(estimator.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(estimator.predict(X), model.predict(X))
    np.testing.assert_array_equal(estimator.active_indices_, model.rows)
    for mine, its in zip(
        estimator.latent_mean_and_variance(X), model.latent_mean_and_variance(X), strict=True
    ):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"likelihood": "probit"}, {}),
        ({"likelihood": "logistic", "criterion": "predictive"}, {}),
        ({"likelihood": "probit(0.3)", "learn": "evidence"}, {"major_steps": 2}),
        ({}, {"active_per_class": True}),
    ],
)
def test_what_is_left_open_suits_the_likelihood(
    two: Data, given: dict[str, Any], settings: dict[str, Any]
) -> None:
    X, y = two
    model = train(X, y, n_active=20, **given, **settings)
    estimator = SparseGPClassifier(n_active=20, settings=settings, **given).fit(X, y)
    np.testing.assert_array_equal(estimator.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(estimator.classes_, ["versicolor", "virginica"])
    assert estimator.get_params()["kernel"] is None


@pytest.mark.parametrize("given", [{"likelihood": "softmax"}, {"sites": "moments"}])
def test_each_class_has_a_kernel_where_its_likelihood_needs_it(
    iris: Data, given: dict[str, Any]
) -> None:
    estimator = SparseGPClassifier(n_active=30, settings={"n_nodes": 5}, **given).fit(*iris)
    assert len(estimator.kernel_) == 3
    with pytest.raises(SettingsError, match="each needs a kernel of its own"):
        estimator.set_params(kernel_per_class=False).fit(*iris)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"likelihood": "probit", "posterior": "all"}, "with sites=moments use adf"),
        ({"likelihood": "probit", "sites": "variational"}, "use sites=moments"),
        ({"likelihood": "gaussian"}, "likelihood=gaussian is not for task=classification"),
    ],
)
def test_what_is_given_is_never_replaced(two: Data, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        SparseGPClassifier(**given).fit(*two)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseGPClassifier(likelihood="probit"),
        SparseGPClassifier(likelihood="logistic(1.5)"),
        DenseGPClassifier(method="ep", likelihood="probit"),
    ],
)
def test_only_two_classes_where_there_is_one_bias(iris: Data, estimator: Any) -> None:
    assert not estimator.__sklearn_tags__().classifier_tags.multi_class
    with pytest.raises(SettingsError, match="Only binary classification is supported by like"):
        estimator.fit(*iris)


def test_names_that_do_not_exist_are_for_fit_to_refuse(iris: Data) -> None:
    for estimator in (SparseGPClassifier(likelihood="none"), DenseGPClassifier(method="none")):
        assert estimator.__sklearn_tags__().classifier_tags.multi_class
        with pytest.raises(SettingsError, match=r"unknown .* 'none'"):
            estimator.fit(*iris)


@pytest.mark.parametrize("calibration", ["none", "learned"])
def test_includes_all_rows_where_they_are_fewer(iris: Data, calibration: str) -> None:
    X, y = iris[0][:40], iris[1][:40]
    for n_active in (None, 50):
        estimator = SparseGPClassifier(n_active=n_active, calibration=calibration).fit(X, y)
        assert len(estimator.active_indices_) == 40
        assert estimator.n_active == n_active


def test_pairs_may_be_more_than_rows(iris: Data) -> None:
    X, y = iris[0][:40], iris[1][:40]
    estimator = SparseGPClassifier(n_active=60, settings={"active_per_class": True}).fit(X, y)
    assert estimator.history_[-1]["n_active"] == 60
    assert len(estimator.active_indices_) <= 40


def test_history_follows_the_selection(iris: Data) -> None:
    estimator = SparseGPClassifier(n_active=10, settings={"report_every": 5}).fit(*iris)
    assert [record["n_active"] for record in estimator.history_] == [5, 10]
    assert {"seconds", "train_error"} <= set(estimator.history_[0])


def test_random_state(iris: Data) -> None:
    def rows(random_state: Any) -> list[int]:
        estimator = SparseGPClassifier(n_active=10, criterion="random", random_state=random_state)
        return list(estimator.fit(*iris).active_indices_)

    assert rows(4) == rows(4) != rows(5)
    assert rows(np.random.RandomState(1)) == rows(np.random.RandomState(1))
    assert rows(None) != rows(None)


# -- where a fit computes, and what it keeps -------------------------------------------------------


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
    assert (tmp_path / "run" / "model.zarr.zip").is_file()
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
