"""One contract for every reader: the same rows and labels come back, lazily where promised."""

import gzip
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import zarr

from sparsegp.data import blocks as blocks_module
from sparsegp.data import open_dataset
from sparsegp.data.readers import READERS
from sparsegp.errors import DataError
from tests.data.files import idx_bytes


def write_npz(folder, name, X, y):
    np.savez_compressed(folder / name, X=X, y=y)


def write_npy(folder, name, X, y):
    np.save(folder / name, X)
    np.save(folder / name.replace("X", "y"), y)


def write_text(delimiter):
    def write(folder, name, X, y):
        lines = [
            delimiter.join([*map(repr, row), str(label)])
            for row, label in zip(X.tolist(), y.tolist(), strict=True)
        ]
        content = ("\n".join(lines) + "\n").encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    return write


def write_svmlight(folder, name, X, y):
    lines = [
        " ".join([str(label), *(f"{j + 1}:{value!r}" for j, value in enumerate(row) if value)])
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    (folder / name).write_text("\n".join(lines) + "\n")


def write_idx(folder, name, X, y):
    pack = gzip.compress if name.endswith(".gz") else bytes
    (folder / name).write_bytes(pack(idx_bytes(X.reshape(len(X), 2, -1))))
    labels = name.replace("images", "labels").replace("idx3", "idx1")
    (folder / labels).write_bytes(pack(idx_bytes(y)))


def write_zarr(folder, name, X, y):
    group = zarr.open_group(str(folder / name), mode="w")
    for member, array in {"X": X, "y": y}.items():
        chunks = (7, *array.shape[1:])
        group.create_array(member, shape=array.shape, dtype=array.dtype, chunks=chunks)[:] = array


def write_parquet(folder, name, X, y):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    parquet.write_table(pyarrow.table(columns), folder / name, row_group_size=8)


@dataclass(frozen=True)
class Case:
    """How to write a format, and what it can keep: strings as labels, doubles, rows on disk."""

    name: str
    write: object
    strings: bool = True
    doubles: bool = True
    lazy: bool = False


CASES = {
    ".npz": [Case("a.npz", write_npz)],
    ".npy": [Case("X.npy", write_npy, lazy=True), Case("foo_X.npy", write_npy, lazy=True)],
    ".csv": [Case("a.csv", write_text(",")), Case("a.csv.gz", write_text(";"))],
    ".data": [Case("a.data", write_text(", ")), Case("a.data.gz", write_text(", "))],
    ".txt": [Case("a.txt", write_text(" ")), Case("a.txt.gz", write_text("   "))],
    ".tsv": [Case("a.tsv", write_text("\t"))],
    ".svm": [Case("a.svm", write_svmlight, strings=False)],
    ".svmlight": [Case("a.svmlight", write_svmlight, strings=False)],
    ".libsvm": [Case("a.libsvm", write_svmlight, strings=False)],
    "idx3-ubyte": [
        Case("a-images-idx3-ubyte", write_idx, strings=False, doubles=False, lazy=True),
        Case("a-images.idx3-ubyte", write_idx, strings=False, doubles=False, lazy=True),
        Case("a-images-idx3-ubyte.gz", write_idx, strings=False, doubles=False),
    ],
    "idx1-ubyte": [],  # the labels beside the images
    ".zarr": [Case("a.zarr", write_zarr, strings=False, lazy=True)],
    ".parquet": [Case("a.parquet", write_parquet, lazy=True)],
}
EVERY = [case for cases in CASES.values() for case in cases]


def only(cases):
    """Run a test for these cases in place of all."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name, indirect=True)


def reader_of(case):
    return READERS[next(ending for ending in CASES if ending in case.name)]


def test_every_reader_has_a_case():
    assert set(CASES) == set(READERS)


@pytest.fixture(params=EVERY, ids=lambda case: case.name)
def case(request):
    if request.param.name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    return request.param


@pytest.fixture
def rows(case, sample):
    X, y = sample
    return (X if case.doubles else np.abs(X).astype(np.uint8)), y


def test_same_rows_and_labels_come_back(case, rows, tmp_path):
    X, y = rows
    case.write(tmp_path, case.name, X, y)
    table = open_dataset(tmp_path / case.name).train
    assert case.name in table.source
    assert table.X.shape == X.shape
    assert table.X.numblocks[1] == 1
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)
    assert np.asarray(table.y.tolist()).dtype.kind == "i"


def test_float32_and_integer_inputs(case, rows, tmp_path):
    X, y = rows
    for dtype in ("float32", "int64") if case.doubles else ("uint8",):
        case.write(tmp_path, case.name, X.astype(dtype), y)
        found = open_dataset(tmp_path / case.name).train.X.compute()
        np.testing.assert_array_equal(found, X.astype(dtype))


@only([case for case in EVERY if case.strings])
def test_strings_as_labels(case, rows, tmp_path):
    X, y = rows
    names = np.array(["iris setosa" if " " not in case.name else "a", "b", "c"])[y]
    if case.name.startswith("a.txt"):
        names = np.char.replace(names, " ", "-")
    case.write(tmp_path, case.name, X, names)
    np.testing.assert_array_equal(open_dataset(tmp_path / case.name).train.y, names)


@only([case for case in EVERY if case.lazy])
def test_rows_stay_on_disk_until_needed(case, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 40)
    X, y = rows
    X = np.tile(X, (20, 1))
    case.write(tmp_path, case.name, X, np.tile(y, 20))
    table = open_dataset(tmp_path / case.name).train
    assert table.X.numblocks[0] > 5
    graph = pickle.dumps(dict(table.X.__dask_graph__()))
    assert len(graph) < 1000 * table.X.numblocks[0]
    assert X[:4].astype(table.X.dtype).tobytes() not in graph
    np.testing.assert_array_equal(table.X.compute(), X)
    (tmp_path / case.name).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="cannot read .*" + case.name.replace(".", r"\.")):
        table.X.compute()


def test_damaged_files_are_named(case, rows, tmp_path):
    X, y = rows
    case.write(tmp_path, case.name, X, y)
    path = tmp_path / case.name
    if path.is_dir():
        (path / "zarr.json").write_text("{")
    else:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) * 2 // 3])
    if case.write is write_svmlight or (path.suffix in {".csv", ".data", ".txt", ".tsv"}):
        path.write_bytes(content + b"\xff\xfe\x00\x00")
    with pytest.raises(DataError, match=r"(?s)" + case.name.replace(".", r"\.")):
        open_dataset(path)


def test_rows_without_labels_for_a_model(case, rows, tmp_path):
    X, y = rows
    case.write(tmp_path, case.name, X, y)
    assert open_dataset(tmp_path / case.name, n_features=4).train.y is not None
    with pytest.raises(DataError, match=r"the model takes 9 columns|n_features"):
        open_dataset(tmp_path / case.name, n_features=9 if "svm" not in case.name else 2)
    if reader_of(case).columns:
        table = open_dataset(tmp_path / case.name, n_features=5).train
        assert table.y is None
        np.testing.assert_array_equal(table.X.compute(), np.column_stack([X, y]))


def test_label_column_only_where_there_are_columns(case, rows, tmp_path):
    X, y = rows
    case.write(tmp_path, case.name, X, y)
    path = tmp_path / case.name
    if reader_of(case).columns:
        found = open_dataset(path, label_column=-5).train
        np.testing.assert_array_equal(found.y, X[:, 0])
    else:
        with pytest.raises(DataError, match="stores its labels apart"):
            open_dataset(path, label_column=0)


@only([case for case in EVERY if reader_of(case).magic and not case.name.endswith(".gz")])
def test_first_bytes_tell_the_format(case, rows, tmp_path):
    X, y = rows
    case.write(tmp_path, case.name, X, y)
    (tmp_path / case.name).rename(tmp_path / "mystery")
    np.testing.assert_array_equal(open_dataset(tmp_path / "mystery").train.X.compute(), X)
