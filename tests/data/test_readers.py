"""One contract for every reader: the same rows and labels come back, lazily where promised."""

import pickle
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from sparsegp.data import blocks as blocks_module
from sparsegp.data import open_dataset
from sparsegp.data.readers import COLUMNAR, FORMATS
from sparsegp.errors import DataError
from tests.data import files

pytest.importorskip("pyarrow")


@dataclass(frozen=True)
class Case:
    """How to write a format, and what it can keep: strings as labels, doubles, rows on disk."""

    name: str
    write: Any
    strings: bool = True
    doubles: bool = True
    lazy: bool = False

    @property
    def columnar(self) -> bool:
        return any(ending in self.name for ending in COLUMNAR)


CASES = [
    Case("a.npz", files.write_npz),
    Case("X.npy", files.write_npy, lazy=True),
    Case("foo_X.npy", files.write_npy, lazy=True),
    Case("a.csv", files.write_text(",")),
    Case("a.csv.gz", files.write_text(";")),
    Case("a.data.gz", files.write_text(", ")),
    Case("a.txt", files.write_text("   ")),
    Case("a.tsv", files.write_text("\t")),
    Case("a.svm", files.write_svmlight, strings=False),
    Case("a.svmlight.gz", files.write_svmlight, strings=False),
    Case("a.libsvm", files.write_svmlight, strings=False),
    Case("a-images-idx3-ubyte", files.write_idx, strings=False, doubles=False, lazy=True),
    Case("a-images.idx3-ubyte", files.write_idx, strings=False, doubles=False, lazy=True),
    Case("a-images-idx3-ubyte.gz", files.write_idx, strings=False, doubles=False),
    Case("a.zarr", files.write_zarr, strings=False, lazy=True),
    Case("a.parquet", files.write_parquet, lazy=True),
]


def only(cases: list[Case]) -> Any:
    """Run a test for these cases in place of all."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name, indirect=True)


def test_every_reader_has_a_case():
    assert {ending for ending in FORMATS for case in CASES if ending in case.name} == set(FORMATS)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def rows(case, sample):
    X, y = sample
    return (X if case.doubles else np.abs(X).astype(np.uint8)), y


@pytest.fixture
def path(case, rows, tmp_path):
    """The path of a file of 30 rows."""
    case.write(f"{tmp_path}/{case.name}", *rows)
    return tmp_path / case.name


@pytest.mark.parametrize("kind", ["doubles of all sizes", "float32", "int64", "bytes"])
def test_same_rows_and_labels_come_back_to_the_last_bit(case, kind, tmp_path):
    rng = np.random.default_rng(1)
    X, y = (
        rng.standard_normal((30, 4)) * 10.0 ** rng.integers(-300, 300, (30, 4)),
        np.arange(30) % 3,
    )
    if kind == "bytes" or not case.doubles:
        X = rng.integers(0, 256, (30, 4)).astype(np.uint8)
    elif kind != "doubles of all sizes":
        X = np.clip(X, -99, 99).astype(kind)
    case.write(f"{tmp_path}/{case.name}", X, y)
    table = open_dataset(tmp_path / case.name).train
    assert case.name in table.source
    assert table.X.shape == X.shape
    assert table.X.numblocks[1] == 1
    assert table.kinds == ("number",) * 4
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)
    assert np.asarray(table.y.tolist()).dtype.kind == "i"


def test_the_same_by_a_url(case, rows):
    url = f"memory://{uuid4().hex}/{case.name}"
    case.write(url, *rows)
    table = open_dataset(url).train
    np.testing.assert_array_equal(table.X.compute(), rows[0])
    np.testing.assert_array_equal(table.y, rows[1])


@only([case for case in CASES if case.strings])
def test_strings_as_labels(case, rows, tmp_path):
    X, y = rows
    names = np.array(["iris setosa" if ".txt" not in case.name else "iris-setosa", "b", "ç"])[y]
    case.write(f"{tmp_path}/{case.name}", X, names)
    np.testing.assert_array_equal(open_dataset(tmp_path / case.name).train.y, names)


@only([case for case in CASES if case.lazy])
def test_rows_stay_on_disk_until_needed(case, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 40)
    X, y = rows
    X = np.tile(X, (20, 1))
    case.write(f"{tmp_path}/{case.name}", X, np.tile(y, 20))
    table = open_dataset(tmp_path / case.name).train
    assert table.X.numblocks[0] > 5
    graph = pickle.dumps(dict(table.X.__dask_graph__()))
    assert len(graph) < 1000 * table.X.numblocks[0]
    assert X[:4].astype(table.X.dtype).tobytes() not in graph
    np.testing.assert_array_equal(table.X.compute(), X)
    (tmp_path / case.name).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=case.name):
        table.X.compute()


def test_damaged_files_are_named_in_one_line(case, path):
    if path.is_dir():
        (path / "zarr.json").write_text("{")
    elif case.write is files.write_svmlight or case.columnar:
        path.write_bytes(path.read_bytes()[:-1] + b"\xff\xfe\x00\x00")
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.raises(DataError, match=case.name) as caught:
        open_dataset(path)
    assert str(caught.value).isprintable()


def test_rows_without_labels_for_a_model(case, rows, path):
    assert open_dataset(path, n_features=4).train.y is not None
    with pytest.raises(DataError, match=r"columns|n_features"):
        open_dataset(path, n_features=9 if case.write is not files.write_svmlight else 2)
    if case.columnar:
        table = open_dataset(path, n_features=5).train
        assert table.y is None
        np.testing.assert_array_equal(table.X.compute(), np.column_stack(rows))


def test_label_column_only_where_there_are_columns(case, rows, path):
    if case.columnar:
        found = open_dataset(path, label_column=-5).train
        np.testing.assert_array_equal(found.y, rows[0][:, 0])
    else:
        with pytest.raises(DataError, match="label column 0"):
            open_dataset(path, label_column=0)


@pytest.mark.parametrize("name", ["a.npz", "X_train.npy", "a.zarr"])
def test_arrays_of_training_and_test_rows(name, sample, tmp_path):
    X, y = sample
    arrays = {"X_train": X, "y_train": y, "X_test": X[:5], "y_test": y[:5, None]}
    files.write_arrays(tmp_path / name, arrays)
    dataset = open_dataset(tmp_path / name)
    np.testing.assert_array_equal(dataset.train.y, y)
    np.testing.assert_array_equal(dataset.test.X.compute(), X[:5])
    np.testing.assert_array_equal(dataset.test.y, y[:5])


def test_images_of_training_and_test_rows(tmp_path):
    rng = np.random.default_rng(0)
    for part, n in {"train": 9, "t10k": 4}.items():
        X, y = rng.integers(0, 256, (n, 2, 3)), rng.integers(0, 10, n)
        files.put(tmp_path / f"{part}-images-idx3-ubyte.gz", files.idx_bytes(X))
        files.put(tmp_path / f"{part}-labels-idx1-ubyte", files.idx_bytes(y))
    images = tmp_path / "train-images-idx3-ubyte.gz"
    dataset = open_dataset(images)
    assert (dataset.train.X.shape, dataset.train.X.dtype) == ((9, 6), np.uint8)
    assert (dataset.test.X.shape, dataset.test.y.shape) == ((4, 6), (4,))
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert open_dataset(images).test is None
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    assert open_dataset(images).train.y is None


def test_layouts_of_arrays(tmp_path, sample):
    X, y = sample
    np.save(tmp_path / "in.npy", np.asfortranarray(X))
    np.save(tmp_path / "out.npy", y.astype(">i2"))
    table = open_dataset(f"{tmp_path}/in.npy, {tmp_path}/out.npy").train
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)
    assert open_dataset(tmp_path / "in.npy").train.y is None
    np.save(tmp_path / "X.npy", X.astype(">f8"))
    np.testing.assert_array_equal(open_dataset(tmp_path / "X.npy").train.X.compute(), X)


def test_zarr_of_either_format_and_in_shards(tmp_path, sample):
    X, y = sample
    files.write_zarr(f"{tmp_path}/two.zarr", X, y, zarr_format=2)
    shards = files.zarr.open_group(tmp_path / "shards.zarr", mode="w")
    shards.create_array("X", data=X, chunks=(3, 4), shards=(9, 4))
    lacks = files.zarr.open_group(tmp_path / "lacks.zarr", mode="w")
    lacks.create_array("X", shape=(11, 4), chunks=(2, 3), dtype="f4")
    for name in ("two.zarr", "shards.zarr"):
        np.testing.assert_array_equal(open_dataset(tmp_path / name).train.X.compute(), X)
    assert not open_dataset(tmp_path / "lacks.zarr").train.X.compute().any()


def test_sparse_columns_follow_the_model(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:2 3:4\n-1 2:1\n")
    table = open_dataset(tmp_path / "a.svm", n_features=5).train
    assert table.X.compute().tolist() == [[2, 0, 4, 0, 0], [0, 1, 0, 0, 0]]
    assert table.y.tolist() == [1, -1]


def test_parquet_of_mixed_columns(tmp_path):
    import pyarrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    columns = {"kind": ["a", "b"], "u": [1, None], "v": [True, False]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = open_dataset(tmp_path / "a.parquet", label_column="kind").train
    assert table.names == ("u", "v")
    assert table.y.tolist() == ["a", "b"]
    np.testing.assert_array_equal(table.X.compute(), [[1, 1], [np.nan, 0]])


TEXTS = {
    'width,"kind",height\n1,a,2\n3,b,4\n': ("kind", [[1, 2], [3, 4]], ["a", "b"]),
    "1,a,2\n3,b,4\n": (1, [[1, 2], [3, 4]], ["a", "b"]),
    "5,a,2\n3,b,4\n": ("-2", [[5, 2], [3, 4]], ["a", "b"]),
    "1,2,yes\n3,4,no\n": (None, [[1, 2], [3, 4]], ["yes", "no"]),
    "0,1,kind\n5,6,7\n8,9,7\n": ("kind", [[5, 6], [8, 9]], [7, 7]),
    "0.5, 1.\n1.5, 12.\n": (None, [[0.5], [1.5]], [1, 12]),
    "\ufeff\r\na,b,y\r\n\r\n1,2,0\r\n  \n3,4,1\r\n\r\n": (None, [[1, 2], [3, 4]], [0, 1]),
    "1,#a\n2,b\n": (None, [[1], [2]], ["#a", "b"]),
    "1,2,a;b\n3,4,c\n": (None, [[1, 2], [3, 4]], ["a;b", "c"]),
    '"1.5" ,"2","a, b"\n3,4,NA\n': (None, [[1.5, 2], [3, 4]], ["a, b", "NA"]),
    " 1  2 a\n3\t4 b  ": (None, [[1, 2], [3, 4]], ["a", "b"]),
    "inf,1e400,0\n-inf,+1e-400,1\n": (None, [[np.inf, np.inf], [-np.inf, 0]], [0, 1]),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text, tmp_path):
    column, X, y = TEXTS[text]
    (tmp_path / "a.csv").write_bytes(text.encode())
    table = open_dataset(tmp_path / "a.csv", label_column=column).train
    assert table.X.compute().tolist() == X
    assert table.y.tolist() == y
