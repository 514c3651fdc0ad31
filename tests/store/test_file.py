"""One file: what goes in comes out, zarr reads it, and nothing that was altered passes."""

import json
import pickle
import struct
import zipfile
from contextlib import suppress

import numpy as np
import pytest
import zarr
from zarr.storage import ZipStore

from sparsegp.errors import StoreError
from sparsegp.store import folder_of, read_file, write_file
from sparsegp.store.files import VERSION
from tests.runs import peak_memory
from tests.store.archives import forge, members_of, root, seal

KIND, NAME = "some-kind", "file.zarr.zip"
META = {"a": [1, 2.5, "é"], "b": {"c": None, "d": True}, "n": 2**70}
KINDS = ("bool", "i1", "i2", "i4", "i8", "u1", "u8", "f2", "f4", "f8")
ARRAYS = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in KINDS} | {
    "special": np.array([np.nan, np.inf, -0.0, np.nextafter(0, 1)]),
    "one": np.array(2.5, "f4"),
    "empty": np.empty((0, 3)),
    "swapped": np.arange(3, dtype=">f8"),
    "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": np.arange(20)[::3],
    "a.0.b-c_d": np.ones((2, 1, 2, 1)),
}
SMALL = {"h": np.arange(12.0).reshape(4, 3), "flag": np.array([True, False])}
DAMAGED = "is damaged or truncated"


@pytest.fixture
def folder(tmp_path):
    return folder_of(tmp_path)


@pytest.fixture
def path(folder, tmp_path):
    """A file of the small arrays."""
    write_file(folder, NAME, KIND, META, SMALL)
    return tmp_path / NAME


def refused(folder, message=DAMAGED):
    with pytest.raises(StoreError, match=message) as caught:
        read_file(folder, NAME, KIND)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 1000
    assert NAME in text


def test_what_goes_in_comes_out_and_zarr_reads_it(folder, tmp_path):
    write_file(folder, NAME, KIND, META, ARRAYS)
    meta, arrays = read_file(folder, NAME, KIND)
    group = zarr.open_group(ZipStore(tmp_path / NAME, mode="r"), mode="r")
    assert META == meta == group.attrs["meta"]
    assert ARRAYS.keys() == arrays.keys() == set(group.array_keys())
    for name, array in ARRAYS.items():
        native = array.astype(array.dtype.newbyteorder("="))
        assert arrays[name].dtype == native.dtype
        assert arrays[name].flags.writeable
        assert arrays[name].shape == native.shape
        assert arrays[name].tobytes() == native.tobytes()
        np.testing.assert_array_equal(group[name][...], array)


@pytest.mark.parametrize(
    ("meta", "arrays"),
    [
        *(({}, {"x": np.array([each])}) for each in ("text", {}, np.datetime64("2020"), 1j)),
        *(({"x": each}, {}) for each in (np.ones(2), float("nan"))),
    ],
)
def test_what_cannot_be_written_changes_nothing(folder, path, tmp_path, meta, arrays):
    with pytest.raises((TypeError, ValueError)):
        write_file(folder, NAME, KIND, meta, arrays)
    assert read_file(folder, NAME, KIND).meta == META
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_what_is_missing_or_of_another_kind(folder, path):
    with pytest.raises(StoreError, match=r"no run or model at .*other.zarr.zip"):
        read_file(folder, "other.zarr.zip", KIND)
    with pytest.raises(StoreError, match=f"a model of version {VERSION}, found some-kind"):
        read_file(folder, NAME, "model")
    for version in (0, VERSION + 1, str(VERSION), VERSION + 0.5, None, [VERSION]):
        forge(path, {"zarr.json": root(KIND, {}, version)})
        refused(folder, f"must be a {KIND} of version {VERSION}, found")


# -- damage ----------------------------------------------------------------------------------------


def test_every_altered_byte_is_found_or_does_not_matter(folder, path):
    whole, refusals = path.read_bytes(), 0
    places = range(0, len(whole), 3)
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = read_file(folder, NAME, KIND)
        except StoreError:
            refusals += 1
            continue
        assert found.meta == META
        assert all(found.arrays[name].tobytes() == x.tobytes() for name, x in SMALL.items())
    assert refusals > len(places) / 2


def test_files_that_were_cut_or_joined(folder, path):
    whole = path.read_bytes()
    for kept in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:kept])
        refused(folder)
    for other in (whole[10:], whole + b"x", whole[:1000] + whole, b"PK\5\6" * 50):
        path.write_bytes(other)
        with suppress(StoreError):
            assert read_file(folder, NAME, KIND).meta == META


# -- forgeries: the digest fits, what they say does not --------------------------------------------


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


SHAPES = [[10**12, 3], [0, 10**30], [10**9] * 70, [4.0, 3], [-4, -3], [3, 5], None]
DECLARED = [
    {"data_type": "string"},
    {"data_type": "float32"},
    {"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]},
    {"codecs": []},
    {"storage_transformers": [{"name": "x"}]},
]
TEXTS = [b"[" * 100_000, b"[]", b"null", b"{", b"\x00", b"1" * 5000, b'{"a": 3}', b"\xff"]
TEXTS += [pickle.dumps(Trap())]


def test_forgeries_are_refused_in_little_memory(folder, path):
    members = members_of(path)
    h = json.loads(members["h/zarr.json"])
    declared = [*DECLARED]
    for shape in SHAPES:
        chunk = [max(1, size) for size in shape or []]
        grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
        declared.append({"shape": shape, "chunk_grid": grid})
    forgeries = [members | {"h/zarr.json": json.dumps(h | each).encode()} for each in declared]
    forgeries += [{key: members[key] for key in members if key != name} for name in members]
    forgeries += [{"zarr.json": root(KIND, meta)} for meta in (None, [], "x", 3)]
    names = ("../x", "/etc/hostname", "x/y", "\\", "a/../b/zarr.json")
    forgeries += [members | {name: b"x"} for name in names]
    forgeries += [members | {name: text} for text in TEXTS for name in ("zarr.json", "h/zarr.json")]
    for forgery in forgeries:
        forge(path, forgery)
        with peak_memory() as held:
            refused(folder)
            assert held() < 10**7


def test_bombs(folder, tmp_path):
    """Members that are compressed or lie on each other, lists and files that would fill memory."""
    squeezed = {"zarr.json": root(KIND, {}), "x/c": bytes(10**7)}
    forge(tmp_path / NAME, squeezed, zipfile.ZIP_DEFLATED)
    refused(folder)
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        archive.writestr("zarr.json", root(KIND, {}))
        archive.writestr("x", bytes(10**6))
        for i in range(1000):
            archive.filelist.append(zipfile.ZipInfo(f"x{i}"))
            for key in ("file_size", "compress_size", "CRC", "header_offset", "external_attr"):
                setattr(archive.filelist[-1], key, getattr(archive.filelist[1], key))
        seal(archive)
    refused(folder, "declares more than it holds")
    forge(tmp_path / NAME, {"zarr.json": root(KIND, {})})
    whole = bytearray((tmp_path / NAME).read_bytes())
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(1 << 42)
        file.seek(0, 2)
        file.write(whole)
    refused(folder, "of memory")
    struct.pack_into("<L", whole, len(whole) - 71 - 10, 2**31)
    (tmp_path / NAME).write_bytes(whole)
    refused(folder)
