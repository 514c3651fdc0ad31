"""Methods of ours and of other libraries, against the same done by hand."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sparsegp
from pipelines import baselines, ours
from pipelines.data import Data, Source, against_rest
from pipelines.experiment import Cell
from pipelines.place import Place
from sparsegp.errors import SettingsError, SparseGPError

X, Y = load_iris(return_X_y=True)
IRIS = Data("iris", X[::2], Y[::2], X[1::2], Y[1::2])
BINARY = {"likelihood": "probit", "kernel": "10*rbf", "n_active": 15, "scaling": "standard"}


def done(data=IRIS, run=ours.run, runs=None, **spec):
    cell = Cell("d", "m", 3, Source("here", {"source": "iris"}), spec)
    return run(cell, data, Place(None, runs, "threads=1"))


def estimated(estimator, parameters):
    return done(run=baselines.run, estimator=estimator, parameters=parameters)["figures"]


def test_kernel_of_another_method_is_taken_and_kept(tmp_path):
    method = "variational(importance=30, rounds=2)"
    kernel = "ard(1, ...)"
    settings = {"method": method, "kernel": "ard(1, 1, 1, 1)", "seed": 3}
    learnt = sparsegp.train(IRIS.X_train, IRIS.y_train, **settings).kernels[0]
    for _ in range(2):
        result = done(runs=tmp_path / "own", method="laplace", kernel=kernel, kernel_method=method)
        assert result["kernels"] == [str(learnt)]
    assert len(list(tmp_path.glob("kernel-*"))) == 1
    assert result["curve"] == []
    assert result["figures"]["log evidence"] < 0


def test_a_regression_whose_relevant_columns_are_counted():
    task = Data("line", X[::2, :3], X[::2, 3], X[1::2, :3], X[1::2, 3])
    settings = {"likelihood": "gaussian", "kernel": "1*ard(1, 1, 1e3)", "n_active": 30}
    result = done(task, **settings)
    mean = sparsegp.train(task.X_train, task.y_train, seed=3, **settings).predict(task.X_test)
    assert result["figures"]["test MSE"] == pytest.approx(np.mean((mean - task.y_test) ** 2))
    assert result["figures"]["relevant columns"] == 2
    assert result["curve"][-1]["n_active"] == 30


def test_one_against_the_rest_with_copies():
    virtual = {"n_active": 10, "pixels": 1, "image": [2, 2]}
    figures = done(one_against_rest=True, virtual=virtual, **BINARY)["figures"]
    few = {**BINARY, "n_active": 10}
    own = [
        sparsegp.train(IRIS.X_train, (IRIS.y_train == k).astype(int), seed=3 + k, **few)
        for k in range(3)
    ]
    p = np.stack([model.predict_proba(IRIS.X_test)[:, 1] for model in own], axis=1)
    expected = -np.log(p[np.arange(75), IRIS.y_test] / p.sum(axis=1)).mean()
    assert figures["test NLPP, without copies"] == pytest.approx(expected)
    assert figures["test NLPP"] != pytest.approx(expected)
    wrong = 100 * np.mean((p > 0.5) != (IRIS.y_test[:, np.newaxis] == range(3)), axis=0)
    for k in range(3):
        name = f"error % of class {k} against the rest, without copies"
        assert figures[name] == pytest.approx(wrong[k])
    assert figures["error % against the rest, without copies"] == pytest.approx(wrong.mean())


@pytest.mark.slow
def test_annealed_evidence_is_near_that_of_ep():
    task = Data("two", X[:100:2], Y[:100:2], X[1:100:2], Y[1:100:2])
    same = {"method": "ep", "kernel": "4*rbf(2)", "likelihood": "probit", "scaling": "standard"}
    options = {"runs": 8, "temperatures": 100}
    found = done(task, extra="pipelines.extras.annealed", options=options, **same)["figures"]
    exact = done(task, **same)["figures"]["log evidence"]
    assert abs(found["log evidence"] - exact) < 5 * found["standard error"] + 0.1


@pytest.mark.slow
def test_differences_of_a_kernel_are_timed():
    spec = {**BINARY, "kernel": "laplace", "extra": "pipelines.extras.differences"}
    figures = done(against_rest(IRIS, 1), **spec)["figures"]
    assert figures["vector bits"] in (128, 256, 512)
    assert 0.0 < figures["instructions / those of products"] < 10.0
    assert figures["differences / those through memory"] > 0.0


@pytest.mark.slow
def test_products_of_a_selection_are_timed():
    spec = {**BINARY, "extra": "pipelines.extras.products", "options": {"threads": 1}}
    task = against_rest(IRIS, 1)
    figures = done(task, **spec)["figures"]
    assert figures["rounds / products"] > 0
    seconds = figures["seconds of products"] * figures["rounds / products"]
    assert seconds == pytest.approx(figures["selection, seconds"])
    with pytest.raises(SettingsError, match=r"extras\.nothing"):
        done(task, **{**spec, "extra": "pipelines.extras.nothing"})


@pytest.mark.parametrize(
    ("name", "parameters", "worst"),
    [
        ("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", {}, 4.0),
        ("pipelines.baselines.NystroemLogistic", {"n_components": 20, "C": 10}, 7.0),
        ("pipelines.baselines.TunedSVC", {"folds": 3}, 7.0),
        ("pipelines.baselines.ProbabilisticNeighbour", {}, 7.0),
        ("sparsegp.SparseGPClassifier", {"n_active": 30}, 7.0),
        ("sklearn.ensemble.HistGradientBoostingClassifier", {"max_iter": 20}, 7.0),
        ("pipelines.svgp.SVGP", {"n_inducing": 10, "epochs": 200}, 10.0),
    ],
)
def test_estimators_by_import_path(name, parameters, worst):
    if name.endswith("SVGP"):
        pytest.importorskip("gpytorch")
    figures = estimated(name, parameters)
    assert figures["test error %"] <= worst
    assert 0 < figures["test NLPP"] < 0.6
    assert figures["CPU seconds"] > 0


BOOSTED = {
    "lightgbm.LGBMClassifier": {"early_stopping_round": 9, "n_jobs": 1, "verbose": -1},
    "catboost.CatBoostClassifier": {"early_stopping_rounds": 9, "thread_count": 1}
    | {"verbose": False, "iterations": 200, "allow_writing_files": False},
}


@pytest.mark.parametrize("name", BOOSTED)
def test_boosting_stops_early(name):
    pytest.importorskip(name.partition(".")[0])
    model = {"estimator": name, "parameters": BOOSTED[name]}
    figures = estimated("pipelines.baselines.EarlyStopped", {"model": model})
    assert figures["test error %"] <= 10.0
    assert 0 < figures["test NLPP"] < 0.5


def test_a_probability_of_zero_is_told_as_such_and_bounded():
    figures = estimated("sklearn.tree.DecisionTreeClassifier", {})
    wrong = figures["test error %"] / 100
    assert figures["test NLPP"] == np.inf
    assert figures["test NLPP, bounded"] == pytest.approx(-np.log(1e-15) * wrong)


def test_estimators_made_of_estimators():
    inner = {"estimator": "sklearn.svm.SVC", "parameters": {"gamma": 0.5}}
    parameters = {"estimator": inner, "param_grid": {"C": [0.1, 1.0]}}
    figures = estimated("sklearn.model_selection.GridSearchCV", parameters)
    assert figures["test error %"] < 7.0
    assert "test NLPP" not in figures


def test_probability_of_the_nearest_neighbour():
    rows, codes = np.array([[0.0], [1.0], [1.2], [5.0], [5.1]]), np.array([0, 0, 1, 1, 1])
    found = baselines.ProbabilisticNeighbour().fit(rows, codes)  # two of five neighbours are wrong
    np.testing.assert_allclose(found.predict_proba([[0.2], [4.0]]), [[0.6, 0.4], [0.4, 0.6]])
    np.testing.assert_allclose(found.certainty([[0.2], [4.0]]), [-0.2, -1.0])


def test_what_is_wrong_with_estimators():
    for name, parameters, named in (
        ("sklearn.svm.Nothing", {}, "Nothing"),
        ("nothing", {}, "nothing"),
        ("sklearn.svm.SVC", {"D": 1}, "D"),
    ):
        with pytest.raises(SettingsError, match=named):
            estimated(name, parameters)
    with pytest.raises(SparseGPError, match="converge"):
        estimated("sklearn.linear_model.LogisticRegression", {"max_iter": 1})
