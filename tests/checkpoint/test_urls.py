"""What names a place, and places that cannot be reached."""

import sys
from pathlib import Path

import pytest
from fsspec.registry import _registry

import sparsegp
from sparsegp.checkpoint import StorePath, is_bundle, place_of, read_bundle, write_bundle
from sparsegp.errors import StoreError

KIND = "sparsegp-model"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("run", Path("run")),
        (Path("a/run"), Path("a/run")),
        ("s3://bucket/run/", StorePath("s3://bucket/run")),
        (Path("s3://bucket/run"), StorePath("s3://bucket/run")),
        (StorePath("gs://bucket/run"), StorePath("gs://bucket/run")),
        ("file:///tmp/run", Path("/tmp/run")),
        (Path("file:///tmp/run"), Path("/tmp/run")),
    ],
)
def test_paths_and_urls(name, place):
    assert place_of(name) == place


@pytest.mark.parametrize(
    "url", ["s3://b/run*", "s3://b/[a]", "simplecache::s3://b/run", "s3://b/\n"]
)
def test_urls_with_marks_in_them_are_refused(url):
    with pytest.raises(StoreError, match="must be a plain URL"):
        place_of(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nothing://a/b", "Protocol not known: nothing"),
        ("gs://a/b", r'gs:// needs a package .* pip install "sparsegp\[gcs\]"'),
        ("s3://a/b", r's3:// needs a package .* pip install "sparsegp\[s3\]"'),
    ],
)
def test_packages_that_are_missing(url, message, monkeypatch):
    for package in ("gcsfs", "s3fs"):
        monkeypatch.setitem(sys.modules, package, None)
    for protocol in ("gs", "s3"):
        monkeypatch.delitem(_registry, protocol, raising=False)
    with pytest.raises(StoreError, match=message):
        sparsegp.load(url)
    with pytest.raises(StoreError, match=message):
        write_bundle(place_of(url), {}, {}, kind=KIND, version=1)


def test_a_bucket_that_is_missing(s3):
    place = place_of(f"{s3}-not") / "run"
    assert not place.exists()
    assert not is_bundle(place)
    with pytest.raises(StoreError, match=r"cannot write .*: no such bucket; make it first"):
        write_bundle(place, {}, {}, kind=KIND, version=1)
    with pytest.raises(StoreError, match=r"manifest\.json is missing"):
        read_bundle(place, kind=KIND, versions={1})
