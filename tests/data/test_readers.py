"""One contract for every reader: the same rows and labels come back, lazily where promised."""

import pickle
import re
import sys
import time
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import zarr

import sparsegp
from sparsegp.data import blocks, encode, open_dataset
from sparsegp.data.readers import COLUMNAR, FORMATS
from sparsegp.errors import DataError
from tests.data import files
from tests.processes import environment, free_port, run_python
from tests.s3 import require_keys


@dataclass(frozen=True)
class Case:
    """How to write a format, and what it can keep: strings as labels, doubles, rows on disk."""

    name: str
    write: Any
    strings: bool = True
    doubles: bool = True
    lazy: bool = False


CASES = [
    Case("a.npz", files.write_pair),
    Case("X.npy", files.write_pair, lazy=True),
    Case("foo_X.npy", files.write_pair, lazy=True),
    Case("a.csv", files.write_text(",")),
    Case("a.csv.gz", files.write_text(";")),
    Case("a.data.gz", files.write_text(", ")),
    Case("a.txt", files.write_text("   ")),
    Case("a.tsv", files.write_text("\t")),
    Case("a.tab", files.write_text("\t")),
    Case("a-images-idx3-ubyte", files.write_idx, strings=False, doubles=False, lazy=True),
    Case("a-images.idx3-ubyte", files.write_idx, strings=False, doubles=False, lazy=True),
    Case("a-images-idx3-ubyte.gz", files.write_idx, strings=False, doubles=False),
    Case("a.zarr", files.write_pair, strings=False, lazy=True),
    Case("a.parquet", files.write_parquet, lazy=True),
]
assert {ending for ending in FORMATS for case in CASES if ending in case.name} == set(FORMATS)
AT_S3 = {case.name: case for case in CASES if case.name in {"X.npy", "a.zarr", "a.parquet"}}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def rows(case, sample):
    X, y = sample
    return (X if case.doubles else np.abs(X).astype(np.uint8)), y


def test_rows_are_read_from_any_working_directory(case, rows, tmp_path, monkeypatch):
    """As that of a worker may be another."""
    case.write(f"{tmp_path}/{case.name}", *rows)
    monkeypatch.chdir(tmp_path)
    table = open_dataset(case.name).train
    monkeypatch.chdir("/")
    np.testing.assert_allclose(np.asarray(table.learnt().X), rows[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["doubles of all sizes", "float32", "int64", "uint8"])
def test_same_rows_and_labels_come_back_to_the_last_bit(case, kind, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 4)) * 10.0 ** rng.integers(-300, 300, (30, 4))
    y = np.arange(30) % 3
    if kind == "uint8" or not case.doubles:
        X = rng.integers(0, 256, (30, 4)).astype(np.uint8)
    elif kind != "doubles of all sizes":
        X = np.clip(X, -99, 99).astype(kind)
    if kind == "float32" and case.strings:
        y = np.array(["iris setosa" if ".txt" not in case.name else "iris-setosa", "b", "ç"])[y]
    case.write(f"{tmp_path}/{case.name}", X, y)
    table = open_dataset(tmp_path / case.name).train
    assert case.name in table.source
    assert table.X.shape == X.shape
    assert table.X.numblocks[1] == 1
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)
    assert encode(table.y, "y")[0].dtype.kind == y.dtype.kind


@pytest.mark.parametrize("store", ["path", "file", "memory", "s3"])
def test_rows_stay_in_the_store_until_needed(store, case, rows, tmp_path, monkeypatch, request):
    if store == "s3" and case.name not in AT_S3:
        pytest.skip("one of a kind is enough")
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 40)
    urls = {"file": f"file://{tmp_path}", "memory": f"memory://{uuid4().hex}", "path": tmp_path}
    folder = urls.get(store) or request.getfixturevalue("s3")
    X, y = np.tile(rows[0], (4, 1)), np.tile(rows[1], 4)
    case.write(f"{folder}/{case.name}", X, y)
    table = open_dataset(f"{folder}/{case.name}").train
    if case.lazy:
        assert table.X.numblocks[0] > 5
        graph = pickle.dumps(dict(table.X.__dask_graph__()))
        assert len(graph) < 1000 * table.X.numblocks[0]
        assert X[:4].astype(table.X.dtype).tobytes() not in graph
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)
    with pytest.raises(DataError, match=f"-not/{case.name}"):
        open_dataset(f"{folder}-not/{case.name}")
    if case.lazy and store == "path":
        (tmp_path / case.name).rename(tmp_path / "elsewhere")
        with pytest.raises(DataError, match=case.name):
            table.X.compute()


def test_columns_of_a_model_and_of_labels(case, rows, tmp_path):
    path = tmp_path / case.name
    case.write(str(path), *rows)
    assert open_dataset(path, n_features=4).train.y is not None
    with pytest.raises(DataError, match=r"columns|n_features"):
        open_dataset(path, n_features=9)
    if not any(ending in case.name for ending in COLUMNAR):
        with pytest.raises(DataError, match="`label_column`"):
            open_dataset(path, label_column=0)
        return
    table = open_dataset(path, n_features=5).train
    assert table.y is None
    np.testing.assert_array_equal(table.X.compute(), np.column_stack(rows))
    found = open_dataset(path, label_column=-5).train
    np.testing.assert_array_equal(found.y, rows[0][:, 0])


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


@pytest.mark.parametrize("url", [False, True])
def test_pairs_and_layouts_of_arrays(url, tmp_path, sample):
    X, y = sample
    folder = f"memory://{uuid4().hex}" if url else tmp_path
    arrays = {"in": np.asfortranarray(X), "out": y.astype(">i2"), "X": X.astype(">f8")}
    for name, array in arrays.items():
        files.put(f"{folder}/{name}.npy", files.npy_bytes(array))
    table = open_dataset(f"{folder}/in.npy, {folder}/out.npy").train
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)
    assert open_dataset(f"{folder}/in.npy").train.y is None
    np.testing.assert_array_equal(open_dataset(f"{folder}/X.npy").train.X.compute(), X)
    with pytest.raises(DataError, match=r"no\.npy"):
        open_dataset(f"{folder}/in.npy,{folder}/no.npy")


def test_zarr_of_either_format_and_in_shards(tmp_path, sample):
    X, y = sample
    files.write_pair(f"{tmp_path}/two.zarr", X, y, zarr_format=2)
    shards = zarr.open_group(tmp_path / "shards.zarr", mode="w")
    shards.create_array("X", data=X, chunks=(3, 4), shards=(9, 4))
    lacks = zarr.open_group(tmp_path / "lacks.zarr", mode="w")
    lacks.create_array("X", shape=(11, 4), chunks=(2, 3), dtype="f4")
    for name in ("two.zarr", "shards.zarr"):
        np.testing.assert_array_equal(open_dataset(tmp_path / name).train.X.compute(), X)
    assert not open_dataset(tmp_path / "lacks.zarr").train.X.compute().any()


@pytest.mark.parametrize(("values", "dtype"), [(np.int16([3, 4]), "Int16"), ([5, 6], "Int64")])
def test_parquet_of_mixed_columns(values, dtype, tmp_path):
    columns = {"kind": ["a", "b"], "u": pyarrow.array([1.5, None], "float32"), "v": [True, False]}
    pyarrow.parquet.write_table(pyarrow.table(columns | {"w": values}), tmp_path / "a.parquet")
    table = open_dataset(tmp_path / "a.parquet", label_column="kind").train
    assert table.names == ("u", "v", "w")
    assert table.y.tolist() == ["a", "b"]
    assert [str(each) for each in table.frame.empty.dtypes] == ["float32", "boolean", dtype]
    expected = [[1.5, 1, values[0]], [np.nan, 0, values[1]]]
    np.testing.assert_array_equal(table.encoded(None).X.compute(), expected)
    table = open_dataset(tmp_path / "a.parquet", label_column="kind", drop=["u"]).train
    np.testing.assert_array_equal(table.X.compute(), [each[1:] for each in expected])


@pytest.mark.parametrize("ids", [["=1", "b"], [date(2020, 1, 2), date(2020, 1, 3)], [7, 8]])
def test_parquet_of_ids(ids, tmp_path):
    columns = {"id": ids, "u": [1.5, 2.5], "y": [0, 1]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    found = open_dataset(tmp_path / "a.parquet", id_column="id").train.beside["id"]
    assert found.dtype.kind == ("i" if ids == [7, 8] else "U")  # no objects, which none can write
    assert found.astype(str).tolist() == [*map(str, ids)]
    columns |= {"id": [ids[0], None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="row 1, column 'id': the id is missing"):
        open_dataset(tmp_path / "a.parquet", id_column="id")


def test_the_index_of_a_data_frame_is_no_column_unless_it_is_named(tmp_path):
    """pandas writes it behind the columns, where the label would be."""
    path, u = tmp_path / "a.parquet", [1.5, 2.5]
    frame = pd.DataFrame({"u": u, "y": ["a", "b"]}, index=pd.Index([7, 9], name="id"))
    for index in (frame, frame.rename_axis(None)):
        index.to_parquet(path)
        table = open_dataset(path).train
        assert (table.names, table.label, table.y.tolist()) == (("u",), "y", ["a", "b"])
    frame.to_parquet(path)
    table = open_dataset(path, id_column="id").train
    assert (table.names, table.beside["id"].tolist()) == (("u",), [7, 9])
    assert open_dataset(path, label_column="id", drop=["y"]).train.y.tolist() == [7, 9]
    for how in ({"kinds": {"id": "number"}}, {"weight": "id"}):
        table = open_dataset(path, **how).train
        assert (table.names, table.label) == (("id", "u"), "y")
    for metadata in (b"[]", b'{"index_columns": 3}'):
        forged = pyarrow.table({"u": u, "y": [0, 1]}).replace_schema_metadata({"pandas": metadata})
        pyarrow.parquet.write_table(forged, path)
        assert open_dataset(path).train.names == ("u",)


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
    '"1.5" ,"2","a, b"\n3,4,-\n': (None, [[1.5, 2], [3, 4]], ["a, b", "-"]),
    ' 1  2 a\n3\t4 "b c"  ': (None, [[1, 2], [3, 4]], ["a", "b c"]),
    "1,2,_ä\n3,4,1_0\n": (None, [[1, 2], [3, 4]], ["_ä", "1_0"]),
    "inf,1e400,0\n-inf,+1e-400,1\n": (None, [[np.inf, np.inf], [-np.inf, 0]], [0, 1]),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text, tmp_path):
    column, X, y = TEXTS[text]
    (tmp_path / "a.csv").write_bytes(text.encode())
    table = open_dataset(tmp_path / "a.csv", label_column=column).train
    assert table.X.compute().tolist() == X
    assert table.y.tolist() == y


NAMED = {
    "a,b,y\n1,2,u\n": {"y": ["u"]},
    "y,b,a\nu,2,1\n": {"y": ["u"]},
    "b,a\n2,1\n": {},
    "id,b,a,note,y\nx,2,1,,u\n": {},
    ",b,y,a\n0,2,u,1\n": {"y": ["u"]},
    "id,b,y,a,note\nx,2,u,1,\n": {"y": ["u"], "label_column": "y"},
    "b,0,a,1\n2,x,1,y\n": {},
}
"""Tables with the columns a and b, and the labels that are found in them."""


@pytest.mark.parametrize("text", NAMED)
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_columns_that_a_model_names(name, text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    rows = pd.read_csv(tmp_path / "a.csv").rename(columns={"Unnamed: 0": "unnamed 0"})
    rows.to_parquet(tmp_path / "a.parquet", index=False)
    expected = dict(NAMED[text])
    y = expected.pop("y", None)
    table = open_dataset(tmp_path / name, n_features=2, names=("a", "b"), **expected).train
    assert table.names == ("a", "b")
    assert table.X.compute().tolist() == [[1, 2]]
    assert table.y is None if y is None else table.y.tolist() == y


def test_a_text_of_many_columns(tmp_path):
    """Whose lines are longer than a field may be."""
    names = [f"c{n:0999}" for n in range(140)]
    rows = [names, *([str(n % k) for n in range(140)] for k in (3, 7))]
    (tmp_path / "a.csv").write_text("\n".join(map(",".join, rows)))
    table = open_dataset(tmp_path / "a.csv").train
    assert table.X.shape == (2, 139)


def test_isolet_as_published(real_data):
    start = time.process_time()
    table = open_dataset(real_data / "raw" / "isolet1+2+3+4.data.gz").train
    assert time.process_time() - start < 4
    archive = open_dataset(real_data / "isolet.npz").train
    np.testing.assert_array_equal(table.X.compute().astype(np.float32), archive.X.compute())
    np.testing.assert_array_equal(encode(table.y, "raw")[1], archive.y)
    unlabelled = open_dataset(real_data / "raw" / "isolet5.data.gz", n_features=617).train
    assert unlabelled.X.shape == (1559, 617)


def test_mnist_as_published(real_data):
    dataset = open_dataset(real_data / "raw" / "train-images-idx3-ubyte.gz")
    archive = open_dataset(real_data / "mnist.npz")
    for table, same in ((dataset.train, archive.train), (dataset.test, archive.test)):
        np.testing.assert_array_equal(table.X.compute(), same.X.compute())
        np.testing.assert_array_equal(table.y, same.y)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nothing://a/b.zarr", r"nothing://a/b\.zarr: Protocol not known"),
        ("gs://a/b.zarr", r"gs://a/b\.zarr: a package is missing .*gcsfs.*; install it: "),
    ],
)
def test_refused_urls(url, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(DataError, match=message):
        open_dataset(url)


@pytest.fixture
def train(tmp_path):
    """A function that trains in a process of its own, and returns what it said of errors."""

    def run(source, *options, code=2, **keys):
        words = ("-m", "sparsegp", "train", source, "--out", "run", *options)
        return run_python(*words, code=code, env=environment() | keys, cwd=tmp_path).stderr

    return run


class TestS3:
    @pytest.mark.parametrize("name", ["X.npy", "a.zarr"])
    def test_no_permission(self, name, s3, s3_keys, sample, train):
        AT_S3[name].write(f"{s3}/{name}", *sample)
        require_keys(s3_keys["AWS_ENDPOINT_URL"], after=0)
        try:
            said = train(f"{s3}/{name}", **s3_keys | {"AWS_ACCESS_KEY_ID": "stranger"})
        finally:
            require_keys(s3_keys["AWS_ENDPOINT_URL"], after=10**9)
        assert re.search(rf"\nerror: cannot read {s3}/\S+: no permission\n$", said)

    def test_no_server(self, s3_keys, train):
        nowhere = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
        said = train("s3://a/X.npy", **s3_keys | nowhere)
        assert re.search(r"\nerror: cannot read s3://a/[Xy]\.npy: .*Endpoint.*\n$", said)

    @pytest.mark.slow
    def test_a_run_whose_workers_fetch_their_rows(self, s3, s3_keys, clusters, train, tmp_path):
        data = np.load(clusters)
        files.write_arrays(f"{s3}/clusters.zarr", dict(data))
        found = []
        for source, workers in ((f"{s3}/clusters.zarr", ("--workers", 2)), (clusters, ())):
            how = ("--kernel", "rbf", "--n-active", 30, "--posterior", "adf", *workers)
            train(source, *how, code=0, **s3_keys)
            found.append(sparsegp.load(tmp_path / "run").predict_proba(data["X_test"]))
            (tmp_path / "run").rename(tmp_path / f"run-{len(found)}")
        np.testing.assert_array_equal(*found)


def test_an_id_may_be_an_input_of_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n0.50,1,p\n 012,2,q\n")
    rows = open_dataset(tmp_path / "t.csv", names=("a", "b"), id_column="a").train
    assert rows.names == ("a", "b")
    np.testing.assert_array_equal(rows.X, [[0.5, 1.0], [12.0, 2.0]])
    assert rows.beside["a"].tolist() == ["0.50", "012"]
