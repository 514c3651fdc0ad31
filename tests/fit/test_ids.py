"""Rows of the same id are held out together: validation rows, folds, and the rows of a search."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sparsegp
from sparsegp.data import as_table, open_dataset
from sparsegp.fit import Training
from sparsegp.fit.prepare import prepare
from sparsegp.fit.trial import draw_sample
from sparsegp.runtime import open_runtime
from sparsegp.settings import TrainSettings
from tests.processes import invoke, train_quickly
from tests.runs import nlpp


def readings(n_ids, each, seed=0):
    """Rows of patients whose readings are alike, and whose labels have nothing to do with them."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_ids), each)
    X = rng.normal(size=(n_ids, 4))[patient] + 0.02 * rng.normal(size=(len(patient), 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["patient"] = [f"p{number}" for number in patient]
    frame["y"] = rng.integers(0, 2, n_ids)[patient]
    return frame.sample(frac=1.0, random_state=seed, ignore_index=True)


@pytest.fixture
def table(tmp_path):
    def written(frame, **columns):
        frame.to_csv(tmp_path / "rows.csv", index=False)
        columns = {"id_column": "patient", "label_column": "y", **columns}
        return open_dataset(tmp_path / "rows.csv", **columns).train

    return written


@pytest.mark.parametrize(("n_ids", "each"), [(50, 8), (300, 8), (20, 150)])
def test_no_id_is_on_both_sides(n_ids, each, table):
    frame = readings(n_ids, each)
    ids, rows = frame["patient"].to_numpy(), table(frame)
    settings = TrainSettings.given(n_active=20, kernel="10*rbf")
    with open_runtime("threads=1") as runtime, Training(rows, settings, runtime=runtime) as run:
        data, validation, folds = run.data, run.validation, run.folds
    assert validation.any() != (len(folds) > 0)
    assert not {*ids[validation]} & {*ids[~validation]}
    for fold in np.unique(folds):
        assert not {*ids[folds == fold]} & {*ids[folds != fold]}
    sample = draw_sample(data, {"auto": data.scaling}, settings, len(ids))
    drawn = frame.set_index("a").loc[sample.X[:, 0], "patient"].to_numpy()
    for fitted, held in sample.splits(len(ids)):
        shared = {*drawn[fitted]} & {*drawn[held]}
        assert len(shared) <= (sample.parts == 1)  # the one at the boundary


def test_ids_of_many_rows_are_held_out_as_often_as_those_of_one(table):
    frame = pd.concat([readings(200, 10), readings(400, 1)], ignore_index=True)
    frame["patient"] = [*np.repeat(np.arange(200), 10), *np.arange(200, 600)]
    settings = TrainSettings.given(n_active=20, kernel="10*rbf")
    shares = []
    for seed in range(5):
        settings = replace(settings, seed=seed)
        data = prepare(table(frame), None, settings)
        sample = draw_sample(data, {"auto": data.scaling}, settings, len(frame))
        (_, held), *others = sample.splits(len(frame))
        assert not others
        number = frame.set_index("a").loc[sample.X[held, 0], "patient"].to_numpy()
        shares.append((number < 200).mean())
    assert np.mean(shares) == pytest.approx(2000 / 2400, abs=0.07)


def test_few_ids_and_those_of_single_rows_change_nothing(table):
    frame = readings(19, 10)
    assert table(frame).families is None
    assert table(frame.drop_duplicates("patient")).families is None
    assert table(readings(20, 2)).families is not None


def test_rows_that_are_left_out_keep_the_ids_of_the_others(table):
    frame = readings(40, 3)
    weights = np.arange(len(frame)) % 3 > 0
    rows = as_table(table(frame), sample_weight=1.0 * weights)
    taken = prepare(rows, None, TrainSettings()).train
    ids = frame["patient"].to_numpy()[taken.rows]
    assert len(ids) == weights.sum()
    same = ids == ids[:, np.newaxis]
    np.testing.assert_array_equal(taken.families == taken.families[:, np.newaxis], same)


def test_groups_of_an_estimator_are_such_ids(table, caplog):
    frame = readings(30, 6)
    X, y, groups = frame[list("abcd")].to_numpy(), frame["y"], frame["patient"]
    model = sparsegp.train(table(frame), n_active=30, kernel="10*rbf")
    gp = sparsegp.SparseGPClassifier(n_active=30, kernel="10*rbf")
    p = gp.fit(X, y, groups=groups).predict_proba(X)
    np.testing.assert_array_equal(p, model.predict_proba(X))
    assert not np.array_equal(p, gp.fit(X, y).predict_proba(X))
    assert not caplog.text
    gp.fit(X, y, groups=groups.str[:2].astype("category"))
    assert "X has fewer than 20 ids or groups, too few to heed" in caplog.text
    with pytest.raises(ValueError, match=r"X has 180 rows, groups \(179,\)"):
        gp.fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="every row needs a group; row 2 of X has nan"):
        gp.fit(X, y, groups=groups.where(groups.index != 2).tolist())
    assert gp.model_.id_column is None


def test_spelling_of_ids_does_not_matter(table):
    frame = readings(40, 3)
    families = table(frame).families
    frame["patient"] = frame["patient"].str[::-1] + "x"
    np.testing.assert_array_equal(table(frame).families, families)


def test_an_id_that_has_all_rows_of_a_class_does_not_join_them(table):
    frame = readings(40, 3)
    frame.loc[frame["patient"] == "p7", "y"] = 2
    data = prepare(table(frame), None, TrainSettings())
    sizes = np.unique(data.families, return_counts=True)[1]
    assert sorted(sizes.tolist()) == [1] * 3 + [3] * 39


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n_ids", "each", "of_class"), [(20, 300, 2), (200, 30, 40)])
def test_most_rows_of_each_class_are_fitted(n_ids, each, of_class, seed, table):
    """A class may have two ids; or all small ones, beside one with most rows of the other class."""
    frame = readings(n_ids, each, seed)
    frame["y"] = frame["patient"].str[1:].astype(int) // of_class
    if of_class > 2:
        frame["y"] = (frame["y"] > 0).astype(int) ^ 1
        frame.loc[frame["y"] == 0, "patient"] = "p40"
        frame.loc[frame["y"].idxmax(), "y"] = 0  # so that no class has an id of its own
    settings = TrainSettings.given(n_active=20, kernel="10*rbf", seed=seed)
    rows = table(frame)
    with open_runtime("threads=1") as runtime, Training(rows, settings, runtime=runtime) as run:
        held = np.bincount(run.data.target[run.validation], minlength=len(run.data.classes))
        assert held.any()
        assert (2 * held <= np.bincount(run.data.target)).all()


NEW = readings(200, 1, seed=1)


def nlpp_of_new(model):
    return nlpp(model, NEW[list("abcd")].to_numpy(), NEW["y"])


def test_rows_of_an_update_and_copies_have_their_ids(table):
    old, more = table(readings(30, 6)), readings(30, 6, seed=2)
    more["patient"] += " of the second clinic"
    new = table(more)
    model = sparsegp.train(old, n_active=60, kernel="10*rbf")
    copies = sparsegp.virtual_rows(model, old, lambda X: [X + 0.01])
    assert len(np.unique(copies.families)) == 30
    assert nlpp_of_new(sparsegp.train(copies, n_active=60, kernel="10*rbf")) < 0.8
    assert nlpp_of_new(sparsegp.update(model, new, old=old)) < 0.8
    bare = table(more.drop(columns="patient"), id_column=None)
    assert nlpp_of_new(sparsegp.update(model, bare, old=old)) < 0.9


def test_probabilities_are_for_new_ids(table):
    """Labels of known patients say nothing of new ones, who are half of each class."""
    frame, found = readings(60, 8), {}
    for together, columns in {True: {}, False: {"id_column": None, "drop": ["patient"]}}.items():
        model = sparsegp.train(table(frame, **columns), n_active=100)
        found[together] = nlpp_of_new(model)
    assert found[True] < 0.75
    assert found[False] > 0.9


def test_files_without_the_ids_of_the_training_rows(tmp_path):
    """Rows are held out one by one then, which a warning says."""
    frame = pd.DataFrame({"x": np.arange(90) % 7, "who": np.arange(90) // 3, "y": [*"aab"] * 30})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.drop(columns="who").to_csv(tmp_path / "b.csv", index=False)
    run = train_quickly(tmp_path / "a.csv", "--id-column", "who")
    for old, is_told in (("a", False), ("b", True)):
        out = ("--old", tmp_path / f"{old}.csv", "--out", tmp_path / old)
        said = invoke("update", run, tmp_path / "a.csv", *out).stderr
        assert ("b.csv has no column 'who' of ids: each of its rows" in said) == is_told
