"""File format of checkpoints and models: JSON and arrays in one file.

A file is a zarr group of format 3 in an uncompressed zip archive, which `zarr.storage.ZipStore` can
open: its attributes are JSON, and each array is one chunk. The CRC-32 of each member, and the
SHA-256 of the list of members in the archive comment, detect any alteration. Nothing is unpickled,
and no memory is allocated on the strength of a declared size alone.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.storage import require_memory
from sparsegp.errors import StoreError, short
from sparsegp.store.folders import Folder

VERSION = 3
"""Version of the format: models of version 1 lack the triangular factor that predictions need, and
those of version 2 encode categories with many levels differently."""

MAX_JSON, MAX_LISTED = 1 << 26, 1 << 24
"""Maximum bytes of JSON in a file, and of the list of members of an archive."""

_TYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
_ZIP_END = re.compile(rb"PK\x05\x06.{8}(.{4}).{6}sha256 [0-9a-f]{64}", re.DOTALL)


class Stored(NamedTuple):
    """Content of a checkpoint or a model: JSON (tuples become lists), and arrays by name."""

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write_file(
    folder: Folder,
    name: str,
    kind: str,
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    new: bool = False,
) -> None:
    """Write a checkpoint or a model (`kind`) durably to the disk or object store.

    Raises
    ------
    StoreError
        If it cannot be written (full disk, no permission); an earlier file is unchanged.
    FileExistsError
        If it must be `new` in an object store, where another one exists already.
    TypeError, ValueError
        If `meta` is not JSON, or an array does not hold bools, integers or floats.
    """
    group = {"format": kind, "version": VERSION, "meta": meta}
    root = {"zarr_format": 3, "node_type": "group", "attributes": group}
    with folder.writing(name, new) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("zarr.json", _json(root))
        for key, values in arrays.items():
            array = np.asarray(values, order="C")
            if not _TYPE.fullmatch(array.dtype.name):
                raise TypeError(f"an array must be numeric; {key!r} is of dtype {array.dtype}")
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            archive.writestr(f"{key}/zarr.json", _json(_metadata([*array.shape], array.dtype.name)))
            archive.writestr(_chunk(key, array.shape), array.reshape(-1).view(np.uint8).data)
        archive.comment = _digest(archive)


def read_file(folder: Folder, name: str, kind: str) -> Stored:
    """Return the content of a checkpoint or a model.

    Raises
    ------
    StoreError
        If it is missing, truncated, altered, of another kind, or of another version.
    """
    place = f"{folder}/{name}"
    try:
        file = folder.open(name)
    except FileNotFoundError:
        raise StoreError(f"there is no run or model at {place}; check the path") from None
    with file, read_errors(place), _open_zip(file, place) as archive:
        root = json.loads(archive.read("zarr.json"))["attributes"]
        if root["format"] != kind or root["version"] != VERSION:
            raise StoreError(
                f"{place} must be a {kind} of version {VERSION}, found {root['format']} "
                f"{root['version']}; train it again with this version"
            )
        names = dict.fromkeys(each.partition("/")[0] for each in archive.namelist())
        arrays = {key: _array(archive, key) for key in names if key != "zarr.json"}
        return Stored({**root["meta"]}, arrays)


@contextmanager
def read_errors(place: str, otherwise: str = "write it again") -> Iterator[None]:
    """Turn any error while a file is read, or objects are created from it, into a `StoreError`.

    `otherwise` is the advice in case there is no copy of the file.
    """
    try:
        yield
    except MemoryError:  # which says nothing about the file
        raise
    except Exception as error:
        if isinstance(error, StoreError) and str(error).startswith(place):
            raise
        reason = short(f"{type(error).__name__}: {error}", 400)
        raise StoreError(
            f"{place} is damaged or truncated ({reason}); restore it from a copy, or {otherwise}"
        ) from error


def _open_zip(file: IO[bytes], place: str) -> zipfile.ZipFile:
    """Open an archive after checking that its list of members, which is read at once, is small."""
    size = file.seek(0, os.SEEK_END)
    require_memory(size, "the file")
    file.seek(0)
    if file.read(4) not in {b"PK\3\4", b""}:
        raise StoreError(
            f"{place} is not a model or run of sparsegp, or its first bytes are damaged; give the "
            "path of a run or a model"
        )
    file.seek(max(0, size - 113))
    end = file.read()
    found = _ZIP_END.fullmatch(end, 20)
    is_long = end.startswith(b"PK\6\7")  # ZIP64, for 2 GB and more, may point to another list
    if not found or int.from_bytes(found[1], "little") > MAX_LISTED or (is_long and size < 2**31):
        raise ValueError("its end is not that of a file of sparsegp")
    archive = zipfile.ZipFile(file)
    members = archive.infolist()
    if archive.comment != _digest(archive):
        raise ValueError("the SHA-256 of its list of members differs")
    json_bytes = sum(each.file_size for each in members if each.filename.endswith("zarr.json"))
    if sum(each.file_size for each in members) > size or json_bytes > MAX_JSON:
        raise ValueError("it declares more than it holds")
    if any(each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1 for each in members):
        raise ValueError("a member of it is compressed or encrypted")
    return archive


def _digest(archive: zipfile.ZipFile) -> bytes:
    """Return the comment of an archive: a digest of the names, sizes and checksums of members."""
    members = [(each.filename, each.file_size, each.CRC) for each in archive.infolist()]
    return f"sha256 {hashlib.sha256(_json(members)).hexdigest()}".encode()


def _metadata(shape: list[int], kind: str) -> dict[str, Any]:
    """Return the metadata of a zarr array with a single chunk."""
    chunk = [max(1, size) for size in shape]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": False if kind == "bool" else 0,
    }


def _array(archive: zipfile.ZipFile, key: str) -> NDArray[Any]:
    found = json.loads(archive.read(f"{key}/zarr.json"))
    shape, kind = found["shape"], found["data_type"]
    if not _TYPE.fullmatch(kind) or found != _metadata(shape, kind):
        raise ValueError(f"array {key}, {kind} of {shape}, is stored in another way than ours")
    values = bytearray(archive.read(_chunk(key, shape)))  # writeable
    array = np.frombuffer(values, np.dtype(kind).newbyteorder("<")).reshape(shape)
    return array.astype(kind, copy=False)


def _chunk(key: str, shape: "tuple[int, ...] | list[int]") -> str:
    return "/".join([key, "c", *"0" * len(shape)])


def _json(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False).encode()
