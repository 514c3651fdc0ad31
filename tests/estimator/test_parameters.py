"""What the constructors take, and what fit makes of it."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sparsegp.estimator.base
from sparsegp import (
    DenseGPClassifier,
    DenseGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    train,
)
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.estimator.base import GPEstimator
from sparsegp.estimator.parameters import n_threads
from sparsegp.fields import declared
from sparsegp.kernels import parse
from sparsegp.runtime.threads import usable_cpus
from sparsegp.settings import DenseSettings, TrainSettings
from tests.processes import told

NO_SETTINGS = {"settings", *(each.name for each in fields(GPEstimator))} - {"scaling"}
SETTINGS = {
    SparseGPClassifier: TrainSettings,
    SparseGPRegressor: TrainSettings,
    DenseGPClassifier: DenseSettings,
    DenseGPRegressor: DenseSettings,
}


@pytest.mark.parametrize("estimator", SETTINGS)
def test_parameters_are_settings_and_documented(estimator):
    parameters, known = estimator().get_params(), declared(SETTINGS[estimator])
    assert set(parameters) - NO_SETTINGS <= set(known)
    words = " ".join(estimator.__doc__.split())
    assert "Attributes ---------- classes_ :" in words
    for name, value in parameters.items():
        assert f" {name} : " in words
        if name in known and name not in {"likelihood", "class_weight"}:
            assert known[name].description[:40] in words
        if "Classifier" in estimator.__name__ and name in known:
            assert value in (None, known[name].default)


@pytest.mark.parametrize(
    ("n_classes", "given", "settings"),
    [
        (3, {"posterior": "adf"}, {"panel": 8, "lazy": np.bool_(False)}),
        (3, {"posterior": "all", "precision": "float64"}, {"tolerance": np.float64(1e-3)}),
        (3, {"kernel": parse("2*matern32(1.5)")}, {}),
        (3, {"likelihood": "ordered_probit"}, {"n_nodes": 5}),
        (2, {"likelihood": "probit"}, {}),
        (2, {"likelihood": "logistic", "criterion": "predictive"}, {}),
        (2, {"likelihood": "probit(0.3)", "learn": "evidence"}, {"major_steps": 2}),
        (2, {}, {"active_per_class": True}),
    ],
)
def test_predicts_what_the_model_of_train_predicts(iris, words, n_classes, given, settings):
    """What is left open suits the likelihood, here and there."""
    X, y = (rows[iris[1] >= 3 - n_classes] for rows in (iris[0], words))
    named = {name: value if isinstance(value, str) else str(value) for name, value in given.items()}
    model = train(X, y, n_active=20, seed=3, **named, **settings)
    more = {"n_active": np.int64(20), "random_state": np.int32(3), "settings": settings}
    estimator = SparseGPClassifier(**given, **more).fit(X, y)
    assert estimator.model_.settings.items() >= settings.items()
    np.testing.assert_array_equal(estimator.classes_, np.unique(y))
    np.testing.assert_array_equal(estimator.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(estimator.predict(X), model.predict(X))
    np.testing.assert_array_equal(estimator.active_indices_, model.rows)
    latent = (each.latent_mean_and_variance(X) for each in (estimator, model))
    np.testing.assert_array_equal(*latent)


@pytest.mark.parametrize("likelihood", [None, "softmax"])
def test_each_class_has_a_kernel_where_its_likelihood_needs_it(iris, likelihood):
    given = {"likelihood": likelihood, "sites": "moments", "settings": {"n_nodes": 5}}
    estimator = SparseGPClassifier(n_active=30, **given).fit(*iris)
    assert len(estimator.kernel_) == 3
    again = clone(estimator).set_params(kernel=estimator.kernel_, kernel_per_class=True)
    assert again.fit(*iris).kernel_ == estimator.kernel_
    with pytest.raises(SettingsError, match="each needs a kernel of its own"):
        estimator.set_params(kernel_per_class=False).fit(*iris)


def test_relevances_of_features(iris):
    estimator = SparseGPClassifier(n_active=20, kernel="10*ard(9, 9, 1, 1)")
    with pytest.raises(NotFittedError):
        _ = estimator.feature_relevances_
    found = estimator.fit(*iris).feature_relevances_
    np.testing.assert_allclose(found, np.array([1, 1, 9, 9]) / 20)
    estimator.set_params(kernel="10*rbf").fit(*iris)
    with pytest.raises(AttributeError, match="needs a kernel with a length scale for every"):
        _ = estimator.feature_relevances_
    assert not hasattr(estimator, "feature_relevances_")


def test_relevances_are_those_of_input_columns(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame({"constant": 1.0, "wide": X[:, 2], "gaps": X[:, 0]})
    frame["words"] = np.resize(["u", "v", "w"], len(X))
    frame.loc[::10, "gaps"] = np.nan
    fitted = SparseGPClassifier(n_active=20, kernel="10*ard").fit(frame, y)
    found = dict(zip(fitted.feature_names_in_, fitted.feature_relevances_, strict=True))
    of_model = dict(zip(fitted.model_.names, fitted.model_.relevances, strict=True))
    assert found["constant"] == 0.0
    gaps = np.hypot(of_model["gaps"], of_model["gaps missing"])
    assert found["gaps"] / found["wide"] == pytest.approx(gaps / of_model["wide"])
    assert sum(found.values()) == pytest.approx(1.0)
    fitted.model_.save(tmp_path / "model")
    shown = told("inspect", tmp_path / "model")["relevances"]
    assert shown == {name: found[name] for name in ("wide", "gaps", "words")}


def test_class_weights_by_labels_of_numpy_are_saved(iris, tmp_path):
    X, y = iris[0], iris[1] == 1
    for labels, key in ((y, np.True_), (y.astype(int), np.int64(1)), (y.astype(int), 1.0)):
        fitted = SparseGPClassifier(kernel="rbf", n_active=20, class_weight={key: 2.0})
        fitted.fit(X, labels).save(tmp_path / "saved")
        loaded = SparseGPClassifier.load(tmp_path / "saved")
        again = clone(loaded).fit(X, labels)
        np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


OF_NUMBERS = [
    ({"likelihood": "probit"}, "likelihood=probit is not for task=regression"),
    ({"likelihood": "gaussian(0.1, 2)"}, "gaussian takes at most 1"),
    ({"hyperprior": "bias: normal(0, 1)"}, "must be of a parameter that is learnt"),
]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (SparseGPClassifier, {"n_active": 0}, "n_active must be at least 1"),
        (SparseGPClassifier, {"random_state": -1}, "seed must be at least 0"),
        (SparseGPClassifier, {"n_jobs": 0}, "n_jobs must be"),
        (SparseGPClassifier, {"n_jobs": 1.5}, "n_jobs must be"),
        (SparseGPClassifier, {"verbose": None}, "verbose must be a number, got None"),
        (SparseGPClassifier, {"resume": "no"}, "resume must be true or false, got 'no'"),
        (SparseGPClassifier, {"likelihood": {}}, "likelihood must be text"),
        (DenseGPClassifier, {"method": 3}, "method must be text, got 3"),
        (SparseGPClassifier, {"settings": {"panel": "8"}}, "whole number"),
        *(
            (SparseGPClassifier, {"settings": wrong}, "settings must be")
            for wrong in ({"n_active": 5}, {"seed": 3}, {3: 4}, 7, np.array([1, 2]))
        ),
        (SparseGPClassifier, {"likelihood": "gaussian"}, "gaussian is not for task=classification"),
        (DenseGPClassifier, {"method": "none"}, r"unknown .* 'none'"),
        *((kind, *each) for kind in (SparseGPRegressor, DenseGPRegressor) for each in OF_NUMBERS),
    ],
)
def test_what_is_wrong_is_refused_by_fit(iris, kind, given, message):
    X, y = iris
    estimator = kind(**given)
    assert estimator.__sklearn_tags__().estimator_type in {"classifier", "regressor"}
    with pytest.raises(SettingsError, match=message):
        estimator.fit(X[y > 0], y[y > 0])


@pytest.mark.parametrize(
    "estimator",
    [
        SparseGPClassifier(likelihood="logistic(1.5)"),
        DenseGPClassifier(method="ep", likelihood="probit"),
    ],
)
def test_only_two_classes_where_there_is_one_bias(iris, estimator):
    assert not estimator.__sklearn_tags__().classifier_tags.multi_class
    with pytest.raises(SettingsError, match="Only binary classification is supported: "):
        estimator.fit(*iris)


@pytest.mark.parametrize(
    ("class_weight", "of_rows"), [({2: 0}, [1.0, 1.0, 1.0]), (None, [1.0, 1.0, 0.0])]
)
def test_classes_of_weight_zero_do_not_count(iris, class_weight, of_rows):
    X, y = iris
    estimator = SparseGPClassifier(
        likelihood="probit", kernel="rbf", n_active=9, class_weight=class_weight
    ).fit(X, y, sample_weight=np.array(of_rows)[y])
    assert estimator.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("calibration", ["none", "learned"])
def test_includes_all_rows_where_they_are_fewer_but_more_pairs(iris, calibration):
    X, y = iris[0][:40], iris[1][:40]
    for n_active in (None, 50):
        estimator = SparseGPClassifier(n_active=n_active, calibration=calibration).fit(X, y)
        assert len(estimator.active_indices_) == 40
        assert estimator.n_active == n_active
    pairs = SparseGPClassifier(n_active=60, settings={"active_per_class": True}).fit(X, y)
    assert pairs.history_[-1]["n_active"] == 60
    assert len(pairs.active_indices_) <= 40


@pytest.mark.parametrize(("panel", "expected"), [(1, [5, 10]), (5, [5, 10]), (4, [8, 10])])
def test_history_follows_the_selection(iris, panel, expected):
    settings = {"report_every": 5, "panel": panel}
    estimator = SparseGPClassifier(n_active=10, settings=settings).fit(*iris)
    assert [record["n_active"] for record in estimator.history_] == expected
    assert {"seconds", "train_error"} <= set(estimator.history_[0])


def test_random_state(iris):
    def rows(random_state):
        estimator = SparseGPClassifier(n_active=10, criterion="random", random_state=random_state)
        return list(estimator.fit(*iris).active_indices_)

    assert rows(4) == rows(4) != rows(5)
    assert rows(np.random.RandomState(1)) == rows(np.random.RandomState(1))
    assert rows(None) != rows(None)


def test_threads(monkeypatch):
    usable = usable_cpus()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert n_threads(None) == n_threads(-1) == usable
    assert n_threads(7) == 7
    assert n_threads(-usable - 5) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert n_threads(None) == 1
    assert n_threads(-1) == usable


def test_checkpoints_and_resume(iris, tmp_path):
    estimator = SparseGPClassifier(n_active=10, checkpoint_dir=tmp_path / "run").fit(*iris)
    for changed in ((iris[0], np.roll(iris[1], 1)), (iris[0] + 1.0, iris[1])):
        with pytest.raises(ValueError, match="holds a run with other settings or data"):
            estimator.fit(*changed)
    other = SparseGPClassifier(n_active=9, checkpoint_dir=tmp_path / "run", resume=True)
    with pytest.raises(SettingsError, match=r"start again in another `checkpoint_dir`$"):
        other.fit(*iris)
    again = SparseGPClassifier(n_active=10, checkpoint_dir=tmp_path / "run", resume=True)
    again.fit(*iris)
    np.testing.assert_array_equal(again.predict_proba(iris[0]), estimator.predict_proba(iris[0]))
    with pytest.raises(ValueError, match="n_active was 10"):
        again.set_params(n_active=11).fit(*iris)


@pytest.mark.parametrize("kept", [True, False])
def test_a_stop_is_an_interrupt_and_no_failed_fit(iris, tmp_path, monkeypatch, kept):
    def stopped(*_, **__):
        raise Interrupted("stopped by SIGINT")

    monkeypatch.setattr(sparsegp.estimator.base, "fit", stopped)
    estimator = SparseGPClassifier(checkpoint_dir=tmp_path / "run" if kept else None)
    with pytest.raises(KeyboardInterrupt, match="resume=True" if kept else "nothing was kept"):
        estimator.fit(*iris)


def test_progress_is_shown_on_demand(iris, capsys):
    SparseGPClassifier(n_active=5).fit(*iris)
    assert not capsys.readouterr().err
    SparseGPClassifier(n_active=5, verbose=1).fit(*iris)
    shown = capsys.readouterr()
    assert "select" in shown.err
    assert not shown.out
