"""Bundles that somebody made to harm: their digests fit, what they say does not."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sparsegp.checkpoint import RunLock, read_bundle, write_bundle
from sparsegp.checkpoint.manifest import MANIFEST, Entry, entry_of, spell_manifest
from sparsegp.errors import StoreError

KIND = "sparsegp-model"


@pytest.fixture
def bundle(tmp_path):
    path = tmp_path / "model"
    write_bundle(path, {"n": 1}, {"h": np.arange(12.0).reshape(4, 3)}, kind=KIND, version=1)
    return path


def seal(bundle, **others):
    """Write a manifest that fits the files, and other entries."""
    files = (file for file in bundle.rglob("*") if file.is_file() and file.name != MANIFEST)
    listed = {str(file.relative_to(bundle)): entry_of(file.read_bytes()) for file in files}
    (bundle / MANIFEST).write_bytes(spell_manifest(listed | others))


def refused(bundle, message):
    with pytest.raises(StoreError, match=message):
        read_bundle(bundle, kind=KIND, versions={1})


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [10**12, 3]},
        {"shape": [10**12, 3], "chunk_grid": {"configuration": {"chunk_shape": [10**12, 3]}}},
        {"shape": [4.0, 3]},
        {"shape": [-4, 3]},
        {"shape": None},
        {"data_type": "string"},
        {"data_type": "float32"},
        {"data_type": {"name": "struct"}},
        {"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]},
        {"codecs": [{"name": "bytes"}, {"name": "zstd"}]},
        {"codecs": []},
        {"fill_value": 1e400},
        {"chunk_grid": {}},
        {"node_type": "group"},
    ],
    ids=str,
)
def test_arrays_that_are_not_what_is_declared(bundle, change):
    path = bundle / "arrays.zarr" / "h" / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    seal(bundle)
    refused(bundle, r"arrays\.zarr cannot be read: ")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[]", '{"format": "sparsegp-model"}', "null", "{", "\x00"],
    ids=lambda text: text[:9],
)
def test_descriptions_that_are_none(bundle, text):
    (bundle / "meta.json").write_text(text)
    seal(bundle)
    refused(bundle, r"meta\.json is not the description of a bundle")


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_numbers_that_are_not_finite(bundle, value):
    (bundle / "meta.json").write_text(
        f'{{"format": "{KIND}", "format_version": 1, "temperature": {value}}}'
    )
    seal(bundle)
    refused(bundle, r"meta\.json is not the description of a bundle")


@pytest.mark.parametrize("version", ["[]", "{}", "true", "1.0", '"1"', "null"])
def test_versions_are_whole_numbers(bundle, version):
    (bundle / "meta.json").write_text(f'{{"format": "{KIND}", "format_version": {version}}}')
    seal(bundle)
    refused(bundle, "but only version 1 is understood")


@pytest.mark.parametrize(
    "name", ["../x", "/etc/hostname", "arrays.zarr/../../x", "", ".", "a\0", "\ud800", "a//b", "-a"]
)
def test_names_that_are_none(bundle, name):
    seal(bundle, **{name: Entry(1, "0" * 64)})
    refused(bundle, "names a file outside its directory")


@pytest.mark.parametrize("name", ["meta.json", MANIFEST, "arrays.zarr/h/c.0.0", "arrays.zarr"])
def test_links(bundle, name):
    (bundle / name).rename(bundle.parent / "elsewhere")
    (bundle / name).symlink_to(bundle.parent / "elsewhere")
    refused(bundle, "is a link that may lead out of its directory")


def test_a_bundle_that_is_a_link_is_read(bundle, tmp_path):
    (tmp_path / "latest").symlink_to(bundle)
    assert read_bundle(tmp_path / "latest", kind=KIND, versions={1}).meta == {"n": 1}


@pytest.mark.parametrize("name", ["meta.json", MANIFEST])
def test_what_is_no_file(bundle, name):
    (bundle / name).unlink()
    os.mkfifo(bundle / name)
    refused(bundle, "is no file|is truncated or altered")


def test_a_manifest_that_is_too_large(bundle):
    with (bundle / MANIFEST).open("ab") as file:
        file.truncate(1 << 40)
    refused(bundle, r"manifest\.json has 1099511627776 bytes, and is altered")


@pytest.mark.parametrize("url", ["s3://bucket/run", "gs://bucket/run", "memory://run"])
def test_stores_of_objects_cannot_be_locked(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=rf"{url} names a store, which cannot be locked"):
        RunLock(Path(url) / "lock")
    assert not list(tmp_path.iterdir())
