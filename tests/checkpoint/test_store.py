import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr

from sparsegp.checkpoint import arrays as group
from sparsegp.checkpoint import (
    files,
    manifest,
    read_bundle,
    remove_bundle,
    sweep_bundle,
    write_bundle,
)
from sparsegp.checkpoint.store import check_bundle
from sparsegp.errors import StoreError

KIND = "sparsegp-model"
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def write(path, meta=None, arrays=None, version=1):
    write_bundle(path, meta or {}, arrays or {}, kind=KIND, version=version)


def read(path):
    return read_bundle(path, kind=KIND, versions={1})


def assert_same(left, right):
    assert left.dtype == right.dtype.newbyteorder("=")
    assert left.shape == right.shape
    np.testing.assert_array_equal(left, right)


def all_files(path):
    return sorted(item for item in path.rglob("*") if item.is_file())


@pytest.fixture
def bundle(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "model"
    arrays = {"h": rng.standard_normal((30, 4)), "active": np.arange(30), "empty": np.zeros((0, 3))}
    write(path, {"kernel": "rbf(1.5)", "labels": ["a", "b"]}, arrays)
    return path


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 3), (2, 3, 4, 2)], ids=str)
def test_every_dtype_and_shape_returns_bit_for_bit(tmp_path, code, shape):
    rng = np.random.default_rng(1)
    values = (rng.standard_normal(shape) * 100).astype(code)
    write(tmp_path / "b", {}, {"x": values})
    assert_same(read(tmp_path / "b").arrays["x"], values)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6.0).astype(">f8"),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(40.0).reshape(8, 5)[::-2, 1:4],
        np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]),
        np.full((4, 2), np.nan),
        np.zeros((4, 2)),
        np.broadcast_to(np.float32(3.0), (4, 3)),
    ],
    ids=["big endian", "fortran", "strided", "special", "all nan", "all zero", "broadcast"],
)
def test_layouts_and_special_values(tmp_path, values):
    write(tmp_path / "b", {}, {"x": values})
    loaded = read(tmp_path / "b").arrays["x"]
    assert_same(loaded, values)
    if values.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(loaded), np.signbit(values))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 100])
def test_many_chunks(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(group, "CHUNK_BYTES", 8 * 3 * 8)
    values = np.random.default_rng(rows).standard_normal((rows, 3))
    write(tmp_path / "b", {}, {"x": values})
    chunks = list((tmp_path / "b/arrays.zarr/x").glob("c.*"))
    assert len(chunks) == -(-rows // 8)
    assert_same(read(tmp_path / "b").arrays["x"], values)


def test_large_array_is_cut_into_chunks_below_the_limit(tmp_path):
    values = np.arange(9 * 2**20, dtype=float).reshape(-1, 64)
    write(tmp_path / "b", {}, {"x": values})
    sizes = [item.stat().st_size for item in (tmp_path / "b/arrays.zarr/x").glob("c.*")]
    assert len(sizes) == 2
    assert max(sizes) <= 64 * 2**20 + 4
    np.testing.assert_array_equal(read(tmp_path / "b").arrays["x"], values)


def test_meta_and_version_return(tmp_path):
    meta = {"n": 3, "nested": {"x": [1.5, None, True, "ü"]}, "state": 2**127 + 1}
    write(tmp_path / "b", meta)
    assert read(tmp_path / "b").meta == meta
    assert read(tmp_path / "b").version == 1
    assert read(tmp_path / "b").arrays == {}
    assert json.loads((tmp_path / "b/meta.json").read_text())["format"] == KIND


def test_plain_zarr_reads_the_arrays(bundle):
    found = zarr.open_group(bundle / "arrays.zarr", mode="r")
    np.testing.assert_array_equal(found["h"][...], read(bundle).arrays["h"])
    codecs = [codec["name"] for codec in found["h"].metadata.to_dict()["codecs"]]
    assert codecs == ["bytes", "crc32c"]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a"]),
        np.array([object()]),
        np.array([b"a"]),
        np.array(["2020"], "M8[s]"),
        np.zeros(2, [("a", "f8")]),
        np.zeros(2, np.longdouble),
    ],
    ids=lambda values: values.dtype.str,
)
def test_other_dtypes_are_refused_before_anything_is_written(tmp_path, values):
    with pytest.raises(TypeError, match=r"array 'x' must be numeric or bool, got dtype"):
        write(tmp_path / "b", {}, {"x": values})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".x", "zarr.json", "__x", "a b", "ü"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="array name"):
        write(tmp_path / "b", {}, {name: np.zeros(1)})


def test_names_that_differ_in_case_only_are_refused(tmp_path):
    with pytest.raises(ValueError, match="more than case"):
        write(tmp_path / "b", {}, {"m": np.zeros(1), "M": np.zeros(1)})


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        ({"format": "x"}, ValueError),
        ({"x": float("nan")}, ValueError),
        ({"x": np.zeros(2)}, TypeError),
    ],
    ids=["reserved", "nan", "array"],
)
def test_meta_that_is_not_json_is_refused(tmp_path, meta, error):
    with pytest.raises(error):
        write(tmp_path / "b", meta)
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_bit_is_found(bundle):
    rng = np.random.default_rng(7)
    for path in all_files(bundle):
        content = path.read_bytes()
        for position in rng.integers(0, 8 * len(content), size=40):
            altered = bytearray(content)
            altered[position // 8] ^= 1 << (position % 8)
            path.write_bytes(altered)
            with pytest.raises(StoreError, match=path.name):
                read(bundle)
        path.write_bytes(content)
    read(bundle)


def test_every_single_bit_of_the_manifest_counts(bundle):
    raw = (bundle / "manifest.json").read_bytes()
    for position in range(8 * len(raw)):
        altered = bytearray(raw)
        altered[position // 8] ^= 1 << (position % 8)
        with pytest.raises(StoreError):
            manifest.parse_manifest(bytes(altered), bundle)


@pytest.mark.parametrize("kept", [0, 0.5, -1])
def test_every_truncated_file_is_found(bundle, kept):
    for path in all_files(bundle):
        content = path.read_bytes()
        path.write_bytes(content[: -1 if kept == -1 else int(kept * len(content))])
        with pytest.raises(StoreError, match=path.name):
            read(bundle)
        if path.name != "manifest.json":
            with pytest.raises(StoreError, match=path.name):
                check_bundle(bundle)
        path.write_bytes(content)
    check_bundle(bundle)


def test_every_missing_file_is_found(bundle):
    for path in all_files(bundle):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(StoreError, match=rf"{path.name} is missing"):
            read(bundle)
        path.write_bytes(content)
    read(bundle)


def test_a_manifest_cannot_name_files_outside(tmp_path):
    raw = manifest.spell_manifest({"../x": manifest.Entry(0, "")})
    with pytest.raises(StoreError, match="outside"):
        manifest.parse_manifest(raw, tmp_path)


def test_extra_files_are_ignored(bundle):
    (bundle / "notes.txt").write_text("mine")
    shutil.copytree(bundle / "arrays.zarr/h", bundle / "arrays.zarr/stray")
    assert sorted(read(bundle).arrays) == ["active", "empty", "h"]


def test_wrong_kind_and_versions_are_named(bundle, tmp_path):
    with pytest.raises(StoreError, match="must be a sparsegp-checkpoint, but is a sparsegp-model"):
        read_bundle(bundle, kind="sparsegp-checkpoint", versions={1})
    write(tmp_path / "new", version=3)
    with pytest.raises(StoreError, match=r"version 3, but only version 1, 2 .* upgrade"):
        read_bundle(tmp_path / "new", kind=KIND, versions={1, 2})
    with pytest.raises(StoreError, match=r"version 1, but only version 2 .* write it anew"):
        read_bundle(bundle, kind=KIND, versions={2})


def test_missing_bundles_are_named(tmp_path):
    with pytest.raises(StoreError, match="nothing does not exist"):
        read(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"manifest\.json is missing"):
        read(tmp_path / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be read"):
        read(tmp_path / "file")


def test_parents_are_made_and_a_bundle_is_replaced_whole(tmp_path):
    path = tmp_path / "a/b/model"
    write(path, {"n": 1}, {"x": np.zeros(3), "gone": np.zeros(1)})
    write(path, {"n": 2}, {"x": np.ones(2)})
    assert read(path).meta == {"n": 2}
    assert list(read(path).arrays) == ["x"]
    assert [item.name for item in path.parent.iterdir()] == ["model"]


def test_what_is_no_bundle_is_never_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.png").write_text("meow")
    (tmp_path / "letter").write_text("dear")
    for name in ("photos", "letter"):
        with pytest.raises(StoreError, match="not a bundle"):
            write(tmp_path / name)
    assert len(all_files(tmp_path)) == 2
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")


def test_a_failure_midway_leaves_the_old_bundle_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write(path, {"n": 1})
    for name, error in [("fsync", OSError(5, "Input/output error")), ("rename", KeyboardInterrupt)]:
        with monkeypatch.context() as patch:

            def fail(*_, error=error):
                raise error

            patch.setattr(files.os, name, fail)
            with pytest.raises((StoreError, KeyboardInterrupt)):
                write(path, {"n": 2}, {"x": np.zeros(3)})
        assert read(path).meta == {"n": 1}
        assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_the_second_rename_failing_puts_the_old_bundle_back(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write(path, {"n": 1})
    rename = os.rename

    def fail_to_place(source, target):
        if str(source).endswith(".tmp"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "rename", fail_to_place)
        with pytest.raises(StoreError, match=r"cannot write .*model: No space left on device"):
            write(path, {"n": 2})
    assert read(path).meta == {"n": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_between_the_two_renames_the_former_bundle_is_read(bundle):
    before = read(bundle)
    (bundle.parent / ".other.0123456789abcdef0123456789abcdef.old").mkdir()
    bundle.rename(files.beside(bundle, "old"))
    files.beside(bundle, "tmp").mkdir()
    assert read(bundle).meta == before.meta
    assert not bundle.exists()
    sweep_bundle(bundle)
    assert read(bundle).meta == before.meta
    assert len(list(bundle.parent.iterdir())) == 2
    bundle.rename(files.beside(bundle, "old"))
    write(bundle, {"n": 2})
    assert read(bundle).meta == {"n": 2}
    assert len(list(bundle.parent.iterdir())) == 2


def test_a_bundle_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write(path, {"n": 1}, {"x": np.zeros(3)})
    decode, replacements = group.decoded, [2]

    def replace_first(place, names):
        if replacements:
            write(path, {"n": replacements.pop()}, {"x": np.ones(3)})
        return decode(place, names)

    monkeypatch.setattr("sparsegp.checkpoint.store.decoded", replace_first)
    found = read(path)
    assert found.meta == {"n": 2}
    np.testing.assert_array_equal(found.arrays["x"], np.ones(3))
    replacements.extend(range(10))
    with pytest.raises(StoreError, match="was replaced 5 times"):
        read(path)


def test_remove(bundle):
    bundle.with_name("copy").symlink_to(bundle)
    remove_bundle(bundle.with_name("copy"))
    read(bundle)
    shutil.copytree(bundle, files.beside(bundle, "old"))
    remove_bundle(bundle)
    assert list(bundle.parent.iterdir()) == []
    remove_bundle(bundle)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory(bundle):
    bundle.parent.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="Permission denied"):
            write(bundle, {"n": 2})
        assert read(bundle).meta["kernel"] == "rbf(1.5)"
    finally:
        bundle.parent.chmod(0o700)


def test_importing_does_not_import_zarr(environment):
    code = "import sys, sparsegp.checkpoint; sys.exit('zarr' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
    )
