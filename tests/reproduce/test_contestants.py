"""Classifiers of libraries beside dense methods, in pipelines of these."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from sparsegp import SparseGPClassifier
from sparsegp.data import Dataset, table_from_arrays
from sparsegp.errors import SettingsError
from sparsegp.interrupt import StopRequest
from sparsegp.report import NullProgress, Progress, evaluate
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants import CONTESTANTS, Fitted
from sparsegp.reproduce.contestants.vectors import COSTS, GAMMAS
from sparsegp.reproduce.judge import Predictions, Rows, information, label_shares
from sparsegp.reproduce.kinds import Bench
from sparsegp.reproduce.kinds.train import CellProgress

DENSE = """
title = "Dense"
kind = "train"
seeds = [0, 1]
[data]
name = "toy"
n_train = 90
n_test = 70
[train]
method = "laplace"
likelihood = "softmax"
scaling = "none"
kernel = "10*rbf(0.5)"
[[variants]]
name = "laplace"
[[variants]]
name = "one"
model = "probabilistic-neighbour"
[[variants]]
name = "five"
model = "neighbours"
neighbours = 5
[[variants]]
name = "linear"
model = "discriminant"
scaling = "standard"
[[variants]]
name = "features"
model = "nystroem-logistic"
C = 10
n_active = 20
[report]
what = ["test error %", "test NLPP", "test information bits"]
[[published]]
variant = "five"
what = "test error %"
value = 10
where = "table 1"
"""


@pytest.fixture
def dense(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes the pipeline with replacements and returns its path."""

    def write(*replacements: tuple[str, str]) -> Path:
        text = DENSE
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "dense.toml"
        path.write_text(text)
        return path

    return write


def cell_of(path: Path, variant: str) -> Cell:
    return next(cell for cell in read_pipeline(path).cells if cell.variant == variant)


def fitted(cell: Cell) -> tuple[Fitted, Dataset]:
    dataset = cell.source.load(None, cell.data_seed)
    return CONTESTANTS[cell.options["model"]].prepare(
        dataset.train, cell, NullProgress()
    )(), dataset


def arrays(dataset: Dataset) -> tuple[np.ndarray, ...]:
    assert dataset.test is not None
    return tuple(
        np.asarray(part)
        for table in (dataset.train, dataset.test)
        for part in (np.asarray(table.X, np.float64), table.y)
    )


def test_one_against_the_rest_is_that_of_scikit_learn(dense: Callable[..., Path]) -> None:
    """Its meta-estimator normalises the same probabilities, of our own binary classifiers."""
    path = dense(
        ('method = "laplace"\nlikelihood = "softmax"\n', ""),
        (
            'name = "laplace"\n',
            'name = "rest"\nmodel = "one-against-rest"\nlikelihood = "probit"\nn_active = 20\n',
        ),
    )
    found, dataset = fitted(cell_of(path, "rest"))
    X, y, new, _ = arrays(dataset)
    ours = SparseGPClassifier(
        likelihood="probit",
        sites="moments",
        criterion="information",
        posterior="adf",
        kernel="10*rbf(0.5)",
        scaling="none",
        n_active=20,
    )
    expected = OneVsRestClassifier(ours).fit(X, y).predict_proba(new)
    assert found.log_probabilities is not None
    assert_allclose(np.exp(found.log_probabilities(new)), expected, rtol=1e-9)
    np.testing.assert_array_equal(found.codes(new), expected.argmax(axis=1))
    assert found.details == {"active_rows": [20, 20, 20]}


def test_one_neighbour_by_all_distances(dense: Callable[..., Path]) -> None:
    found, dataset = fitted(cell_of(dense(), "one"))
    X, y, new, _ = arrays(dataset)
    classes = np.unique(y)
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    share = np.mean(y[apart.argmin(axis=1)] == y)
    assert 0.1 < share < 1
    assert found.details == {"probability": pytest.approx(share)}
    away = ((new[:, None] - X) ** 2).sum(axis=2)
    nearest = y[away.argmin(axis=1)]
    expected = np.where(nearest[:, None] == classes, share, (1 - share) / (len(classes) - 1))
    assert found.log_probabilities is not None
    assert_allclose(np.exp(found.log_probabilities(new)), expected, rtol=1e-12)
    assert found.certainty is not None
    assert_allclose(found.certainty(new), -np.sqrt(away.min(axis=1)), rtol=1e-6)


def test_a_neighbour_that_never_errs_is_certain(dense: Callable[..., Path]) -> None:
    cell = cell_of(dense(), "one")
    X = np.array([[0.0], [0.1], [5.0], [5.1]])
    train = table_from_arrays(X, np.array(["a", "a", "b", "b"]), "t")
    test = table_from_arrays(np.array([[0.2], [0.3]]), np.array(["a", "b"]), "u")
    found = CONTESTANTS["probabilistic-neighbour"].prepare(train, cell, NullProgress())()
    predictions = Predictions.of(found, test)
    assert predictions.log_probabilities is not None
    assert predictions.log_probabilities.tolist() == [[0.0, -np.inf]] * 2
    assert predictions.figures(Dataset(train, test))["nlpp"] is None


def test_five_neighbours_by_all_distances(dense: Callable[..., Path]) -> None:
    found, dataset = fitted(cell_of(dense(), "five"))
    X, y, new, _ = arrays(dataset)
    order = ((new[:, None] - X) ** 2).sum(axis=2).argsort(axis=1)[:, :5]
    votes = np.stack([(y[order] == label).sum(axis=1) for label in np.unique(y)], axis=1)
    np.testing.assert_array_equal(found.codes(new), votes.argmax(axis=1))
    assert found.log_probabilities is None


def test_linear_discriminant_by_its_formula(dense: Callable[..., Path]) -> None:
    found, dataset = fitted(cell_of(dense(), "linear"))
    X, y, new, _ = arrays(dataset)
    new, X = (new - X.mean(axis=0)) / X.std(axis=0), (X - X.mean(axis=0)) / X.std(axis=0)
    classes, counts = np.unique(y, return_counts=True)
    means = np.stack([X[y == label].mean(axis=0) for label in classes])
    rest = X - means[np.searchsorted(classes, y)]
    precision = np.linalg.inv(rest.T @ rest / len(X))
    slopes = means @ precision
    scores = new @ slopes.T - 0.5 * (slopes * means).sum(axis=1) + np.log(counts / len(X))
    np.testing.assert_array_equal(found.codes(arrays(dataset)[2]), scores.argmax(axis=1))


class TestCrossValidation:
    """Parameters are those that an own search finds best."""

    def parts(
        self, dense: Callable[..., Path], model: str
    ) -> tuple[Fitted, tuple[np.ndarray, ...]]:
        path = dense(('"probabilistic-neighbour"', f'"{model}"\nfolds = 3'))
        cell = next(cell for cell in read_pipeline(path).cells if cell.name == "one-1")
        found, dataset = fitted(cell)
        return found, arrays(dataset)

    folds = StratifiedKFold(3, shuffle=True, random_state=1)

    def test_support_vectors(self, dense: Callable[..., Path]) -> None:
        found, (X, y, new, _) = self.parts(dense, "tuned-svc")
        middle = 1.0 / (X.shape[1] * X.var())
        tried = [(C, middle * factor) for C in COSTS for factor in GAMMAS]
        right = [cross_val_score(SVC(C=C, gamma=g), X, y, cv=self.folds).mean() for C, g in tried]
        C, gamma = tried[int(np.argmax(np.round(right, 12)))]
        assert found.details == {"C": pytest.approx(C), "gamma": pytest.approx(gamma)}
        assert found.settings.startswith("C and gamma by 3 folds, gamma about ")
        machine = SVC(C=C, gamma=gamma)
        expected = CalibratedClassifierCV(machine, cv=self.folds, ensemble=False).fit(X, y)
        assert found.log_probabilities is not None
        found_p = np.exp(found.log_probabilities(new))
        assert_allclose(found_p, expected.predict_proba(new), atol=1e-9)
        assert_allclose(found_p.sum(axis=1), 1.0)

    def test_support_vectors_without_probabilities(self, dense: Callable[..., Path]) -> None:
        model = 'tuned-svc"\nprobabilities = false\nscaling = "none'
        found, (X, y, new, _) = self.parts(dense, model)
        machine = SVC(C=found.details["C"], gamma=found.details["gamma"]).fit(X, y)
        assert found.log_probabilities is None
        np.testing.assert_array_equal(
            np.unique(y)[found.codes(new)], machine.predict(new.astype(np.float64))
        )

    def test_logistic(self, dense: Callable[..., Path]) -> None:
        found, (X, y, new, _) = self.parts(dense, "tuned-logistic")
        codes = np.searchsorted(np.unique(y), y)
        costs = 10.0 ** np.arange(-4, 5)
        worth = []
        for C in costs:
            model = LogisticRegression(C=C, max_iter=10_000)
            p = cross_val_predict(model, X, y, cv=self.folds, method="predict_log_proba")
            of_folds = [p[test, codes[test]].mean() for _, test in self.folds.split(X, y)]
            worth.append(np.mean(of_folds))
        assert found.details["C"] == pytest.approx(costs[int(np.argmax(worth))])
        assert found.details["iterations"] > 0
        assert found.log_probabilities is not None
        model = LogisticRegression(C=found.details["C"], max_iter=10_000).fit(X, y)
        assert_allclose(np.exp(found.log_probabilities(new)), model.predict_proba(new), atol=1e-6)


def test_rivals_stand_beside_dense_methods(dense: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = reproduce(dense(), out=out)
    assert len(outcome.run) == 10
    rows = {(row.variant, row.what): row for row in outcome.rows}
    five = rows["five", "test error %"]
    assert len(five.values) == 2
    assert five.difference == pytest.approx(five.ours - 10)
    assert rows["five", "test NLPP"].ours is None
    cell = cell_of(dense(), "one")
    found, dataset = fitted(cell)
    _, y, new, y_new = arrays(dataset)
    assert found.log_probabilities is not None
    codes = np.searchsorted(np.unique(y), y_new)
    expected = evaluate(found.log_probabilities(new), codes, np.unique(y))
    share = np.array([np.mean(y == label) for label in y_new])
    told = (np.log2(share).mean() + expected.nlpp / np.log(2)) * -1
    assert rows["one", "test error %"].values[0] == pytest.approx(100 * expected.error)
    assert rows["one", "test NLPP"].values[0] == pytest.approx(expected.nlpp)
    assert rows["one", "test information bits"].values[0] == pytest.approx(told)
    kept = json.loads((out / "cells" / "features-0.json").read_text())
    assert kept["settings"]["n_active"] == 20
    assert kept["result"]["settings"].startswith("d=20, gamma=")
    assert "five" in "\n".join(outcome.lines())

    # The settings of the dense methods are not those of rivals.
    changed = dense(("10*rbf(0.5)", "9*rbf(0.5)"))
    assert reproduce(changed, out=out).run == ["laplace-0", "laplace-1"]


def test_rivals_in_a_pipeline_of_one_kernel(dense: Callable[..., Path], tmp_path: Path) -> None:
    path = dense(
        ('kind = "train"', 'kind = "same-kernel"'),
        ('"test information bits"', '"test log likelihood, all rows"'),
        ("seeds = [0, 1]", "seeds = [0]"),
    )
    outcome = reproduce(path, out=tmp_path / "out", cells="[of][ni][ev]*")  # one, five
    rows = {(row.variant, row.what): row.ours for row in outcome.rows}
    assert outcome.run == ["one-0", "five-0"]
    assert rows["one", "test log likelihood, all rows"] == pytest.approx(
        -70 * rows["one", "test NLPP"]
    )
    assert rows["five", "test log likelihood, all rows"] is None
    assert rows["five", "test error %"] is not None


def test_methods_that_take_all_rows_have_no_learning_curve(
    dense: Callable[..., Path], tmp_path: Path
) -> None:
    """Though the folds, and so the rows taken, may be of several sizes."""
    path = dense(
        ('name = "toy"\nn_train = 90\nn_test = 70', 'name = "iris"\nview = "fold"\nfolds = 40'),
        ("seeds = [0, 1]", "seeds = [29, 30]"),
    )
    outcome = reproduce(path, out=tmp_path / "out", cells="l[ai][pn]*")  # laplace, linear
    assert len(outcome.run) == 4
    kept = [json.loads(file.read_text()) for file in (tmp_path / "out" / "cells").glob("*")]
    assert {each["result"]["n_train"] for each in kept} == {146, 147}
    assert not list((tmp_path / "out").glob("*.png"))


def test_progress_of_a_cell_has_no_figures_of_the_one_before(dense: Callable[..., Path]) -> None:
    shown = Progress(io.StringIO())
    bench = Bench(dense(), None, Path(), shown, StopRequest(), total=0)
    for name, figures in (("a-0", {"accepted": 0.7}), ("b-0", {"log_evidence": -3.0})):
        progress = CellProgress(bench, name)
        progress.start(5, "steps", "learn")
        progress.update(1, **figures)
        assert shown.line.startswith(f"dense: {name} 1 steps")
    assert shown.figures == "log evidence -3.0000"


def test_rows_one_by_one() -> None:
    X = np.zeros((4, 1))
    train = table_from_arrays(X, np.array(["a", "a", "a", "b"]), "t")
    test = table_from_arrays(X, np.array(["a", "b", "c", "b"]), "u")
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
    logs, dataset = np.log(p), Dataset(train, test)
    classes = np.array(["a", "b"])
    rows = Rows.of(Predictions(classes, logs.argmax(axis=1), logs), dataset)
    assert_allclose(label_shares(dataset), [0.75, 0.25, 0.25])
    base = np.log2([0.75, 0.25, 0.25]).mean()
    assert_allclose(rows.certainty, p.max(axis=1))
    assert rows.right.tolist() == [True, False, False, True]
    assert_allclose(rows.information, np.log2([0.9, 0.4, np.nan, 0.8]) - base)
    figures = Predictions(classes, logs.argmax(axis=1), logs).figures(dataset)
    assert np.nanmean(rows.information) == pytest.approx(figures["information"])
    again = Rows.from_json(json.loads(json.dumps(rows.to_json())))
    for name in ("certainty", "right", "information"):
        np.testing.assert_array_equal(getattr(again, name), getattr(rows, name))
    assert information(dataset, {"nlpp": None, "error": 0.5}) == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"neighbours"\nneighbours = 5', '"neighbours"', "neighbours is missing; it is a whole"),
        ("neighbours = 5", "neighbours = 0", "neighbours must be at least 1, got 0"),
        ('"discriminant"', '"tuned-svc"\nfolds = 1', "folds must be at least 2, got 1"),
        ('"discriminant"', '"sparsegp"', "model is 'sparsegp'; known: discriminant, logistic"),
        ('"discriminant"', '"discriminant"\nkernel = "rbf"', "kernel is not known; known: scaling"),
        ("n_active = 20", "", "n_active is missing, here and in train"),
    ],
)
def test_refusals(dense: Callable[..., Path], old: str, new: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_pipeline(dense((old, new)))
    assert message in str(caught.value)
