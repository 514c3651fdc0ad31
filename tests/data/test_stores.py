"""Data in stores of fsspec: the same rows by URL, fetched lazily, and what cannot be reached."""

import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.registry import _registry

from sparsegp.data import blocks as blocks_module
from sparsegp.data import open_dataset
from sparsegp.errors import DataError
from tests.s3 import require_keys


def write_npy(url, X, y):
    for name, array in {url: X, url.replace("X.npy", "y.npy"): y}.items():
        with fsspec.open(name, "wb") as file:
            np.save(file, array)


def write_zarr(url, X, y):
    group = zarr.open_group(url.removeprefix("file://"), mode="w")
    for member, array in {"X": X, "y": y}.items():
        chunks = (7, *array.shape[1:])
        group.create_array(member, shape=array.shape, dtype=array.dtype, chunks=chunks)[:] = array


def write_parquet(url, X, y):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    with fsspec.open(url, "wb") as file:
        parquet.write_table(pyarrow.table(columns), file, row_group_size=8)


FORMATS = {"X.npy": write_npy, "a.zarr": write_zarr, "a.parquet": write_parquet}


@pytest.fixture(params=["memory", "file", "s3"])
def place(request, tmp_path):
    """The URL of an empty folder in a store of each kind."""
    if request.param == "s3":
        return request.getfixturevalue("s3")
    return f"memory://{uuid4().hex}" if request.param == "memory" else f"file://{tmp_path}"


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_come_back_lazily(name, place, sample, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 40)
    X, y = sample
    FORMATS[name](f"{place}/{name}", X, y)
    table = open_dataset(f"{place}/{name}").train
    assert table.X.numblocks[0] > 2
    assert X[:4].tobytes() not in pickle.dumps(dict(table.X.__dask_graph__()))
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)


def test_pairs_splits_and_layouts_of_arrays(sample):
    X, y = sample
    folder = f"memory://{uuid4().hex}"
    arrays = {
        "X_train": X,
        "y_train": y,
        "X_test": X[:5],
        "y_test": y[:5],
        "f": np.asfortranarray(X),
    }
    for name, array in arrays.items():
        with fsspec.open(f"{folder}/{name}.npy", "wb") as file:
            np.save(file, array)
    dataset = open_dataset(f"{folder}/X_train.npy")
    np.testing.assert_array_equal(dataset.train.y, y)
    np.testing.assert_array_equal(dataset.test.X.compute(), X[:5])
    pair = open_dataset(f"{folder}/X_test.npy, {folder}/y_test.npy").train
    np.testing.assert_array_equal(pair.y, y[:5])
    with pytest.raises(DataError, match=r"f\.npy is stored column by column"):
        open_dataset(f"{folder}/f.npy")
    with pytest.raises(DataError, match=r"no such file 'memory://.*/no\.npy'"):
        open_dataset(f"{folder}/X_test.npy,{folder}/no.npy")


def test_any_format_by_a_url_of_this_machine(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n")
    assert open_dataset(f"file://{tmp_path}/a.csv").train.y.tolist() == [0, 1]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_there(name, place):
    with pytest.raises(DataError, match=rf"no such (bucket|file)|is not there.*|cannot .*{name}"):
        open_dataset(f"{place}/missing/{name}")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nothing://a/b.zarr", r"cannot read nothing://a/b\.zarr: Protocol not known: nothing"),
        ("memory://a/b.csv", r"in a store there may be \.npy, \.parquet, \.zarr; copy it here"),
        ("gs://a/b.zarr", r'gs:// needs a package .* pip install "sparsegp\[gcs\]"'),
        ("s3://a/b.npy", r's3:// needs a package .* pip install "sparsegp\[s3\]"'),
    ],
)
def test_refused_urls(url, message, monkeypatch):
    for package in ("gcsfs", "s3fs"):
        monkeypatch.setitem(sys.modules, package, None)
    for protocol in ("gs", "s3"):  # where an earlier test has imported them
        monkeypatch.delitem(_registry, protocol, raising=False)
    with pytest.raises(DataError, match=message):
        open_dataset(url)


@pytest.fixture
def train(environment, tmp_path):
    """A function that trains in a process of its own."""

    def run(source, *options, **keys):
        command = [sys.executable, "-m", "sparsegp", "train", source, "--out", "run", *options]
        return subprocess.run(
            command,
            check=False,
            env=environment | keys,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return run


class TestS3:
    @pytest.mark.parametrize("name", FORMATS)
    def test_missing_buckets(self, name, s3):
        with pytest.raises(DataError, match=rf"cannot read {s3}-not/.*: no such bucket or object"):
            open_dataset(f"{s3}-not/{name}")

    @pytest.mark.parametrize("name", ["X.npy", "a.zarr"])
    def test_no_permission(self, name, s3, s3_keys, sample, train):
        FORMATS[name](f"{s3}/{name}", *sample)
        require_keys(s3_keys["AWS_ENDPOINT_URL"], after=0)
        try:
            done = train(f"{s3}/{name}", **s3_keys | {"AWS_ACCESS_KEY_ID": "stranger"})
        finally:
            require_keys(s3_keys["AWS_ENDPOINT_URL"], after=10**9)
        assert done.returncode == 2
        assert re.fullmatch(rf"error: cannot read {s3}/{name}\S*: no permission\n", done.stderr)

    def test_no_server(self, s3_keys, train):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"http://127.0.0.1:{free.getsockname()[1]}"
        done = train("s3://a/X.npy", **s3_keys | {"AWS_ENDPOINT_URL": address})
        assert done.returncode == 2
        assert done.stderr.startswith("error: cannot read s3://a/X.npy: its store failed (Endpoint")
        assert done.stderr.count("\n") == 1

    @pytest.mark.slow
    def test_a_run_whose_workers_fetch_their_rows(self, s3, s3_keys, clusters, train, tmp_path):
        data = np.load(clusters)
        group = zarr.open_group(f"{s3}/clusters.zarr", mode="w")
        for name in data.files:
            group.create_array(name, data=data[name], chunks=(500, *data[name].shape[1:]))
        found = []
        for source, workers in {f"{s3}/clusters.zarr": "2", str(clusters): "0"}.items():
            options = ["--workers", workers] if workers > "0" else []
            done = train(source, "--n-active", "30", "--posterior", "adf", *options, **s3_keys)
            assert done.returncode == 0, done.stderr
            found.append(saved_arrays(tmp_path / "run" / "model"))
            (tmp_path / "run").rename(tmp_path / f"run-{workers}")
        assert found[0] == found[1]


def saved_arrays(model):
    files = sorted((model / "arrays.zarr").rglob("*"))
    return {file.relative_to(model): file.read_bytes() for file in files if Path(file).is_file()}
