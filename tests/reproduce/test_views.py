"""Tasks made of other data, and pipelines of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp
from sparsegp.data import Dataset, table_from_arrays
from sparsegp.errors import DataError, SettingsError
from sparsegp.kernels import parse
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.kinds.train import relevant_columns
from sparsegp.reproduce.views import VIEWS, residuals


def dataset(numbers: bool = False) -> Dataset:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = (
        X @ [1.0, -2.0, 0.5] + 3.0 + X[:, 0] ** 2
        if numbers
        else np.array(["b", "c", "a"])[np.arange(60) % 3]
    )
    return Dataset(table_from_arrays(X[:45], y[:45], "t"), table_from_arrays(X[45:], y[45:], "u"))


def test_one_class_against_the_rest() -> None:
    whole = dataset()
    for seed, name in enumerate(["a", "b", "c"]):
        task = VIEWS["against-rest"](whole, seed)
        assert task.test is not None
        assert whole.test is not None
        np.testing.assert_array_equal(task.train.y == 1, np.asarray(whole.train.y) == name)
        np.testing.assert_array_equal(task.test.y == 1, np.asarray(whole.test.y) == name)
        assert f"{name} against the rest" in task.train.source
    with pytest.raises(DataError, match="must be the number of a class of t, from 0 to 2"):
        VIEWS["against-rest"](whole, 3)


def test_a_class_that_is_named_is_told_from_the_rest_whatever_the_seed() -> None:
    whole = dataset()
    for seed in (0, 7):
        task = VIEWS["against-rest"](whole, seed, class_number=1)
        np.testing.assert_array_equal(task.train.y == 1, np.asarray(whole.train.y) == "b")
    for number in (-1, 3):
        with pytest.raises(DataError, match=f"class_number {number} must be the number of a cl"):
            VIEWS["against-rest"](whole, 0, class_number=number)


def test_folds_deal_every_row_once() -> None:
    whole = dataset()
    every = np.asarray(whole.train.X)
    tested, sizes = [], []
    for seed in range(4):
        task = VIEWS["fold"](whole, seed, folds=4)
        assert task.test is not None
        train, test = np.asarray(task.train.X), np.asarray(task.test.X)
        for x, y in zip(test, np.asarray(task.test.y), strict=True):
            assert np.asarray(whole.train.y)[(every == x).all(axis=1)] == [y]
        np.testing.assert_array_equal(
            np.sort(np.concatenate([train, test]), axis=0), np.sort(every, axis=0)
        )
        tested.append(test)
        sizes.append(len(test))
    np.testing.assert_array_equal(np.sort(np.concatenate(tested), axis=0), np.sort(every, axis=0))
    assert sorted(sizes) == [11, 11, 11, 12]
    for seed, folds, message in (
        (4, 4, "data seed 4 must be the number of a fold, from 0 to 3"),
        (0, 1, "folds must be from 2 to 45 for t, got 1"),
        (0, 46, "folds must be from 2 to 45 for t, got 46"),
    ):
        with pytest.raises(DataError, match=message):
            VIEWS["fold"](whole, seed, folds=folds)


def test_groups_of_labels_and_so_many_training_rows_of_each() -> None:
    whole = dataset()
    every, labels = np.asarray(whole.train.X), np.asarray(whole.train.y)
    drawn = []
    for seed in (0, 1):
        task = VIEWS["grouped"](whole, seed, 4, (("a", "c"), ("b",)), (("b",), ("a",), ("c",)))
        assert task.test is not None
        train = np.asarray(task.train.X)
        rows = [int(np.flatnonzero((every == x[:3]).all(axis=1))[0]) for x in train]
        assert np.unique(labels[rows], return_counts=True)[1].tolist() == [4, 4, 4]
        np.testing.assert_array_equal(np.asarray(task.train.y), labels[rows] == "b")
        column = [{"b": 0, "a": 1, "c": 2}[label] for label in labels[rows].tolist()]
        np.testing.assert_array_equal(train[:, 3], column)
        assert task.test.X.shape == (33, 4)
        rest = np.delete(every, rows, axis=0)
        np.testing.assert_array_equal(np.asarray(task.test.X)[:, :3], rest)
        drawn.append(rows)
    assert drawn[0] != drawn[1]
    plain = VIEWS["grouped"](whole, 0, 4, (("a", "c"), ("b",)))
    assert plain.train.X.shape == (12, 3)
    for rows, classes, message in (
        (15, (("a", "c"), ("b",)), "train_rows must be from 1 to 14 for t, got 15"),
        (4, (("a", "c"),), "classes must name each label of t once"),
        (4, (("a", "c"), ("b", "a")), "classes must name each label of t once"),
        (4, (("a", "c"), ("b", "d")), "classes must name each label of t once"),
    ):
        with pytest.raises(DataError, match=message):
            VIEWS["grouped"](whole, 0, rows, classes)


def test_views_of_a_pipeline_are_read(tmp_path: Path) -> None:
    path = tmp_path / "iris.toml"
    text = """
title = "Iris"
seeds = [1]
[data.fold]
view = "fold"
folds = 5
name = "iris"
[data.grouped]
view = "grouped"
train_rows = 10
classes = [[0], [1, 2]]
name = "iris"
[train]
method = "laplace"
[[variants]]
name = "fold"
data = "fold"
[[variants]]
name = "grouped"
data = "grouped"
"""
    path.write_text(text)
    fold, grouped = read_pipeline(path).cells
    assert fold.source.load(None, 1).train.X.shape == (120, 4)
    told = grouped.source.load(None, 1)
    assert np.unique(np.asarray(told.train.y), return_counts=True)[1].tolist() == [10, 20]
    assert json.loads(json.dumps(grouped.source.to_json(1)))["classes"] == [[0], [1, 2]]
    for old, new, message in (
        ("folds = 5\n", "", "data.fold.folds is missing"),
        ("train_rows = 10", "folds = 10", "data.grouped.train_rows is missing"),
        ("[[0], [1, 2]]", "[0]", "classes.0. must be a list"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(SettingsError, match=message):
            read_pipeline(path)


def test_a_split_deals_every_row_once_and_by_its_seed() -> None:
    whole = dataset()
    every = np.concatenate([np.asarray(whole.train.X), np.asarray(whole.test.X)])  # type: ignore[union-attr]
    parts = {}
    for seed in (0, 1):
        task = VIEWS["split"](whole, seed, test_rows=20)
        assert task.test is not None
        dealt = np.concatenate([np.asarray(task.train.X), np.asarray(task.test.X)])
        assert len(np.asarray(task.test.X)) == 20
        np.testing.assert_array_equal(np.sort(dealt[:, 0]), np.sort(every[:, 0]))
        again = VIEWS["split"](whole, seed, test_rows=20)
        np.testing.assert_array_equal(np.asarray(again.train.X), np.asarray(task.train.X))
        parts[seed] = dealt
    assert not np.array_equal(parts[0], parts[1])
    with pytest.raises(DataError, match="test_rows must be from 1 to 59 for t, got 60"):
        VIEWS["split"](whole, 0, test_rows=60)


def test_a_split_may_keep_some_labels_alone() -> None:
    whole = dataset()
    every, some = (VIEWS["split"](whole, 3, test_rows=20, labels=kept) for kept in ((), ("a", "c")))
    for one, other in ((every.train, some.train), (every.test, some.test)):
        assert one is not None
        assert other is not None
        rows = np.isin(np.asarray(one.y), ["a", "c"])
        np.testing.assert_array_equal(np.asarray(one.X)[rows], np.asarray(other.X))
        np.testing.assert_array_equal(np.asarray(one.y)[rows], np.asarray(other.y))
    with pytest.raises(DataError, match=r"labels must be those of rows of t, got \['d'\]"):
        VIEWS["split"](whole, 3, test_rows=20, labels=("a", "d"))


def test_a_split_may_smooth_images() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 25)), np.arange(12) % 2
    whole = Dataset(table_from_arrays(X, y, "t"), None)
    plain, some = (VIEWS["split"](whole, 0, test_rows=4, smooth=width) for width in (0.0, 0.7))
    # the definition: a product of two rows of weights, cut off at four widths, on padded images
    weight = np.exp(-0.5 * (np.arange(-3, 4) / 0.7) ** 2)
    weight /= weight.sum()
    images = np.pad(np.asarray(plain.train.X).reshape(8, 5, 5), ((0, 0), (3, 3), (3, 3)), "edge")
    windows = np.lib.stride_tricks.sliding_window_view(images, (7, 7), axis=(1, 2))
    expected = np.einsum("nabij,i,j->nab", windows, weight, weight).reshape(8, 25)
    np.testing.assert_allclose(np.asarray(some.train.X), expected, atol=1e-12)
    with pytest.raises(DataError, match="columns of t must be square images, got 3 columns"):
        VIEWS["split"](dataset(), 0, test_rows=20, smooth=1.0)


def test_residuals_are_what_no_linear_function_tells() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    left = residuals(X, 5.0 + X @ [1.0, 2.0, 3.0, 4.0] + X[:, 0] ** 2)
    np.testing.assert_allclose(left.std(), 1.0)
    np.testing.assert_allclose(X.T @ left, 0.0, atol=1e-9)
    np.testing.assert_allclose(left.sum(), 0.0, atol=1e-9)
    task = VIEWS["split"](dataset(numbers=True), 0, test_rows=10, detrend=True)
    assert task.test is not None
    labels = np.concatenate([np.asarray(task.train.y), np.asarray(task.test.y)])
    np.testing.assert_allclose([labels.mean(), labels.std()], [0.0, 1.0], atol=1e-9)


def test_relevant_columns_are_those_with_short_length_scales() -> None:
    assert relevant_columns(parse("2*ard(1, 50, 9.9, 10.1)")) == [0, 2]
    assert relevant_columns(parse("2*rbf(1)")) == []


PIPELINE = """
title = "three"
seeds = [0, 2]
[data]
view = "{view}"
{more}
origin = "here"
[[data.files]]
train = "three.npz"
[train]
{settings}
n_active = 20
report_every = 10
[[variants]]
name = "one"
[report]
what = [{what}]
"""

CASES: dict[str, dict[str, Any]] = {
    "against-rest": {
        "more": "",
        "settings": 'likelihood = "probit"\nlearn = "evidence"\nmajor_steps = 1\nminor_steps = 2',
        "what": '"test log likelihood", "test log likelihood, uncalibrated", "test error %"',
    },
    "split": {
        "more": "test_rows = 15\ndetrend = true",
        "settings": 'likelihood = "gaussian"\nkernel = "ard"',
        "what": '"test MSE", "test log likelihood", "relevant columns"',
    },
}


@pytest.mark.parametrize("view", CASES)
def test_a_pipeline_of_tasks(view: str, tmp_path: Path) -> None:
    whole = dataset(numbers=view == "split")
    assert whole.test is not None
    labels = {
        f"y_{part}": table.y if view == "split" else np.searchsorted(["a", "b", "c"], table.y)
        for part, table in (("train", whole.train), ("test", whole.test))
    }
    inputs = {"X_train": np.asarray(whole.train.X), "X_test": np.asarray(whole.test.X)}
    np.savez(tmp_path / "three.npz", **inputs, **labels)
    path = tmp_path / "three.toml"
    path.write_text(PIPELINE.format(view=view, **CASES[view]))
    outcome = reproduce(path, data=tmp_path, out=tmp_path / "out")
    assert len(outcome.run) == 2
    cells = [json.loads((tmp_path / f"out/cells/one-{s}.json").read_text()) for s in (0, 2)]
    assert [cell["data"]["seed"] for cell in cells] == [0, 2]
    results = [cell["result"] for cell in cells]
    text = "\n".join(outcome.lines())
    if view == "split":
        assert [result["n_test"] for result in results] == [15, 15]
        assert "test MSE" in text
        assert all(result["model"]["mse"] < 1.5 for result in results)
    else:
        assert all(len(result["learning"]) == 1 for result in results)
        assert "test log likelihood, uncalibrated" in text
    assert results[0]["model"] != results[1]["model"]


def test_seeds_repeat_the_task_of_a_class_that_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(240, 3)), np.arange(240) % 3
    X[:, 0] += 1.5 * (y == 1)
    np.savez(
        tmp_path / "three.npz", X_train=X[:160], y_train=y[:160], X_test=X[160:], y_test=y[160:]
    )
    path = tmp_path / "three.toml"
    case = {
        "more": "class_number = 1",
        "settings": 'likelihood = "probit"\nstub_entries = 1500\nshrink_every = 5',
        "what": '"test error %"',
    }
    path.write_text(PIPELINE.format(view="against-rest", **case))
    cells = read_pipeline(path).cells
    assert [cell.data_seed for cell in cells] == [None, None]
    outcome = reproduce(path, data=tmp_path, out=tmp_path / "out", cells="one-2")
    assert list(outcome.run) == ["one-2"]
    outcome = reproduce(path, data=tmp_path, out=tmp_path / "out")
    assert list(outcome.run) == ["one-0"]  # the other cell is there already
    (row,) = outcome.rows
    wrong = []
    for seed in (0, 2):
        model = sparsegp.train(
            X[:160],
            (y[:160] == 1).astype(int),
            likelihood="probit",
            stub_entries=1500,
            shrink_every=5,
            n_active=20,
            report_every=10,
            seed=seed,
        )
        wrong.append(100.0 * np.mean((model.predict(X[160:]) == 1) != (y[160:] == 1)))
    assert row.values == pytest.approx(wrong)


def test_a_class_that_is_named_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "three.toml"
    case = {**CASES["against-rest"], "more": 'class_number = "b"'}
    path.write_text(PIPELINE.format(view="against-rest", **case))
    with pytest.raises(SettingsError, match=r"data\.class_number must be a whole number, got 'b'"):
        read_pipeline(path)
    case = {**CASES["split"], "more": "test_rows = 15\nclass_number = 1"}
    path.write_text(PIPELINE.format(view="split", **case))
    with pytest.raises(SettingsError, match=r"data\.class_number is not known"):
        read_pipeline(path)


def test_an_unknown_view_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "three.toml"
    path.write_text(PIPELINE.format(view="side", **CASES["split"]))
    with pytest.raises(SettingsError, match=r"data.view is 'side'; known: against-rest, fold"):
        read_pipeline(path)
