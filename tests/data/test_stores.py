"""Data in stores of fsspec: the same rows by URL, fetched lazily, and what cannot be reached."""

import pickle
import re
import socket
import subprocess
import sys
from uuid import uuid4

import numpy as np
import pytest
import zarr
from fsspec.registry import _registry

import sparsegp
from sparsegp.data import blocks as blocks_module
from sparsegp.data import open_dataset
from sparsegp.errors import DataError
from tests.data import files
from tests.s3 import require_keys

pytest.importorskip("pyarrow")

FORMATS = {
    "X.npy": files.write_npy,
    "a.zarr": files.write_zarr,
    "a.parquet": files.write_parquet,
    "a.csv.gz": files.write_text(","),
}


@pytest.fixture(params=["file", "memory", "s3"])
def place(request, tmp_path):
    """The URL of an empty folder in a store of each kind."""
    urls = {"file": f"file://{tmp_path}", "memory": f"memory://{uuid4().hex}"}
    return urls.get(request.param) or request.getfixturevalue("s3")


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_come_back(name, place, sample, monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_VALUES", 40)
    X, y = sample
    FORMATS[name](f"{place}/{name}", X, y)
    table = open_dataset(f"{place}/{name}").train
    if name != "a.csv.gz":
        assert table.X.numblocks[0] > 2
        assert X[:4].tobytes() not in pickle.dumps(dict(table.X.__dask_graph__()))
    np.testing.assert_array_equal(table.X.compute(), X)
    np.testing.assert_array_equal(table.y, y)


def test_pairs_splits_and_layouts_of_arrays(sample):
    X, y = sample
    folder = f"memory://{uuid4().hex}"
    arrays = {"X_train": X, "y_train": y, "X_test": X[:5], "y_test": y[:5]}
    for name, array in (arrays | {"f": np.asfortranarray(X)}).items():
        files.put(f"{folder}/{name}.npy", files.npy_bytes(array))
    dataset = open_dataset(f"{folder}/X_train.npy")
    np.testing.assert_array_equal(dataset.train.y, y)
    np.testing.assert_array_equal(dataset.test.X.compute(), X[:5])
    pair = open_dataset(f"{folder}/X_test.npy, {folder}/y_test.npy").train
    np.testing.assert_array_equal(pair.y, y[:5])
    np.testing.assert_array_equal(open_dataset(f"{folder}/f.npy").train.X.compute(), X)
    with pytest.raises(DataError, match=r"memory://.*/no\.npy"):
        open_dataset(f"{folder}/X_test.npy,{folder}/no.npy")


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_there(name, place):
    with pytest.raises(DataError, match=rf"missing/{name}"):
        open_dataset(f"{place}/missing/{name}")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nothing://a/b.zarr", r"nothing://a/b\.zarr: Protocol not known"),
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
        assert re.fullmatch(r"error: cannot read s3://a/X\.npy: .*Endpoint.*\n", done.stderr)

    @pytest.mark.slow
    def test_a_run_whose_workers_fetch_their_rows(self, s3, s3_keys, clusters, train, tmp_path):
        data = np.load(clusters)
        group = zarr.open_group(f"{s3}/clusters.zarr", mode="w")
        for name in data.files:
            group.create_array(name, data=data[name], chunks=(500, *data[name].shape[1:]))
        found = []
        for source, workers in {
            f"{s3}/clusters.zarr": ["--workers", "2"],
            str(clusters): [],
        }.items():
            done = train(source, "--n-active", "30", "--posterior", "adf", *workers, **s3_keys)
            assert done.returncode == 0, done.stderr
            found.append(sparsegp.load(tmp_path / "run").predict_proba(data["X_test"]))
            (tmp_path / "run").rename(tmp_path / f"run-{len(found)}")
        np.testing.assert_array_equal(*found)
