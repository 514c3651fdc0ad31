"""Categories of very many levels: the mean labels of those that are rare."""

from dataclasses import replace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.data import as_table, table_from_frame
from sparsegp.data.column import CODE_PARTS, FOLDS
from sparsegp.data.encoding import Encoding
from sparsegp.data.means import PRIOR, agreement_of, folds_of
from sparsegp.errors import DataError
from tests.runs import nlpp

N, LEVELS = 900, 200


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Few levels are many here."""
    for name in ("MANY_LEVELS", "MANY_OF_NUMBERS"):
        monkeypatch.setattr(f"sparsegp.data.means.{name}", 50)


def drawn(seed, n=N):
    """Rows whose labels depend on a shop, with a few frequent ones, and missing ones."""
    rng = np.random.default_rng(seed)
    shop = np.where(rng.random(n) < 0.2, rng.integers(0, 3, n), rng.integers(3, LEVELS, n))
    effect = np.random.default_rng(0).normal(size=LEVELS)[shop]
    names = np.array([f"s{i}" for i in shop], object)
    names[::50] = None
    frame = pd.DataFrame({"x": rng.normal(size=n).round(3), "shop": names})
    return frame, frame["x"].to_numpy() + 2.0 * effect + 0.5 * rng.normal(size=n)


@pytest.fixture(scope="module")
def rows():
    frame, number = drawn(1)
    return frame, np.digitize(number, [-0.8, 0.8])


def learnt(frame, y, is_regression=False):
    return table_from_frame(frame, y).learnt(is_regression=is_regression)


def means_of(table):
    """The columns of means as a frame, by the suffixes of their names."""
    X = pd.DataFrame(np.asarray(table.X), columns=table.names)
    found = X[[name for name in table.names if name.startswith("shop: mean")]]
    return found.rename(columns=lambda name: name.removeprefix("shop: mean of "))


def by_hand(own, others, numbers):
    """The means of numbers over other rows of the same level, as deviations from all rows."""
    overall = numbers.mean()
    each = pd.DataFrame({"level": others, "number": numbers}).groupby("level")["number"]
    means = (each.sum() + PRIOR * overall) / (each.count() + PRIOR) - overall
    return own.map(means).fillna(0.0)


def test_new_rows_have_the_means_of_all_training_rows(rows):
    frame, y = rows
    table = learnt(frame, y)
    column = table.encoding.columns[1]
    assert not {"shop" + part for part in CODE_PARTS} & {*table.names}
    new = table_from_frame(drawn(2)[0]).encoded(table.encoding)
    shop = drawn(2)[0]["shop"].where(lambda names: names.isin(column.rare))
    for label in range(3):
        expected = by_hand(shop, frame["shop"], 1.0 * (y == label))
        assert_allclose(means_of(new)[str(label)], expected, atol=1e-6)
    assert shop.isna().any()


def test_training_rows_have_the_means_of_other_folds(rows):
    """A label that changes changes means in other folds, and none in its own."""
    frame, y = rows
    column = learnt(frame, y).encoding.columns[1]
    rare = np.flatnonzero(frame["shop"].isin(column.rare))
    before, same = means_of(learnt(frame, y)), 0
    for row in rare[:20]:
        other = y.copy()
        other[row] = (y[row] + 1) % 3
        level = (frame["shop"] == frame["shop"][row]).to_numpy()
        # the overall mean changes for all rows, hardly
        moved = np.abs(means_of(learnt(frame, other)) - before).max(axis=1)
        assert moved[row] < 2.0 / N
        same += (moved[level] < 2.0 / N).sum() - 1
        assert (moved[~level] < 2.0 / N).all()
        assert ((moved[level] < 2.0 / N) | (moved[level] > 0.02)).all()
    assert 0 < same < 20 * (N / LEVELS) / FOLDS * 3


def test_order_parts_and_copies_change_nothing(rows):
    frame, y = rows
    expected, order = means_of(learnt(frame, y)), np.random.default_rng(0).permutation(N)
    assert_array_equal(means_of(learnt(frame.iloc[order], y[order])), expected.iloc[order])
    in_parts = learnt(dd.from_pandas(frame, npartitions=4), y)
    assert_array_equal(means_of(in_parts), expected)
    twice = pd.concat([frame, frame], ignore_index=True)
    found = means_of(learnt(twice, np.tile(y, 2)))
    assert_array_equal(found[:N], found[N:])  # no copy has the label of the other


def test_files_of_other_types_have_the_same_folds(rows):
    frame, y = rows
    frame = frame.assign(x=np.rint(10.0 * frame["x"]).astype(int))
    other = frame.astype({"x": "float64", "shop": "category"})
    assert_array_equal(means_of(learnt(frame, y)), means_of(learnt(other, y)))


def test_levels_whose_rows_are_alike_keep_codes(rows):
    """They are in one fold, so that no other has their labels."""
    frame, y = rows
    assert "shop: code 0" in learnt(frame[["shop"]], y).names
    group = frame["shop"].str[-1].fillna("none")
    assert "shop: code 0" in learnt(frame[["shop"]].assign(group=group), y).names


def test_names_that_collide_are_refused(rows):
    frame, y = rows
    with pytest.raises(DataError, match="once encoded, "):
        learnt(frame.rename(columns={"x": "shop: mean of 1"}), y)


@pytest.mark.parametrize("classes", [2, 3, 17])
def test_two_classes_have_one_column_and_many_keep_codes(classes):
    frame, number = drawn(0)
    names = learnt(frame, pd.qcut(number, classes, labels=False)).names
    found = [name for name in names if name.startswith("shop: mean")]
    assert len(found) == {2: 1, 3: 3, 17: 0}[classes]
    assert ("shop: code 0" in names) == (classes == 17)
    assert "shop: code 0" in table_from_frame(frame).learnt().names  # without labels


def test_targets_of_a_regression_are_standardised():
    frame, y = drawn(1)
    tables = [learnt(frame, each, is_regression=True) for each in (y, 1e6 + 1e3 * y)]
    assert_allclose(*map(means_of, tables), atol=1e-8)
    column = tables[0].encoding.columns[1]
    new = table_from_frame(frame).encoded(tables[0].encoding)
    shop = frame["shop"].where(lambda names: names.isin(column.rare))
    expected = by_hand(shop, frame["shop"], (y - y.mean()) / y.std())
    assert_allclose(means_of(new).iloc[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("far", [None, 1e9, np.nan])
def test_rows_without_weight_do_not_count(far, rows):
    """Whatever their class, or number."""
    frame, y = rows if far is None else drawn(3)
    is_regression, has_weight = far is not None, np.arange(N) < N // 2
    labels = np.where(has_weight, y, far) if is_regression else y
    table = as_table(frame, labels, 1.0 * has_weight).learnt(is_regression=is_regression)
    half = learnt(frame[has_weight], y[has_weight], is_regression=is_regression)
    assert_array_equal(means_of(table)[has_weight], means_of(half))
    assert table.encoding == half.encoding


@pytest.mark.parametrize("is_regression", [False, True])
def test_weights_count_relative_to_their_mean(rows, is_regression):
    frame, y = drawn(1) if is_regression else rows
    weights = np.random.default_rng(0).exponential(size=N)
    tables = [as_table(frame, y, each * weights) for each in (1.0, 1000.0)]
    table, other = (each.learnt(is_regression=is_regression) for each in tables)
    assert table.encoding == other.encoding
    shares = weights / weights.mean()
    numbers = (y - y.mean()) / y.std() if is_regression else 1.0 * (y == 2)
    overall, level = np.average(numbers, weights=shares), frame["shop"]
    sums = pd.DataFrame({"sum": shares * numbers, "count": shares}).groupby(level).sum()
    means = (sums["sum"] + PRIOR * overall) / (sums["count"] + PRIOR) - overall
    new = table_from_frame(frame).encoded(table.encoding)
    expected = level.where(lambda names: names.isin(table.encoding.columns[1].rare)).map(means)
    assert_allclose(means_of(new).iloc[:, -1], expected.fillna(0.0), atol=1e-6)


def test_probabilities_of_classes_have_means(rows):
    """Those of certain labels are theirs."""
    frame, y = rows
    certain = sparsegp.soft_labels(frame, np.eye(3)[y], classes=["a", "b", "c"])
    assert_array_equal(certain.X, learnt(frame, np.array(["a", "b", "c"])[y]).X)
    P = np.random.default_rng(0).dirichlet(np.ones(3), N) * 0.2 + 0.8 * np.eye(3)[y]
    table = sparsegp.soft_labels(frame, P)
    new = means_of(table_from_frame(frame).encoded(table.encoding))
    shop = frame["shop"].where(lambda names: names.isin(table.encoding.columns[1].rare))
    P = np.where(P < 0.01, 0.0, P)
    expected = by_hand(shop, frame["shop"], (P / P.sum(axis=1, keepdims=True))[:, 2])
    assert_allclose(new["2"], expected, atol=1e-6)


HOW = {"kernel": "30*laplace", "n_active": 40, "scaling": "standard", "runtime": "threads=1"}


def test_more_levels_than_active_rows_are_told_apart(rows, monkeypatch, tmp_path):
    new, number = drawn(3)
    y = np.digitize(number, [-0.8, 0.8])
    model = sparsegp.train(*rows, **HOW, out=tmp_path / "run")
    found = nlpp(model, new, y)
    assert nlpp(sparsegp.load(tmp_path / "run"), new, y) == found
    monkeypatch.setattr("sparsegp.data.means.MANY_LEVELS", 10**9)
    assert found < 0.95 * nlpp(sparsegp.train(*rows, **HOW), new, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 5])
def test_levels_that_tell_nothing_keep_codes(classes, weighted, rows):
    frame, rng = rows[0], np.random.default_rng(6)
    names = learnt(frame, rng.integers(0, classes, N)).names
    assert "shop: code 0" in names
    found = []
    for _ in range(300):
        codes, level, fold = (rng.integers(0, n, N) for n in (classes, LEVELS, FOLDS))
        values = np.eye(classes)[codes] * np.arange(1, classes + 1)
        weights = rng.exponential(size=N) if weighted else np.ones(N)
        sums = np.zeros((FOLDS, LEVELS, classes + 2))
        weight = weights[:, np.newaxis]
        np.add.at(sums, (fold, level), np.hstack([weight * values, weight, weight**2]))
        found.append(agreement_of(sums, values, weights))
    assert abs(np.mean(found)) < 0.2
    assert np.std(found) == pytest.approx(1.0, abs=0.15)


def test_an_update_with_the_old_rows_does_not_see_their_own_labels(monkeypatch):
    """With means of all rows those of a level of one row would be its label."""
    monkeypatch.setattr("sparsegp.data.means.AGREEING", -np.inf)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=N), "noise": rng.permutation(N) // 3})
    frame["noise"] = "n" + frame["noise"].astype(str)
    y = (frame["x"] + rng.normal(size=N) > 0.0).to_numpy().astype(int)
    old, new = (frame[:600], y[:600]), (frame[600:700], y[600:700])
    model = sparsegp.train(*old, **HOW)
    assert any("mean" in name for name in model.names)
    updated = sparsegp.update(model, *new, old=old, runtime="threads=1")
    rest = frame[700:], y[700:]
    assert nlpp(updated, *rest) < nlpp(model, *rest) + 0.02
    both = frame[:700], y[:700]
    again = sparsegp.update(updated, *rest, old=both, runtime="threads=1")  # rows are found again
    assert again.report["rows"] == N
    shifted = sparsegp.virtual_rows(model, old, lambda X: [X + 0.0])
    assert shifted.X.shape[1] == len(model.names)


def test_rows_of_an_id_do_not_see_its_labels():
    """Levels that are those of an id tell nothing about others, and so keep codes."""
    rng = np.random.default_rng(0)
    person, y = np.repeat(np.arange(120), 5), np.repeat(rng.integers(0, 2, 120), 5)
    place = rng.integers(0, 110, 600)
    frame = pd.DataFrame({"z": rng.normal(size=600), "shop": [f"s{i}" for i in person]})
    table = table_from_frame(frame, y)
    assert any("mean" in name for name in table.learnt(is_regression=False).names)
    of_ids = replace(table, beside={"id": person.astype(str)})
    assert not any("mean" in name for name in of_ids.learnt(is_regression=False).names)
    frame["shop"], y = [f"s{i}" for i in place], (place + person % 3) % 2
    whole = table_from_frame(frame, y)
    of_ids = replace(whole, beside={"id": person}).learnt(is_regression=False)
    spelt = replace(whole, beside={"id": np.array([f"p{7919 * i % 1009}" for i in person])})
    assert_array_equal(of_ids.X, spelt.learnt(is_regression=False).X)
    rest = (person != 3).astype(float)
    left = replace(whole, beside={"id": person}, weights=rest).learnt(is_regression=False)
    alone = replace(table_from_frame(frame[rest > 0], y[rest > 0]), beside={"id": person[rest > 0]})
    assert_array_equal(np.asarray(left.X)[rest > 0], alone.learnt(is_regression=False).X)
    means = means_of(of_ids)["1"]
    fold = folds_of(of_ids.encoding, whole.frame, "T", person)
    assert (pd.Series(fold).groupby(person).nunique() == 1).all()
    rare = np.flatnonzero(frame["shop"].isin(of_ids.encoding.columns[1].rare))
    assert len(rare) > 300
    for row in rare:
        others = y[(place == place[row]) & (fold != fold[row])]
        expected = (others.sum() + PRIOR * y.mean()) / (len(others) + PRIOR) - y.mean()
        assert means[row] == pytest.approx(expected, abs=1e-6)


def test_an_update_may_bring_a_class(rows):
    frame, y = rows
    few = y[:600] < 2
    old = frame[:600][few], y[:600][few]
    model = sparsegp.train(*old, **HOW)
    assert [name for name in model.names if "mean" in name] == ["shop: mean of 1"]
    updated = sparsegp.update(model, frame[600:], y[600:], old=old, runtime="threads=1")
    assert updated.classes.tolist() == [0, 1, 2]
    assert updated.names == model.names


@pytest.mark.parametrize(
    "change",
    [
        lambda means: means[1:],
        lambda means: [each[:2] for each in means],
        lambda means: [[np.nan, *each[1:]] for each in means],
        lambda means: [],
        lambda means: [means[0][:1], *means[1:]],
    ],
)
def test_unsound_means_are_refused(change, rows):
    columns = learnt(*rows).encoding.to_json()
    columns[1]["means"] = change([list(each) for each in columns[1]["means"]])
    with pytest.raises(DataError, match="an encoding must have"):
        Encoding.from_json(columns)


def test_classes_without_weight_have_no_means(rows):
    frame, y = rows
    labels = np.where(np.arange(N) < 30, [f"no {i}" for i in range(N)], y.astype(str))
    table = as_table(frame, labels, np.where(np.arange(N) < 30, 0.0, 1.0))
    assert [*means_of(table.learnt(is_regression=False))] == ["0", "1", "2"]


@pytest.mark.parametrize("columns", [["x"], ["x", "shop"]])
def test_a_model_encodes_new_rows_of_probable_labels(rows, columns):
    (frame, y), (new, number) = rows, drawn(2, 300)
    settings = {"kernel": "20*laplace", "n_active": 30}
    frame = frame.assign(x=frame["x"].where(frame.index % 9 > 0))[columns]
    model, new = sparsegp.train(frame, y, **settings), new[columns]
    sure = np.eye(3)[np.digitize(number, [-0.8, 0.8])]
    found = sparsegp.update(model, sparsegp.soft_labels(new, 0.1 + 0.7 * sure))
    weights = (0.1 + 0.7 * sure).ravel()
    several = new.loc[new.index.repeat(3)], np.tile([0, 1, 2], 300)
    expected = sparsegp.update(model, *several, sample_weight=weights)
    assert_allclose(found.predict_proba(frame), expected.predict_proba(frame), rtol=1e-6)
