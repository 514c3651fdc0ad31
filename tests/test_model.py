"""The fitted model: predictions whatever the chunks, and its file."""

import json
import pickle
from dataclasses import replace
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.data import open_dataset
from sparsegp.errors import DataError, SettingsError, StoreError
from sparsegp.store import MODEL, folder_of, read_file, write_file


@pytest.fixture(scope="module")
def model():
    data = open_dataset("digits")
    return sparsegp.train(data.train, n_active=60, posterior="adf", kernel="10*rbf")


def test_predictions_do_not_depend_on_chunks(model):
    X = open_dataset("digits").train.X.compute()
    expected = model.predict_proba(X)
    assert_allclose(expected.sum(axis=1), 1.0, atol=1e-3)
    for rows in (100, 512, 2000):
        lazy = model.predict_proba(da.from_array(X, chunks=(rows, 64)))
        assert isinstance(lazy, da.Array)
        assert_array_equal(lazy.compute(), expected)
    rows = da.from_array(X, chunks=(100, 64))
    some = rows[rows[:, 20] > 9]  # of unknown chunks
    assert_allclose(model.predict_proba(some), expected[X[:, 20] > 9], rtol=1e-10)
    assert np.isnan(some.shape[0]), "the array of the caller was changed"
    assert_array_equal(model.predict_proba(X[:512]), expected[:512])
    assert_allclose(model.predict_proba(X[5:6]), expected[5:6], rtol=1e-10)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_round_trip_of_columns_in_odd_units(unit, tmp_path):
    X = unit * np.random.default_rng(0).standard_normal((40, 2))
    model = sparsegp.train(X, X[:, 0] > 0, n_active=10)
    model.save(tmp_path / "m")
    assert_array_equal(sparsegp.load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


def test_bad_rows_are_named(model):
    with pytest.raises(DataError, match="64 columns"):
        model.predict(np.zeros((3, 63)))
    bad = np.zeros((3, 64))
    bad[1, 2] = np.inf
    with pytest.raises(DataError, match="row 1, column 2"):
        model.predict(bad)


def test_a_folder_or_a_file(model, tmp_path):
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["model.zarr.zip"]
    mailed = tmp_path / "mailed.bin"
    mailed.write_bytes((tmp_path / "run" / "model.zarr.zip").read_bytes())
    for path in (tmp_path / "run", tmp_path / "run" / "model.zarr.zip", mailed):
        assert_array_equal(sparsegp.load(path).rows, model.rows)
    # active rows and sites, no training rows
    assert mailed.stat().st_size < 60 * 64 * 4 + 60 * 10 * 16 + 40_000


@pytest.fixture(scope="module")
def small():
    """Models of four families, of three columns."""
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 3
    kinds = {
        "sparse": {"posterior": "all", "n_active": 20},
        "linear": {"posterior": "adf", "n_active": 20, "kernel": "linear + 1"},
        "dense": {"method": "laplace"},
    }
    models = {name: sparsegp.train(X, y, **kind) for name, kind in kinds.items()}
    return models | {"numbers": sparsegp.train(X, X[:, 0], n_active=20, task="regression")}


@pytest.mark.parametrize("name", ["sparse", "linear", "dense", "numbers"])
@pytest.mark.parametrize("factor", [1e10, 1e100, 1e155, 1e300, 1.7e308])
def test_far_away_there_is_the_prior(small, name, factor):
    model, X = small[name], factor * np.array([[1.0, 0.5, -1.0], [-0.3, 1.0, 0.0]])
    if name == "numbers":
        found = np.stack(model.predictive_mean_and_variance(X))
    else:
        found = model.predict_proba(X)
    assert np.isfinite(found).all()
    if name in {"sparse", "dense"} and factor > 1e10:
        assert_allclose(found, 1 / 3, atol=1e-3)


def test_how_models_are_shown(small):
    """In a short line, and in notebooks in a table."""
    shown = repr(small["sparse"])
    assert shown.startswith("<SparseModel: 3 classes, 3 columns, 20 active rows, kernel ")
    assert repr(small["dense"]).startswith("<DenseModel: ")
    assert all(len(repr(model)) < 200 for model in small.values())
    shown = small["sparse"]._repr_html_()
    assert shown.count("<tr>") == shown.count("</tr>") == 5
    assert f"<td>{len(small['sparse'].rows)}</td>" in shown
    named = replace(small["sparse"], names=("<a>", "b", "c"))
    assert "3: &lt;a&gt;, b, c<" in named._repr_html_()


def test_each_kind_of_model_has_its_own_predictions(small):
    sparse, dense, numbers = (small[name] for name in ("sparse", "dense", "numbers"))
    for use, message in (
        (numbers.predict_proba, "regression"),
        (numbers.explain, "got a regression"),
        (sparse.predictive_mean_and_variance, "classifier"),
        (partial(sparse.explain, most=0), "`most` must be at least 1, got 0"),
        (dense.explain, "without `method`"),
        (dense.novelty, "without `method`"),
        (dense.predict_set, "need validation rows"),
    ):
        with pytest.raises(SettingsError, match=message):
            use(np.ones((1, 3)))


def test_relevances(small):
    X = np.random.default_rng(1).standard_normal((80, 3)) * [1.0, 10.0, 0.0]
    y, kernel = (X[:, 0] > 0).astype(int), "10*ard(1, 2, 3) + laplace(1, 2, 3)"
    for how in ({"n_active": 40, "posterior": "adf"}, {"method": "laplace"}):
        model = sparsegp.train(X, y, kernel=kernel, **how)
        assert_allclose(model.relevances, [2 / 3, 1 / 3, 0.0])  # the last column is constant
        model = sparsegp.train(X, y, kernel=kernel, scaling="none", **how)
        assert 0.7 < model.relevances[1] < 0.95  # 5 / 6, by the rows that are held
    assert small["sparse"].relevances is None


def edited(model, path, name, value):
    """Save a model one array of which has another value."""
    model.save(path)
    stored = read_file(folder_of(path.parent), path.name, MODEL)
    if isinstance(value, np.ndarray):
        stored.arrays[name] = value
    else:
        text = stored.arrays[name].tobytes().decode()
        changed = json.dumps(value(json.loads(text)))
        stored.arrays[name] = np.frombuffer(changed.encode(), np.uint8)
    write_file(folder_of(path.parent), path.name, MODEL, stored.meta, stored.arrays)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("active.x", np.full((20, 3), np.nan)),
        ("active.x", np.ones((19, 3))),
        ("active.site", np.ones((20, 2))),
        ("active.target", np.full(20, 3)),
        ("active.target", np.zeros(20, np.float32)),
        ("rows", np.arange(19)),
        ("names", np.frombuffer(b'["a", 1, "c"]', np.uint8)),
        ("scaling.name", lambda _: ["standard"]),
        ("weights.coefficients", np.full((3, 20, 1), 1e200)),
        ("weights.coefficients", np.ones((20, 1))),
        ("weights.gain", np.ones((3, 7), np.float32)),
        ("weights.reduction", np.ones((3, 7), np.float32)),
        ("weights.calibration.temperature", np.array(1e-300)),
        ("weights.calibration.variance_weight", np.array(1e300)),
        ("classes", np.array([0, 1, 1])),
        ("classes", np.array([0, 1])),
        ("active.likelihood", lambda value: value | {"n_nodes": 10**6}),
        ("active.likelihood", lambda value: value | {"name": "none"}),
        ("active.kernels", lambda value: [f"ard({', '.join(['1.0'] * 200_000)})"] * len(value)),
        ("active.kernels", lambda value: ["1e300*rbf(1)"] * len(value)),
        ("active.kernels", lambda value: [*value, "rbf(1)"]),
        ("scaling.factor", np.array([1.0, 1.0])),
        ("scaling.shift", np.full(3, np.nan)),
        ("scaling.kept", np.ones(2, bool)),
        ("encoding", np.frombuffer(b'[{"name": "a", "kind": "number"}]', np.uint8)),
        ("encoding", np.frombuffer(b'[{"name": 3, "parts": 4}]', np.uint8)),
        ("encoding", np.frombuffer(b'{"a": [1]}', np.uint8)),
        ("weights.report", lambda value: [value]),
        ("history", lambda value: [3]),
        ("settings", lambda value: [value]),
    ],
)
def test_a_model_made_by_hand_is_checked(small, tmp_path, name, value):
    edited(small["sparse"], tmp_path / "m", name, value)
    with pytest.raises(StoreError, match="m is damaged") as caught:
        sparsegp.load(tmp_path / "m")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("kind", ["estimator", "sparse", "dense"])
def test_rows_that_are_not_whole_are_refused_at_both_ends(kind):
    train, error = {
        "estimator": (lambda X, y: sparsegp.SparseGPClassifier(n_active=10).fit(X, y), ValueError),
        "sparse": (partial(sparsegp.train, n_active=10), DataError),
        "dense": (partial(sparsegp.train, method="laplace"), DataError),
    }[kind]
    X = np.random.default_rng(0).standard_normal((60, 3))
    y = X[:, 0] > 0
    model = train(X, y)
    missing = pd.DataFrame(np.ones((60, 3))).astype("Int64")
    missing.iloc[3, 2] = pd.NA
    with pytest.raises(error):
        model.predict(missing)
    for wrong in (np.ma.masked_greater(X, 1.0), X.astype(str), X.astype(complex)):
        for use in (lambda rows: train(rows, y), model.predict):
            with pytest.raises(error):
                use(wrong)
    with pytest.raises(error, match=r"no masked values|has None"):
        train(X, np.ma.masked_equal(y, True))


def test_values_far_outside_those_of_training_raise_a_warning(caplog):
    """Once for each column; others are near enough, or harmless as they are ranked."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["kg", "m", "s"])
    y = X["kg"] + X["m"] > 0.0
    model = sparsegp.train(X, y, kernel="10*rbf", scaling="standard", n_active=60)
    other = X.assign(kg=1000.0 * X["kg"])
    caplog.clear()
    model.predict_proba(X + 2.0)
    model.predict_proba(X.assign(m=X["m"] * np.where(np.arange(400) < 20, 1000.0, 1.0)))  # a few
    model.predict_proba(other[:1])
    assert not caplog.records
    for rows in (other, other[:8], other.to_numpy(), da.from_array(other.to_numpy(), (100, 3))):
        np.asarray(model.predict_proba(rows))
    model.predict_proba(other.assign(s=-1e6))
    first, second = (record.getMessage() for record in caplog.records[:2])
    assert "far outside those of training in: kg;" in first
    assert "in: s;" in second
    pickle.loads(pickle.dumps(model)).predict_proba(other)
    assert "in: kg;" in caplog.records[2].getMessage()
    caplog.clear()
    ranked = sparsegp.train(X, y, kernel="10*rbf", scaling="quantile", n_active=60)
    ranked.predict_proba(other)
    assert not caplog.records
