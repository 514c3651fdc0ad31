"""Weights of rows: 2 is repetition and 0 removal, in whatever order the rows come."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp

import sparsegp
from sparsegp import SparseGPClassifier
from sparsegp.data import as_table, table_from_arrays
from sparsegp.data.copies import effective_rows
from sparsegp.errors import DataError, NumericalError, SettingsError
from tests.processes import invoke, predicted, told, train_quickly
from tests.runs import nlpp

N = 300
X, Y = load_digits(return_X_y=True)
X, Y, W = X[:N], Y[:N] % 4, np.random.default_rng(0).integers(0, 4, N)
SETTINGS = {
    "all": {},
    "all, few rows": {"rows": 150},
    "all, per class": {"kernel_per_class": True, "rows": 260, "kernel": "10*rbf"},
    "active": {"posterior": "active"},
    "adf": {"posterior": "adf", "lookahead": 20},
    "candidates": {"posterior": "adf", "stub_entries": 4800, "shrink_every": 6},
    "pairs": {"likelihood": "multinomial_probit", "active_per_class": True},
    "moments": {"likelihood": "ordered_probit"},
    "metric": {"metric": "full(1)"},
    "regression": {"task": "regression", "rows": 60, "major_steps": 2},
}


def train(X, y, **settings):
    return sparsegp.train(X, y, **{"n_active": 24, "precision": "float64", **settings})


def same(model, other, X):
    name = "latent_mean_and_variance" if model.is_regression else "predict_log_proba"
    np.testing.assert_array_equal(getattr(model, name)(X), getattr(other, name)(X))


@pytest.mark.parametrize("name", SETTINGS)
def test_repeated_and_removed_rows_in_any_order(name):
    """Held-out rows change nothing. The evidence of a regression: learning/test_evidence.py."""
    settings = dict(SETTINGS[name])
    rows = settings.pop("rows", N)
    x, y, w = X[:rows], Y[:rows], W[:rows]
    weighted = train(x, y, sample_weight=w, test=(X[200:], Y[200:]), **settings)
    repeated = np.random.default_rng(1).permutation(np.repeat(np.arange(rows), w))
    x_r, y_r = x[repeated], y[repeated]
    other = train(x_r, y_r, sample_weight=np.ones(len(y_r)), block_rows=256, **settings)
    same(weighted, other, X[:30])
    assert weighted.history[-1]["n_active"] == other.history[-1]["n_active"]
    np.testing.assert_array_equal(x[weighted.rows], x_r[other.rows])
    assert w[weighted.rows].min() > 0


def test_weights_of_classes():
    count = np.bincount(Y, W)
    given = W * (W.sum() / (4 * count))[Y]
    balanced = train(X, Y, sample_weight=W, class_weight="balanced")
    same(balanced, train(X, Y, sample_weight=given), X[:30])
    named = train(X, Y, class_weight={0: 3, 2: 0.5})
    same(named, train(X, Y, class_weight="0=3, 2=0.5"), X[:30])
    same(named, train(X, Y, sample_weight=np.array([3, 1, 0.5, 1])[Y]), X[:30])
    estimator = SparseGPClassifier(n_active=24, class_weight={0: 3, 2: 0.5}, precision="float64")
    found = estimator.fit(X, Y).predict_proba(X[:9])
    np.testing.assert_array_equal(found, named.predict_proba(X[:9]))
    for labels in (Y.astype(float), np.array(list("abcd"))[Y]):
        weights = pd.Series({np.unique(labels)[3].item(): 0})
        assert len(train(X, labels, class_weight=weights).classes) == 3
        estimator.set_params(class_weight=weights).fit(X, labels)
        assert estimator.classes_.tolist() == np.unique(labels)[:3].tolist()
        assert estimator.predict_proba(X[:9]).shape == (9, 3)


@pytest.mark.parametrize("criterion", ["information", "random"])
def test_gaussian_noise_is_divided_by_the_weights(criterion):
    X, y = load_diabetes(return_X_y=True)
    X, y, w = 20.0 * X[:120], y[:120], np.random.default_rng(0).uniform(0.1, 5.0, 120)
    how = {"likelihood": "gaussian(0.3)", "kernel": "2*rbf(3)", "scaling": "none"}
    model = train(X, y, sample_weight=w, n_active=120, criterion=criterion, **how)
    kernel = gp.ConstantKernel(2.0) * gp.RBF(3.0)
    exact = GaussianProcessRegressor(kernel, alpha=0.3 / w, optimizer=None)
    mean, std = exact.fit(X, (y - y.mean()) / y.std()).predict(X, return_std=True)
    found, variance = model.latent_mean_and_variance(X)
    np.testing.assert_allclose(found[:, 0], y.mean() + y.std() * mean, rtol=1e-8)
    np.testing.assert_allclose(variance[:, 0], (y.std() * std) ** 2, rtol=1e-6)


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("posterior", ["all", "active"])
def test_the_posterior_is_that_of_copies_that_are_not_merged(posterior, per_class):
    """With all rows active both span the same functions."""
    x, y, w = X[:40], Y[:40], W[:40]
    repeated, how = np.repeat(np.arange(40), w), {"posterior": posterior, "calibration": "none"}
    how |= {"kernel": "10*rbf(20)", "scaling": "none", "kernel_per_class": per_class}
    how |= {"tolerance": 1e-12}
    weighted = train(x, y, sample_weight=w, n_active=int((w > 0).sum()), **how)
    apart = x[repeated] + 1e-9 * np.arange(len(repeated))[:, np.newaxis]  # else they are merged
    copies = train(apart, y[repeated], n_active=len(repeated), **how)
    mean, variance = weighted.latent_mean_and_variance(x)
    other, other_variance = copies.latent_mean_and_variance(x)
    np.testing.assert_allclose(mean, other, atol=1e-4)
    np.testing.assert_allclose(variance, other_variance, atol=1e-4)


def test_a_search_heeds_weights():
    x, y, w = X[:150], Y[:150], W[:150]
    repeated, settings = np.repeat(np.arange(150), w), {"n_active": 10, "max_trials": 1}
    found = sparsegp.tune(x, y, sample_weight=w, **settings)
    ones = np.ones(len(repeated))
    other = sparsegp.tune(x[repeated], y[repeated], sample_weight=ones, **settings)
    assert found.nlpp == other.nlpp
    assert found.nlpp != sparsegp.tune(x, y, **settings).nlpp


def test_probable_labels_are_rows_with_weights():
    names, P = np.array(list("abcd")), np.random.default_rng(2).multinomial(8, np.full(4, 0.25), N)
    table = sparsegp.soft_labels(X, P, classes=names, sample_weight=W)
    rows, codes = np.nonzero(P)
    repeated = train(X[rows], names[codes], sample_weight=W[rows] * P[rows, codes] / 8)
    same(train(table, None), repeated, X[:30])
    same(train(sparsegp.soft_labels(X, np.eye(4)[Y]), None), train(X, Y), X[:30])
    assert sparsegp.soft_labels(X[:1], [[1.0, 0.009, 0.02]]).y.tolist() == [0, 2]


def test_probable_labels_of_a_frame_with_gaps():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.choice(list("uvw"), 90)})
    frame.loc[3, "a"] = np.nan
    P = np.tile([0.3, 0.7], (90, 1))
    settings = {"kernel": "9*rbf", "n_active": 20}
    model = sparsegp.train(sparsegp.soft_labels(frame, P), **settings)
    assert [column.kind for column in model.encoding.columns] == ["number", "category"]
    both = pd.concat([frame, frame])
    labels, weights = np.repeat([0, 1], 90), np.repeat([0.3, 0.7], 90)
    expected = sparsegp.train(both, labels, sample_weight=weights, **settings)
    same(model, expected, frame[:30])


@pytest.mark.parametrize(
    ("P", "message"),
    [
        ([[0.5, 0.5], [1.0, -0.1]], "not negative, .* got .1.0, -0.1. in row 1"),
        ([[0.5, 0.5], [0.0, 0.0]], "not all zero in a row, got .0.0, 0.0. in row 1"),
        ([[1.0], [1.0]], "two or more, got shapes .2, 1. and .1,."),
        (1.0, "two or more, got shapes .1,. and .1,."),
    ],
)
def test_what_are_no_probabilities_is_refused(P, message):
    with pytest.raises(DataError, match=message):
        sparsegp.soft_labels(np.zeros((2, 3)), P)


def test_rows_of_the_same_inputs_are_one_family():
    X = np.array([[0.0], [1.0], [0.0], [0.0], [2.0]])
    table = as_table(X, ["a", "b", "b", "a", "a"], np.full(5, 2.0))
    found = effective_rows(table)
    expected = [("a", 2.0, 4), ("a", 4.0, 0), ("b", 2.0, 1), ("b", 2.0, 2)]
    assert sorted(zip(found.y, found.weights, found.rows, strict=True)) == expected
    places = found.places(np.array([0, 2]))
    assert found.origin[places[0]] == found.origin[places[1]]
    assert len(np.unique(found.origin)) == 3


def test_rows_that_only_look_like_copies_are_not_merged():
    """With few distinct inputs their labels differ; those of copies agree, also of one class."""
    rng = np.random.default_rng(4)
    X = np.stack([rng.integers(0, high, 600) for high in (4, 3, 2)], axis=1).astype(float)
    y = rng.random(600) < 1 / (1 + np.exp(X[:, 0] - 1.5))
    found = effective_rows(table_from_arrays(X, y))
    assert found.weights is None
    np.testing.assert_array_equal(found.X, X)
    cells, counts = np.unique(np.c_[X, y], axis=0, return_counts=True)
    repeated = effective_rows(as_table(cells[:, :3], cells[:, 3], counts))
    assert repeated.weights is None
    np.testing.assert_array_equal(repeated.X, np.repeat(cells[:, :3], counts, axis=0))
    np.testing.assert_array_equal(repeated.rows, np.repeat(np.arange(len(cells)), counts))
    for wanted, how in ((counts / 2, {}), (counts * 40, {}), (counts, {"is_regression": True})):
        kept = effective_rows(as_table(cells[:, :3], cells[:, 3], wanted), **how)
        assert sorted(kept.weights) == sorted(wanted)
    apart = X + rng.normal(size=X.shape)
    for rows in (np.repeat(np.arange(600), 2), np.r_[:600, np.flatnonzero(y)]):
        found = effective_rows(table_from_arrays(apart[rows], y[rows]))
        assert found.weights is not None
        assert len(found.X) == 600


def test_rows_that_agree_by_chance_are_not_merged():
    """Few distinct inputs repeat also where labels follow from them, and with indicators."""
    rng = np.random.default_rng(7)
    X = np.stack([rng.integers(0, high, 300) for high in (3, 4, 2, 3)], axis=1)
    y = np.where(rng.random(300) < 0.03, 0, (X[:, 0] > 0) + 2 * (X[:, 1] == X[:, 3]))
    words = pd.DataFrame(np.array(list("abcd"))[X], columns=list("pqrs"))
    for inputs in (X.astype(float), words):
        table = table_from_arrays(inputs, y).learnt()
        found = effective_rows(table)
        assert found.weights is None
        np.testing.assert_array_equal(found.X, table.X)
        twice = np.repeat(np.arange(300), 2)
        merged = effective_rows(replace(table, X=table.X[twice], y=y[twice]))
        assert merged.weights is not None
        assert merged.weights.sum() == 600
    apart = X + np.round(rng.normal(size=300), 3)[:, np.newaxis]  # as many values as rows
    some = rng.integers(0, 300, 600)
    assert effective_rows(table_from_arrays(apart[some], y[some])).weights is not None


def test_rows_of_far_fewer_possible_inputs_are_not_merged():
    """Even if their labels always agree, as in a table of one column, or are an exclusive or."""
    rng = np.random.default_rng(3)
    X = np.stack([rng.integers(0, high, 300) for high in (4, 3)], axis=1)
    for inputs, y in ((X[:, :1], X[:, 0] % 2), (X, (X[:, 0] < 2) ^ (X[:, 1] == 0))):
        assert effective_rows(table_from_arrays(inputs, y)).weights is None
        frame = pd.DataFrame(np.array(list("abcd"))[inputs])
        found = sparsegp.SparseGPClassifier(kernel="10*rbf", n_active=20).fit(frame, y)
        assert nlpp(found.model_, frame, y) < 0.02
    X = rng.integers(0, 10, (600, 2)).astype(float)
    table = table_from_arrays(X, (X[:, 0] % 3 == 0) ^ (X[:, 1] % 2 == 0))
    assert effective_rows(table).weights is None


def test_rounded_counts_and_chance_are_no_repetition():
    X, y = np.tile([[0.0, 0], [0, 1], [1, 0], [1, 1]], (2, 1)), np.repeat([0, 1], 4)
    counts = np.array([2000, 1500, 300, 100, 300, 200, 1000, 600])
    for given in (as_table(X, y, counts), table_from_arrays(X.repeat(counts, 0), y.repeat(counts))):
        found = effective_rows(given)
        assert found.weights is None
        assert len(found.X) == counts.sum()
    rng, n_changed = np.random.default_rng(1), 0
    for _ in range(200):
        x = (rng.random(600) < 0.5).astype(float)[:, np.newaxis]
        z = (rng.random(600) < np.where(x[:, 0] > 0, 0.7, 0.4)).astype(int)
        n_changed += effective_rows(table_from_arrays(x, z)).weights is not None
    assert n_changed <= 4


def counted(X, y):
    """Different rows and labels, and how many there are of each."""
    return np.unique(np.c_[X, y], axis=0, return_counts=True)


@pytest.mark.parametrize("times", [1, 2, 3, 7])
def test_a_repeated_table_of_separate_observations_has_weights(times):
    """Each observation counts as often as it is repeated, and its copies do not judge it."""
    rng = np.random.default_rng(5)
    X = np.stack([rng.integers(0, high, 200) for high in (3, 3, 2)], axis=1).astype(float)
    y = ((X[:, 0] > 0) ^ (X[:, 2] > 0) ^ (rng.random(200) < 0.1)).astype(int)
    whole = effective_rows(table_from_arrays(np.tile(X, (times, 1)), np.tile(y, times)))
    for found, expected in zip(counted(whole.X, whole.y), counted(X, y), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert whole.repeats
    assert (whole.weights is None) == (times == 1)
    if times > 1:
        assert (whole.weights == times).all()
        some = np.r_[np.arange(200), *[np.flatnonzero(y)] * (times - 1)]
        found = effective_rows(table_from_arrays(X[some], y[some]))
        assert len(found.X) == 200
        np.testing.assert_array_equal(found.weights, np.where(found.y == 1, times, 1))
        given = effective_rows(as_table(X, y, np.full(200, times)))
        np.testing.assert_array_equal(given.X, X)
        assert (given.weights == times).all()


@pytest.mark.parametrize("n_flags", [0, 2, 6])
def test_one_column_of_numbers_and_flags_leave_copies_what_they_are(n_flags):
    """Rows agree in rare flags by chance, and in all numbers only if they are copies."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=300), rng.random((300, n_flags)) < 0.1])
    y = (X.sum(axis=1) + rng.normal(size=300) > 0.0).astype(int)
    twice = np.repeat(np.arange(300), 1 + y)
    for table in (table_from_arrays(X[twice], y[twice]), as_table(X, y, 1.0 + y)):
        found = effective_rows(table)
        assert len(found.X) == 300
        assert (found.weights == 1.0 + found.y).all()
    similar = [effective_rows(table_from_arrays(X, y), f"1={weight}") for weight in (2, 2.001)]
    np.testing.assert_array_equal(similar[0].rows, similar[1].rows)
    np.testing.assert_allclose(similar[0].weights, similar[1].weights, rtol=1e-3)


def test_class_weights_make_no_copies_of_separate_observations():
    rng = np.random.default_rng(2)
    X = np.stack([rng.integers(0, high, 300) for high in (4, 3, 2)], axis=1).astype(float)
    y = (rng.random(300) < 0.4).astype(int)
    for weights in ("1=2", "1=0.5", "balanced"):
        found = effective_rows(table_from_arrays(X, y), weights)
        np.testing.assert_array_equal(found.X, X)
        assert found.repeats
        assert len(np.unique(found.weights)) == 2
        assert len(sparsegp.train(X, y, class_weight=weights).rows) == 24
    assert len(effective_rows(table_from_arrays(X, y), "1=0").X) == (y == 0).sum()


def test_active_rows_have_different_inputs():
    """Else copies of a few inputs would fill the active set, as these rows are sorted by inputs."""
    rng = np.random.default_rng(1000)
    X = np.stack([rng.integers(0, k, 6000) for k in (2, 4, 3)], axis=1).astype(float)
    y = (X @ [1.0, 0.7, -0.8] + rng.logistic(size=6000) > 1.0).astype(int)
    order = np.lexsort(np.column_stack([y, X]).T)
    model = sparsegp.train(X[order], y[order], kernel="10*rbf(1)", scaling="none")
    assert len(model.rows) == len(np.unique(X, axis=0)) == 24
    _, cell = np.unique(X, axis=0, return_inverse=True)
    share = (np.bincount(cell, y) / np.bincount(cell))[cell]
    least = -np.mean(y * np.log(share) + (1 - y) * np.log1p(-share))
    assert nlpp(model, X, y) < least + 0.005


@pytest.mark.parametrize("n", [300, 3000])
def test_counts_are_as_good_as_rows(n):
    """Some of many are left out to validate."""
    rng = np.random.default_rng(4)
    X = np.stack([rng.integers(0, high, n) for high in (4, 3, 2)], axis=1).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(X[:, 0] - 1.5))).astype(int)
    cells, counts = np.unique(np.c_[X, y], axis=0, return_counts=True)
    model = sparsegp.train(cells[:, :3], cells[:, 3], sample_weight=counts)
    rows = np.repeat(cells, counts, axis=0)
    same(model, sparsegp.train(rows[:, :3], rows[:, 3]), X)
    estimator = SparseGPClassifier(n_active=100, kernel="rbf")
    expected = estimator.fit(rows[:, :3], rows[:, 3]).predict_proba(X)
    found = estimator.fit(cells[:, :3], cells[:, 3], counts)
    np.testing.assert_array_equal(found.predict_proba(X), expected)
    assert found.n_active_ == len(np.unique(X, axis=0)) == 24
    new = rng.integers(0, 2, (40, 3)).astype(float), rng.integers(0, 2, 40)
    updated = sparsegp.update(model, *new, old=as_table(cells[:, :3], cells[:, 3], counts))
    assert len(updated.rows) == len(model.rows)


def test_large_tables_keep_their_order(monkeypatch):
    monkeypatch.setattr("sparsegp.data.copies.MAX_VALUES", 0)
    found = effective_rows(table_from_arrays(np.repeat(X, 2, axis=0), np.repeat(Y, 2)))
    np.testing.assert_array_equal(np.asarray(found.X), X)
    np.testing.assert_array_equal(found.rows, 2 * np.arange(N))
    assert (found.weights == 2.0).all()


@pytest.mark.parametrize("kernel", ["50*rbf(8)", "10 + 3*linear"])
def test_weights_may_differ_by_many_orders_of_magnitude(kernel, caplog):
    """In single precision no variance is then left for many rows; others become active."""
    rng = np.random.default_rng(0)
    rows, weights = rng.standard_normal((N, 3)), 10.0 ** rng.uniform(-8.0, 8.0, N)
    label = rows[:, 0] + 0.3 * rng.standard_normal(N) > 0.0
    how = {"kernel": kernel, "n_active": 60}
    model = train(rows, label, sample_weight=weights, precision="float32", **how)
    assert len(model.rows) == 60
    assert "row weights differ by a factor of" in caplog.text
    caplog.clear()
    train(rows, label, sample_weight=weights**0.25, **how)
    assert "row weights differ" not in caplog.text
    assert np.average(model.predict(rows) == label, weights=weights) > 0.8


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one weight; X has 300 rows and weights of shape .3,."),
        (np.where(np.arange(N) == 7, -1.5, 1.0), "must be 0, or from .* X has -1.5 in row 7"),
        (np.where(np.arange(N) == 8, np.nan, 1.0), "to 1e.09; X has nan in row 8"),
        (np.full(N, 1e10), "has 1e.10 in row 0; a row that counts once weighs 1"),
        (np.zeros(N), "weights must not be zero in all rows"),
        (["heavy"] * N, "weights must be numbers"),
        (np.ones(N) * 1j, "weights must be numbers"),
        (np.ma.masked_equal(np.arange(N), 3), "X has nan in row 3"),
    ],
)
def test_what_is_no_weight_is_refused(weights, message):
    with pytest.raises(DataError, match=message):
        train(X, Y, sample_weight=weights)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"class_weight": "0"}, SettingsError, "class_weight must be balanced or labels with"),
        ({"class_weight": {0: -1}}, SettingsError, "to 1e.09, such as a=2,b=0.5, got"),
        ({"class_weight": {0: 1e10}}, SettingsError, "to 1e.09, such as a=2,b=0.5, got"),
        ({"class_weight": "0=2,0=3"}, SettingsError, "given once, got '0' twice"),
        ({"class_weight": "7=2"}, SettingsError, "name classes of the rows; X has no label '7'"),
        ({"class_weight": "0=2", "likelihood": "gaussian"}, SettingsError, "a regression has none"),
        ({"active_per_class": True, "task": "regression"}, SettingsError, "a regression has none"),
        ({"sample_weight": np.ones(N), "method": "ep"}, SettingsError, "weights of rows are for"),
        ({"sample_weight": [1, 0] * 150, "learn": "evidence", "sites": "moments"}, SettingsError,
         "with learn=none"),
        ({"sample_weight": np.full(N, 1e-9), "likelihood": "ordered_probit"}, NumericalError,
         "larger weights"),
    ],
)  # fmt: skip
def test_what_cannot_heed_weights_refuses_them(settings, error, message):
    given = {} if "method" in settings else {"n_active": 40}
    with pytest.raises(error, match=message):
        sparsegp.train(X, Y, **given, **settings)


@pytest.mark.parametrize("header", [True, False])
def test_evaluations_heed_a_column_of_weights_and_predictions_leave_it_out(header, tmp_path):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "w"])
    rows["w"] = rng.integers(0, 3, 400)
    rows["y"] = np.where(rows["a"] + 0.5 * rng.normal(size=400) > 0, "up", "down")
    repeated, bare = rows.loc[rows.index.repeat(rows["w"])].assign(w=1), rows.drop(columns="w")
    for file, table in {"rows": rows, "repeated": repeated, "bare": bare}.items():
        table.to_csv(tmp_path / f"{file}.csv", index=False, header=header)
    name = "w" if header else "2"
    run, column = tmp_path / "run", ("--weight-column", name)
    how = ("--n-active", 20, "--kernel", "10*rbf", "--out", run, *column)
    trained = told("train", tmp_path / "rows.csv", *how, "--test", tmp_path / "rows.csv")
    assert re.search(f"^weights +column {name}$", invoke("inspect", run).stdout, re.M)
    found = [
        told("evaluate", run, tmp_path / "rows.csv", "--set", 0.9),
        told("evaluate", run, tmp_path / "repeated.csv", *column, "--set", 0.9),
    ]
    assert found[0]["nlpp"] == trained["nlpp"]
    assert (found[0]["n"], found[1]["n"]) == (400, len(repeated))
    for figure in ("error", "nlpp", "brier", "ece", "confusion", "weight"):
        np.testing.assert_allclose(found[0][figure], found[1][figure], rtol=1e-9)
    for figures in ("sets", "two_classes"):
        assert found[0][figures] == pytest.approx(found[1][figures])
    refused = invoke("train", tmp_path / "rows.csv", "--weight-column", "v", code=2)
    assert "has no weight column 'v'" in refused.output
    for wrong, message in {
        "much": "X must hold real numbers; .*wrong.csv has 'much' in line 5 .row 3., column 'a'",
        None: "weights must be 0, or .*wrong.csv has nan in row 3; ",
    }.items():
        rows.assign(a=[1, 2, 3, wrong] * 100).to_csv(tmp_path / "wrong.csv", index=False)
        refused = invoke("train", tmp_path / "wrong.csv", "--weight-column", "a", code=2)
        assert re.search(f"column 'a' cannot be weights: {message}", refused.output)
    if header:
        counted = invoke("evaluate", run, tmp_path / "rows.csv", "--drop", "w").output
        assert "400; weights" not in counted
        refused = invoke("evaluate", run, tmp_path / "rows.csv", "--weight-column", "a", code=2)
        assert "--weight-column must not be an input of the model, got 'a'" in refused.output
        assert "no column" not in invoke("predict", run, tmp_path / "bare.csv", "--out", "-").stderr
    text = invoke("evaluate", run, tmp_path / "rows.csv").stdout
    assert f"400; weights, which sum to {len(repeated)}, are used" in text
    without = invoke("evaluate", run, tmp_path / "bare.csv")
    assert f"has no column '{name}' of weights: all rows count alike" in without.stderr
    assert "weights, which" not in without.stdout
    rows.drop(columns="y").to_csv(tmp_path / "new.csv", index=False, header=header)
    shown = predicted(run, tmp_path / "rows.csv")
    assert shown == predicted(run, tmp_path / "new.csv", "--drop", name)
    found = [float(line.split(",")[2]) for line in shown.splitlines()[1:]]
    expected = sparsegp.load(run).predict_proba(rows[["a", "b"]].to_numpy())
    np.testing.assert_allclose(found, expected[:, 0])


# -- what follows a fit -------------------------------------------------------------------------

KERNEL = "10*rbf(2)"
rng = np.random.default_rng(0)
SMALL, COUNT = rng.normal(size=(80, 3)), rng.integers(1, 6, 80)
LABEL = (SMALL[:, 0] + 0.5 * rng.normal(size=80) > 0).astype(int)
TABLES = as_table(SMALL, LABEL, COUNT), as_table(SMALL.repeat(COUNT, axis=0), LABEL.repeat(COUNT))
"""Rows with weights, and the same rows repeated."""


@pytest.fixture(scope="module")
def pair():
    return [sparsegp.train(table, kernel=KERNEL, n_active=40) for table in TABLES]


def test_zero_weights_and_copies_bound_the_active_rows():
    X, y = SMALL, LABEL
    model = SparseGPClassifier(kernel=KERNEL, n_active=60)
    some = model.fit(X, y, np.arange(80) < 50)
    expected = some.predict_proba(X)
    np.testing.assert_array_equal(model.fit(X[:50], y[:50]).predict_proba(X), expected)
    model = SparseGPClassifier(kernel=KERNEL).partial_fit(X[:50], y[:50], classes=[0, 1])
    twice = model.partial_fit(np.tile(X[50:], (2, 1)), np.tile(y[50:], 2))
    assert twice.n_active_ == 80


def test_updates_with_few_new_rows_of_large_weight():
    old = SMALL, LABEL
    model = sparsegp.train(*old, kernel=KERNEL, n_active=40)
    new, labels = SMALL[:5] + 0.3, np.array([0, 1, 0, 1, 1])
    weighted = sparsegp.update(model, as_table(new, labels, np.full(5, 100.0)), old=old)
    repeated = new.repeat(100, axis=0), labels.repeat(100)
    same(weighted, sparsegp.update(model, *repeated, old=old), SMALL)


def test_updates_by_a_batch_of_one_class(pair):
    updated = []
    for model, table in zip(pair, TABLES, strict=True):
        new = replace(table, X=table.X + 0.3, y=np.ones(len(table.y), int))
        updated.append(sparsegp.update(model, new))
    same(*updated, SMALL)


def test_virtual_rows(pair):
    models = []
    for model, table in zip(pair, TABLES, strict=True):
        every = sparsegp.virtual_rows(model, table, lambda A: [A + 0.05])
        models.append(sparsegp.train(every, **sparsegp.same_settings(model)))
    same(*models, SMALL)


def test_rows_of_several_labels():
    X = SMALL
    P = np.column_stack([1.0 - (p := 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))), p])
    table = sparsegp.soft_labels(X, P)
    model = sparsegp.train(table, kernel=KERNEL, n_active=40)
    updated = sparsegp.update(model, X[:10] + 1.0, np.arange(10) % 2, old=table)
    each = list(zip(updated.rows.tolist(), updated.active.target.tolist(), strict=True))
    assert len(set(each)) == len(each)
    former = set(zip(model.rows.tolist(), model.active.target.tolist(), strict=True))
    assert {*each[:35]} <= former  # the new rows are a ninth
    virtual = sparsegp.virtual_rows(model, table, lambda A: [A + 0.01])
    copies = virtual.y[len(table.y) :]
    assert len(copies) == np.isin(table.rows, model.rows).sum()
    assert 0 < copies.mean() < 1
    sparsegp.train(virtual, **sparsegp.same_settings(model, n_active=50))


def test_many_copies_are_told(caplog):
    rows, rng = np.random.default_rng(3).normal(size=(60, 2)), np.random.default_rng(4)
    y = rng.integers(0, 2, 60)
    for copied, is_told in ((3, False), (6, True)):
        some = np.r_[:60, :copied]
        train(rows[some], y[some], n_active=20)
        said = f"{copied} of {60 + copied} rows of X have the inputs and the label of others"
        assert (said in caplog.text) == is_told
    caplog.clear()
    train(rows[some], y[some], sample_weight=np.ones(66), n_active=20)
    assert not caplog.text


@pytest.mark.parametrize("number", [3, -2])
def test_a_column_of_weights_has_the_number_of_its_position(number, tmp_path):
    rows = load_iris(as_frame=True).frame.set_axis([*"abcdy"], axis=1)[[*"yabcd"]]
    rows["c"] = 1 + np.arange(150) % 2
    rows.to_csv(tmp_path / "named.csv", index=False)
    rows.to_csv(tmp_path / "bare.csv", index=False, header=False)
    rows.to_parquet(tmp_path / "stored.parquet")
    by_name = ("--label-column", "y", "--weight-column", "c")
    by_number = ("--label-column", 0, "--weight-column", number)
    found = []
    for name in ("named.csv", "stored.parquet", "bare.csv"):
        how = by_number if found else by_name
        figures = told("evaluate", train_quickly(tmp_path / name, *how), tmp_path / name, *how)
        found.append((figures["weight"], figures["nlpp"]))
    assert found == [(225, found[0][1])] * 3
    refused = invoke("train", tmp_path / name, *by_number[:3], 0, code=2).stderr
    assert "--weight-column '0' must not be the label" in refused
