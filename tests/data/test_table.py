"""Arrays as they come become tables, or are refused with a reason; columns go by their names."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import sparsegp
from sparsegp.data import as_table, blocks, table_from_arrays
from sparsegp.data.frames import Frame
from sparsegp.errors import DataError
from tests.processes import predicted, told, train_quickly


def test_chunks_by_rows(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 10)
    assert table_from_arrays(np.ones((12, 2))).X.chunks == ((5, 5, 2), (2,))
    assert blocks.row_blocks(12, 2, "X", multiple=4) == [4, 4, 4]
    assert blocks.row_blocks(3, 100, "X") == [1, 1, 1]


def test_dask_arrays(sample):
    X, y = sample
    chunked = da.from_array(X, chunks=(7, 2))
    table = table_from_arrays(chunked, da.from_array(y, chunks=4))
    assert table.X.chunks == ((7, 7, 7, 7, 2), (4,))
    unknown = chunked[chunked[:, 0] > 0]
    found = table_from_arrays(unknown, y[X[:, 0] > 0])
    np.testing.assert_array_equal(found.X.compute(), X[X[:, 0] > 0])
    with pytest.raises(DataError, match="labels"):
        table_from_arrays(unknown, y)


def test_labels_and_weights_of_a_table_are_those_given_with_it(sample):
    X, y = sample
    table = as_table(as_table(as_table(X, y), np.roll(y, 1), y + 1.0))
    np.testing.assert_array_equal(table.y, np.roll(y, 1))
    np.testing.assert_array_equal(table.weights, y + 1.0)
    with pytest.raises(DataError, match="and 1 labels"):
        as_table(table, y[:1])


def test_what_holds_rows(sample, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 40)
    X, y = np.where(sample[0] > 0, sample[0], 0), sample[1]
    objects, rows = X.astype(object), pd.DataFrame(X)
    for each in (
        *(kind(X) for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array)),
        *(da.from_array(each, chunks=(10, 4)) for each in (objects, X)),
        *(X.tolist(), objects, da.from_array(X, (10, 2)).map_blocks(sparse.csr_matrix)),
    ):
        table = table_from_arrays(each, y.tolist())
        assert table.X.numblocks == (3, 1)
        assert table.names is None
        np.testing.assert_array_equal(table.X.compute(), X, strict=True)
    for dtype in ("bool", "uint8", "int16", "float16", "float32", "float64"):
        kept = np.abs(X).astype(dtype)
        np.testing.assert_array_equal(table_from_arrays(kept).X.compute(), kept, strict=True)
    words = pd.Series(["a"] * 29 + ["b"], dtype="category")
    table = table_from_arrays(rows, words)
    assert table.names is None
    assert table_from_arrays(rows[[3, 1]], words).names == ("3", "1")
    np.testing.assert_array_equal(table.X.compute(), X)
    assert table.y.tolist() == words.tolist()
    masked = np.ma.masked_equal(np.array([[1, 2], [3, 4]]), 3)
    np.testing.assert_array_equal(table_from_arrays(masked).X.compute(), [[1, 2], [np.nan, 4]])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((0, 2)), None, "Z has no rows"),
        (np.ones((2, 0)), None, "Z has no columns"),
        (np.ones(3), None, r"two-dimensional, .*; Z has shape \(3,\)$"),
        ("rows.csv", None, r"shape \(\); a file is read by sparsegp.data.open_dataset"),
        (da.ones((2, 2, 2)), None, r"Z has shape \(2, 2, 2\)"),
        (np.ones((3, 2)), [1, 2], "Z has 3 rows and 2 labels"),
        (np.ones((3, 2)), np.ones((3, 3)), "labels .* one for each row"),
        (np.ones((3, 2)), np.array(["2020-01-01"] * 3, "M8[D]"), "labels .* are datetime64"),
        (np.ones((3, 2), complex), None, "Z holds complex128"),
        (np.ones((3, 2), "M8[D]"), None, "Z holds datetime64"),
        ([[1, "a"], [2, 3]], None, "Z has '1' in row 0, column 0"),
        (np.array([[1, 2], [3, "a"]], object), None, "Z has 'a' in row 1, column 1"),
        (np.array([[1, 10**400]], object), None, "Z has '10{59}' in row 0, column 1"),
        ([[1, 2], [3]], None, "Z is not a table of numbers"),
        (da.from_array(np.array([[1, {}]], object), 2), None, r"Z has '\{\}' in row 0, column 1"),
    ],
)
def test_refused(X, y, message):
    with pytest.raises(DataError, match=message):
        table_from_arrays(X, y, "Z").X.compute()


@pytest.mark.parametrize("y", [[[1, 2], [3], [4]], [["a"], "b", "c"]])
def test_labels_that_are_lists_are_refused(y):
    for labels in (y, pd.Series(y)):
        with pytest.raises(DataError, match=r"labels .* one for each row; Z has a list in row 0"):
            table_from_arrays(np.ones((3, 2)), labels, "Z").codes()


def test_tasks_carry_the_numbers_of_their_own_rows_only():
    X, n = pd.DataFrame({"a": np.arange(20_000.0)}), 1000
    frame = Frame(X[:0], [X[start : start + n] for start in range(0, len(X), n)], [n] * 20)
    taken = frame.take(np.arange(len(X))).take(np.arange(0, len(X), 2))

    def sizes_and_rows(part, where):
        rows = [int(where(row, "a").split(",")[0].removeprefix("row ")) for row in range(len(part))]
        return np.column_stack([np.full(len(part), len(pickle.dumps(where))), rows, part["a"]])

    sizes, rows, numbers = taken.rows(sizes_and_rows, 3, np.float64).compute().T
    assert sizes.max() < 8 * n
    np.testing.assert_array_equal(rows, numbers)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.standard_normal((60, 2)) + [[0.0, 3.0]] * y[:, np.newaxis] + [[0.0, 100.0]]
    return pd.DataFrame({"age": X[:, 0], "income": X[:, 1], "label": y})


def test_data_frames(frame, tmp_path):
    X, turned = frame[["age", "income"]], frame[["income", "age"]]
    model = sparsegp.train(X, frame["label"], n_active=10, out=tmp_path / "run")
    expected = model.predict_proba(X)
    for one in (model, sparsegp.load(tmp_path / "run")):
        assert one.names == ("age", "income")
        for rows in (turned, turned.assign(other=1.0), X.to_numpy()):
            np.testing.assert_array_equal(one.predict_proba(rows), expected)
        lazy = dd.from_pandas(turned, npartitions=2)
        np.testing.assert_allclose(one.predict_proba(lazy), expected, rtol=1e-12)
        for name in ("size", "age"):
            with pytest.raises(DataError, match=rf".* missing: income; found: age, {name}"):
                one.predict_proba(X.rename(columns={"income": name}))
        with pytest.raises(DataError, match="X has 2 columns 'age'"):
            one.predict_proba(pd.concat([X, X], axis=1))
    model = sparsegp.train(X.rename(columns={"age": ""}), frame["label"], n_active=10)
    assert model.names == ("unnamed 0", "income")


@pytest.mark.parametrize(
    "names",
    [
        *(range(4), [400.0, 400.5, 401.0, 401.5], [*"abc", None]),
        pd.date_range("2024-01-01", periods=4),
        pd.MultiIndex.from_product([["u", "v"], [1, 2]]),
    ],
)
def test_columns_of_any_names_come_in_any_order(names, sample):
    X, y = sample
    rows = pd.DataFrame(X, columns=names)
    model = sparsegp.train(rows, y, kernel="rbf", n_active=9)
    turned = rows.iloc[:, ::-1]
    np.testing.assert_array_equal(model.predict_proba(turned), model.predict_proba(rows))
    if not isinstance(names, range):  # such columns are known by their place
        with pytest.raises(DataError, match="column"):
            model.predict_proba(pd.DataFrame(X, columns=list("efgh")))


def assert_predicted(run, path, rows):
    """Check the first probability of each row that `predict` writes."""
    found = [float(line.split(",")[2]) for line in predicted(run, path).splitlines()[1:]]
    np.testing.assert_allclose(found, sparsegp.load(run).predict_proba(rows)[:, 0])


def test_a_header_of_numbers_is_that_of_the_training_file(tmp_path):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(60, 3)))
    rows.assign(y=rows[0] > 0).to_csv(tmp_path / "rows.csv", index=False)
    rows[[2, 0, 1]].to_csv(tmp_path / "turned.csv", index=False)
    run = train_quickly(tmp_path / "rows.csv")
    assert_predicted(run, tmp_path / "turned.csv", rows.to_numpy())


def test_numbers_are_no_header_of_numbered_columns(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (60, 2)) + 0.5
    (tmp_path / "rows.csv").write_text("1,0\n3,0.5\n0,3\n")
    run = tmp_path / "run"
    sparsegp.train(pd.DataFrame(X), X[:, 0] > X[:, 1], kernel="rbf", n_active=9, out=run)
    assert_predicted(run, tmp_path / "rows.csv", np.array([[1, 0], [3, 0.5], [0, 3]]))


def test_the_number_of_the_label_column_is_known_where_it_has_no_name(frame, tmp_path):
    path = tmp_path / "rows.csv"
    frame[["label", "age", "income"]].to_csv(path, index=False, header=False)
    run = train_quickly(path, "--label-column", 0)
    assert told("evaluate", run, path)["n_unseen"] == 0
