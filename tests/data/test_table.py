"""Arrays as they come become tables, or are refused with a reason."""

import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from sparsegp.data import blocks, table_from_arrays
from sparsegp.errors import DataError


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "float64"])
def test_numpy_keeps_its_type(dtype):
    X = np.arange(6).reshape(3, 2).astype(dtype)
    table = table_from_arrays(X, [0, 1, 0])
    assert table.X.dtype == dtype
    assert table.X.chunks[1] == (2,)
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, [0, 1, 0])


def test_chunks_by_rows(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 10)
    assert table_from_arrays(np.ones((12, 2))).X.chunks == ((5, 5, 2), (2,))
    assert blocks.row_blocks(12, 2, "X", multiple=4) == [4, 4, 4]
    assert blocks.row_blocks(3, 100, "X") == [1, 1, 1]


def test_dask_arrays(sample):
    X, y = sample
    chunked = da.from_array(X, chunks=(7, 2))
    assert table_from_arrays(chunked, da.from_array(y, chunks=4)).X.chunks == (
        (7, 7, 7, 7, 2),
        (4,),
    )
    unknown = chunked[chunked[:, 0] > 0]
    found = table_from_arrays(unknown, y[X[:, 0] > 0])
    np.testing.assert_array_equal(found.X.compute(), X[X[:, 0] > 0])
    with pytest.raises(DataError, match="labels"):
        table_from_arrays(unknown, y)


def test_data_frames_lists_and_objects(sample):
    pandas = pytest.importorskip("pandas")
    X, y = sample
    frame = pandas.DataFrame(X)
    names = pandas.Series(["a"] * 29 + ["b"], dtype="category")
    table = table_from_arrays(frame, names)
    np.testing.assert_array_equal(table.X.compute(), X)
    assert table.y.tolist() == names.tolist()
    assert table.names is None  # numbers
    assert table_from_arrays(frame.rename(columns=str)).names == ("0", "1", "2", "3")
    np.testing.assert_array_equal(table_from_arrays(X.tolist(), y.tolist()).X.compute(), X)
    objects = table_from_arrays(X.astype(object), y)
    assert objects.X.dtype == np.float64
    lazy = table_from_arrays(da.from_array(X.astype(object), chunks=(9, 4)), y)
    np.testing.assert_array_equal(lazy.X.compute(), X)


def test_sparse_matrices_are_made_dense_by_chunks(sample, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 40)
    X = np.where(sample[0] > 0, sample[0], 0)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        table = table_from_arrays(kind(X), sample[1])
        assert table.X.numblocks == (3, 1)
        np.testing.assert_array_equal(table.X.compute(), X)


def test_masked_values_become_nan():
    X = np.ma.masked_equal(np.array([[1, 2], [3, 4]]), 3)
    np.testing.assert_array_equal(table_from_arrays(X).X.compute(), [[1, 2], [np.nan, 4]])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((0, 2)), None, "Z has no rows"),
        (np.ones((2, 0)), None, "Z has no columns"),
        (np.ones(3), None, r"two-dimensional, .*; Z has shape \(3,\)"),
        (da.ones((2, 2, 2)), None, r"Z has shape \(2, 2, 2\)"),
        (np.ones((3, 2)), [1, 2], "Z has 3 rows and 2 labels"),
        (np.ones((3, 2)), np.ones((3, 3)), "labels .* one for each row"),
        (np.ones((3, 2)), np.array(["2020-01-01"] * 3, "M8[D]"), "labels .* are datetime64"),
        (np.ones((3, 2), complex), None, "Z holds complex128"),
        (np.ones((3, 2), "M8[D]"), None, "Z holds datetime64"),
        ([[1, "a"], [2, 3]], None, "Z has '1' in row 0, column 0"),
        (np.array([[1, 2], [3, "a"]], object), None, "Z has 'a' in row 1, column 1"),
        ([[1, 2], [3]], None, "Z is no table of numbers"),
    ],
)
def test_refused(X, y, message):
    with pytest.raises(DataError, match=message):
        table_from_arrays(X, y, "Z")


def test_objects_in_a_chunk_are_placed():
    X = table_from_arrays(
        da.from_array(np.array([[1, 2], [3, {}]], object), chunks=2), source="Z"
    ).X
    with pytest.raises(DataError, match=r"Z has '\{\}' in row 1, column 1"):
        X.compute()


def test_import_is_light():
    heavy = "{'dask', 'pandas', 'sklearn', 'zarr', 'pyarrow', 'scipy'}"
    code = f"import sys, sparsegp.data; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
