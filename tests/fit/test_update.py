"""An update by new rows: beside training anew, through blocks, a stop and a resume."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons

import sparsegp
from sparsegp.data import as_table, table_from_arrays
from sparsegp.errors import DataError, Interrupted, SettingsError
from tests.runs import Stopper, assert_same, nlpp

KERNEL = "30*matern32"


def sample(seed, n=700, turn=0.0, noise=0.0):
    """Three stripes whose direction may turn, and that may overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    across = np.cos(turn) * X[:, 0] + np.sin(turn) * X[:, 1]
    return X, np.digitize(across + noise * rng.normal(size=n), [-0.5, 0.5])


OLD, NEW = sample(0), sample(1, 300, 0.4)


@pytest.fixture(scope="module")
def model():
    return sparsegp.train(*OLD, kernel=KERNEL, n_active=60)


def test_it_is_about_as_good_as_training_anew(model):
    updated = sparsegp.update(model, *NEW, old=OLD)
    both = np.concatenate([OLD[0], NEW[0]]), np.concatenate([OLD[1], NEW[1]])
    anew = sparsegp.train(*both, kernel=KERNEL, n_active=60)
    of_new_kind = sample(2, 1000, 0.4)
    assert nlpp(updated, *of_new_kind) < 1.1 * nlpp(anew, *of_new_kind) < nlpp(model, *of_new_kind)
    assert len(updated.rows) == len(set(updated.rows.tolist())) == 60
    first = updated.rows[:42]  # the new rows are three tenths
    assert_array_equal(first, model.rows[np.isin(model.rows, first)])
    assert (updated.rows >= len(OLD[1])).any()


@pytest.mark.parametrize(("n", "counts"), [(299, False), (300, True)])
def test_some_of_enough_new_rows_calibrate_without_old_ones(n, counts, model):
    """The posterior of few rows, by cross-validation, has none of its own."""
    updated = sparsegp.update(model, *sample(1, n, noise=2.0))
    before, after = model.calibration, updated.calibration
    assert (after != before) is counts
    assert after.prior_scale == before.prior_scale


@pytest.mark.parametrize(("n", "warns"), [(299, True), (300, False)])
def test_an_update_of_a_model_of_few_rows_warns(n, warns, caplog):
    few = [each[:n] for each in OLD]
    small = sparsegp.train(*few, kernel=KERNEL, n_active=20)
    sparsegp.update(small, *NEW, old=few)
    assert not caplog.messages
    sparsegp.update(small, *NEW)
    assert [f"the {n} rows of the model" in said for said in caplog.messages] == [True] * warns


@pytest.mark.parametrize("scaling", ["standard", "quantile"])
def test_an_update_of_a_model_with_dates_warns(scaling, caplog):
    X, y = OLD
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["on"] = pd.date_range("2024-01-01", periods=len(X), freq="h")
    old, new = (frame[:500], y[:500]), (frame[500:], y[500:])
    model = sparsegp.train(
        *old, kernel=KERNEL, n_active=40, criterion="random", scaling=scaling, seed=1
    )
    sparsegp.update(model, *new, old=old)
    assert not caplog.messages
    assert 499 not in model.rows
    sparsegp.update(model, frame[100:500], y[100:500])
    assert not caplog.messages  # no later dates
    sparsegp.update(model, *new)
    assert "new rows have later dates in on: give the old rows too" in caplog.text


@pytest.mark.parametrize("old", [OLD, None])
def test_an_update_warns_of_other_units(old, caplog):
    model = sparsegp.train(*OLD, kernel=KERNEL, n_active=60)
    assert not caplog.messages
    sparsegp.update(model, NEW[0] * 1000, NEW[1], old=old)
    assert "values far outside those of training" in caplog.text


@pytest.mark.parametrize("old", [OLD, None])
def test_candidates_that_were_given_grow_with_the_active_rows(old):
    small = sparsegp.train(*OLD, kernel=KERNEL, n_active=20, candidates=30)
    assert sparsegp.update(small, *NEW, old=old).settings["candidates"] == 30
    grown = sparsegp.update(small, *NEW, old=old, n_active=50).rows
    assert len(grown) == 50
    assert_array_equal(grown[:20], small.rows)


@pytest.mark.parametrize("old", [OLD, None])
def test_blocks_do_not_matter_nor_does_a_stop(old, model, tmp_path):
    expected = sparsegp.update(model, *NEW, old=old, runtime="threads=1")
    assert_same(sparsegp.update(model, *NEW, old=old, runtime="threads=3"), expected, NEW[0])
    how = {"old": old, "out": tmp_path / "run"}
    with pytest.raises(Interrupted):
        sparsegp.update(model, *NEW, **how, progress=Stopper(5))
    other = np.roll(NEW[1], 1)
    with pytest.raises(SettingsError):
        sparsegp.update(model, NEW[0], other, **how, resume=True)
    assert_same(sparsegp.update(model, *NEW, **how, resume=True), expected, NEW[0])
    assert_same(sparsegp.update(model, *NEW, **how), expected, NEW[0])  # finished
    another = sparsegp.train(*OLD, kernel=KERNEL, n_active=60, seed=1)
    with pytest.raises(SettingsError):
        sparsegp.update(another, *NEW, **how)


def test_without_the_old_rows(model):
    """It predicts new rows better, and forgets the old ones no more than it must."""
    same, other = sample(3, 300), sample(4, 1000)
    updated = sparsegp.update(model, *same)
    assert nlpp(updated, *other) < nlpp(model, *other)
    assert len(set(updated.rows.tolist())) == 60
    stayed = updated.rows[updated.rows < len(OLD[1])]
    assert np.isin(stayed, model.rows).all()
    assert len(stayed) == 42  # the new rows are three tenths
    places = updated.rows[42:] - len(OLD[1])
    assert_allclose(updated.active.x[42:], updated.scaling.apply(same[0][places]), rtol=1e-6)
    turned = sparsegp.update(model, *NEW)
    of_new_kind = sample(2, 1000, 0.4)
    assert nlpp(turned, *of_new_kind) < 0.6 * nlpp(model, *of_new_kind)
    third = sparsegp.update(updated, *sample(5, 50))  # without validation rows
    assert third.calibration == updated.calibration
    assert third.report["rows"] == 1050
    assert third.predict_set(other[0], 0.9).shape == (1000, 3)


@pytest.mark.parametrize("kernel", ["10 + linear", "50*rbf", "30*laplace"])
def test_rows_of_hardly_any_weight_change_hardly_anything(kernel):
    """Also where some are active, and with a kernel of small rank."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(900, 6))
    y = (X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=900) > 0.0).astype(int)
    model = sparsegp.train(X[:600], y[:600], kernel=kernel, n_active=200)
    before = model.latent_mean_and_variance(X[620:])[0]
    for new in (slice(600, 601), slice(600, 620)):
        updated = sparsegp.update(model, X[new], y[new], sample_weight=np.full(len(X[new]), 1e-9))
        after = updated.latent_mean_and_variance(X[620:])[0]
        assert_allclose(after, before, atol=0.02 * np.abs(before).max())


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernel", ["rbf", "3*rbf(1.0)", "10*rbf(3.0)", "10*laplace"])
def test_many_updates_of_a_regression_do_no_harm(kernel, precision):
    """Also with kernels of few directions, in which errors could grow each time."""
    rng = np.random.default_rng(7)
    X, new = rng.normal(size=(400, 1)), rng.normal(size=(500, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=400)
    how = {"kernel": kernel, "task": "regression", "precision": precision, "n_active": 100}
    model = sparsegp.train(X[:300], y[:300], **how)

    def error():
        return np.abs(model.predict(new) - np.sin(2.0 * new[:, 0])).mean()

    first = error()
    for start in range(280, 400, 20):  # the first rows are not new
        model = sparsegp.update(model, X[start : start + 20], y[start : start + 20])
        assert error() < 1.1 * first + 0.003


@pytest.mark.parametrize(
    ("kernel", "step"),
    [
        ("10*linear", 1),
        pytest.param("10.0 + 3*linear", 1, marks=pytest.mark.slow),
        pytest.param("30*rbf(20.0)", 5, marks=pytest.mark.slow),
        ("30*laplace", 5),
    ],
)
def test_many_updates_of_a_classifier_do_no_harm(kernel, step):
    X, y = make_moons(900, noise=0.2, random_state=0)
    model = sparsegp.train(X[:300], y[:300], kernel=kernel, precision="float64", n_active=100)
    first = nlpp(model, X[600:], y[600:])
    for start in range(300, 300 + 12 * step, step):
        model = sparsegp.update(model, X[start : start + step], y[start : start + step])
        assert nlpp(model, X[600:], y[600:]) < first + 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "ratio"), [("softmax", 1.03), ("logistic", 1.06)])
def test_old_rows_are_hardly_missed_where_classes_overlap(likelihood, ratio):
    """A quadratic stands for them nearly as well as they do; for separate classes less so."""
    how = {"likelihood": likelihood, "posterior": "all", "sites": "variational"}
    alone, beside = 0.0, 0.0
    for seed in range(0, 40, 10):
        old, new, other = (
            (X, y if likelihood == "softmax" else (y > 1).astype(int))
            for X, y in (sample(seed + i, n, 0.0, 0.4) for i, n in enumerate((700, 300, 1000)))
        )
        model = sparsegp.train(*old, kernel=KERNEL, n_active=60, **how)
        alone += nlpp(sparsegp.update(model, *new), *other)
        beside += nlpp(sparsegp.update(model, *new, old=old), *other)
    assert alone < ratio * beside


def test_rows_with_weights_and_encoded_columns():
    """Copies are their weight; categories unknown so far go to the rare ones."""
    X, y = sample(0, 400)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0, "u", "v")})
    model = sparsegp.train(frame, y, kernel="30*matern32", n_active=40, scaling="quantile")
    new = frame[:100].assign(c="w")
    table = as_table(new, y[:100], np.full(100, 2.0))
    updated = sparsegp.update(model, table)
    assert (updated.encoding, updated.names) == (model.encoding, model.names)
    twice = as_table(pd.concat([new, new]), np.tile(y[:100], 2), np.ones(200))
    assert_same(sparsegp.update(model, twice), updated, new)
    with pytest.raises(DataError, match="has no rows"):
        sparsegp.update(model, new[:0], y[:0])


def test_weights_of_old_and_new_rows():
    (X, y), (new, label) = OLD, NEW
    w, v = np.where(X[:, 1] > 0, 20.0, 0.05), np.full(len(new), 3.0)
    model = sparsegp.train(X, y, sample_weight=w, kernel=KERNEL, n_active=60)
    updated = sparsegp.update(model, new, label, sample_weight=v, old=(X, y, w))
    assert updated.report["weight"] == pytest.approx(w.sum() + v.sum())
    tables = as_table(new, label, v), as_table(X, y, w)
    assert_same(sparsegp.update(model, tables[0], old=tables[1]), updated, new)
    with pytest.raises(DataError, match=r"weights that the model was trained on, which sum to 7"):
        sparsegp.update(model, new, label, old=(X, y))


def test_what_must_hold(model):
    (X, y), (new, labels) = OLD, NEW
    more = np.vstack([X, X[:1]]), np.append(y, y[0])
    dense = sparsegp.train(X[:60], y[:60], method="laplace")
    sites = sparsegp.train(*OLD, kernel=KERNEL, n_active=60, posterior="adf")
    for of, rows, old, error, message in (
        (model, NEW, (X[::-1], y[::-1]), DataError, "active rows"),
        (model, NEW, (X, y[::-1]), DataError, "the labels that the model was trained on; that"),
        (model, NEW, more, DataError, f"the {len(X)} rows that the model was trained on"),
        (model, (new[:, :2], labels), OLD, DataError, "columns"),
        (model, NEW, X, SettingsError, "pair"),
        (dense, NEW, OLD, SettingsError, "method=ivm"),
        (model, (new, labels + 1), None, DataError, "train a new model"),
        (sites, NEW, None, SettingsError, "old rows too"),
    ):
        with pytest.raises(error, match=message):
            sparsegp.update(of, *rows, old=old)
    for wrong in ("auto", np.nan, 0, True):
        with pytest.raises(SettingsError, match="n_active must be"):
            sparsegp.update(model, *NEW, n_active=wrong)


def test_tables_with_copies_and_of_some_rows(model):
    """Rows that were left out, and families of copies, are those of both tables."""
    table = sparsegp.virtual_rows(model, table_from_arrays(*OLD), lambda X: [X + 0.01])
    first = sparsegp.train(table, kernel=KERNEL, n_active=60)
    updated = sparsegp.update(first, *NEW, old=table)
    assert updated.rows.max() < len(table.X) + len(NEW[1])
    weights = np.ones(len(OLD[1]))
    weights[::3] = 0.0
    some = replace(table_from_arrays(*OLD), weights=weights)
    second = sparsegp.update(sparsegp.train(some, kernel=KERNEL, n_active=60), *NEW, old=some)
    assert not (second.rows[second.rows < len(weights)] % 3 == 0).any()


def test_active_rows_may_become_copies_of_each_other():
    """Rows that were separate observations are merged if new ones show them to be copies."""
    rng = np.random.default_rng(5)
    X, y = rng.integers(0, 3, (80, 2)) * 1.0, rng.integers(0, 2, 80)
    model = sparsegp.train(X, y, kernel=KERNEL, n_active=60)
    copies = [np.repeat(new, 8, axis=0) for new in (rng.normal(size=(40, 2)), y[:40])]
    updated = sparsegp.update(model, *copies, old=(X, y))
    assert len(set(updated.rows.tolist())) == len(updated.rows)
    kept = updated.rows[updated.rows < 80]
    assert_array_equal(kept[:6], model.rows[np.isin(model.rows, kept[:6])])
    assert len(np.unique(np.c_[X[kept], y[kept]], axis=0)) == len(kept)


def test_classes_and_active_rows_may_be_missing_from_the_old_rows():
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"x": rng.normal(size=300), "c": rng.integers(0, 50, 300).astype(str)})
    y = rng.integers(0, 3, 300)
    model = sparsegp.SparseGPClassifier(n_active=30, kernel=KERNEL)
    model.partial_fit(rows, y, classes=[0, 1, 2, 3])
    assert len(sparsegp.update(model.model_, rows[:5], y[:5], old=(rows, y)).rows) == 30
    X, words = rng.normal(size=(40, 2)), np.array(["a", "b"])[rng.integers(0, 2, 40)]
    few = sparsegp.train(X, words, n_active=1, kernel=KERNEL)
    new = rng.normal(size=(300, 2)), np.array(["a", "b"])[rng.integers(0, 2, 300)]
    copies = (np.concatenate([each, each[:3]]) for each in new)
    assert sparsegp.update(few, *copies, old=(X, words)).rows[0] >= 40


def test_gaps_are_filled_as_for_predictions():
    """Where the training rows were a frame of numbers without gaps, too."""
    X, y = sample(0, 300)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = sparsegp.train(frame, y, kernel=KERNEL, n_active=40)
    holes, filled = frame[:80].copy(), frame[:80].copy()
    holes.iloc[::7, 1], filled.iloc[::7, 1] = np.nan, model.medians[1]
    for old in (None, (frame, y)):
        updated = sparsegp.update(model, holes, y[:80], old=old)
        assert_same(updated, sparsegp.update(model, filled, y[:80], old=old), X)
        assert_array_equal(updated.medians, model.medians)
        assert updated.encoding is None


def test_scaling_is_that_of_all_rows_that_are_there(model):
    far = NEW[0] + 3.0
    updated = sparsegp.update(model, far, NEW[1], old=OLD)
    assert_allclose(updated.scaling.shift, np.concatenate([OLD[0], far]).mean(axis=0), rtol=1e-5)
    assert updated.kernels == model.kernels
    assert_array_equal(sparsegp.update(model, far, NEW[1]).scaling.shift, model.scaling.shift)


def test_labels_of_a_regression_keep_their_units():
    """The noise that was learnt is in units of the standardised labels."""
    X, _ = OLD
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    first = sparsegp.train(X[:400], y[:400], likelihood="gaussian", n_active=60)
    updated = sparsegp.update(first, X[400:], y[400:] + 9.0, old=(X[:400], y[:400]))
    assert updated.numbers == first.numbers
    assert updated.likelihood == first.likelihood


@pytest.mark.slow
def test_old_rows_calibrate_as_when_all_are_trained_anew():
    """Active rows are harder to predict than others, so validation rows must not lack them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2200, 3))
    noise = rng.logistic(size=len(X))
    y = (1.5 * np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + noise > 0.0).astype(int)
    how = {"kernel": "30*laplace", "n_active": 500, "runtime": "threads=1"}
    old, new = (X[:2000], y[:2000]), (X[2000:], y[2000:])
    first = sparsegp.train(*old, **how)
    updated = sparsegp.update(first, *new, old=old)
    again = sparsegp.train(X, y, **how)
    found, expected = (min(m.report["validation_nlpp"].values()) for m in (updated, again))
    assert found == pytest.approx(expected, abs=0.03)
    assert np.isin(first.rows, updated.rows).mean() > 0.5
