"""One file that holds a checkpoint or a model.

It is a zarr group of format 3 in a zip without compression, as `zarr.storage.ZipStore` opens it:
its attributes are JSON, each array is one chunk. The CRC-32 of the members, and the SHA-256 of
their list as the comment of the zip, tell what was altered. Nothing is unpickled, and no memory is
taken for sizes that are only declared.
"""

import hashlib
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparsegp.errors import SparseGPError, StoreError, short
from sparsegp.store.folders import LARGEST, Folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1

PIECE = 1 << 23
"""Bytes that are written while the checksum of the next ones is made."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TYPES = {"bool", "complex64", "complex128", "float16", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_MISFITS = (
    *(AttributeError, ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError),
    *(RecursionError, RuntimeError, TypeError, ValueError, struct.error, zipfile.BadZipFile),
    *(zlib.error, SparseGPError),
)
"""What goes wrong where a file is not what a writer of ours has written."""

_END = struct.Struct("<4s8xLLH")  # of a zip: bytes of the list of members, place, of the comment
_COMMENT = re.compile(rb"sha256 [0-9a-f]{64}")
_COMMENT_BYTES, _LIST_BYTES = 71, 1 << 24


@dataclass(frozen=True)
class Stored:
    """The content of a file.

    Parameters
    ----------
    meta : dict
        JSON, tuples as lists.
    arrays : dict
        Arrays by name.
    """

    meta: dict[str, Any]
    arrays: "dict[str, NDArray[Any]]"


def write_file(
    folder: Folder,
    name: str,
    kind: str,
    meta: Mapping[str, Any],
    arrays: "Mapping[str, NDArray[Any]]",
    new: bool = False,
) -> None:
    """Write a file, on the disk or in the store when this returns.

    Parameters
    ----------
    folder, name : Folder, str
    kind : str
        What it is, `read_file` asks for it again.
    meta : mapping
        JSON values, finite numbers only.
    arrays : mapping
        Numeric or bool arrays by name.
    new : bool
        In an object store: not in place of another.

    Raises
    ------
    StoreError
        If it cannot be written (full disk, no permission); what was there before is there still.
    FileExistsError
        If it is to be new and is there.
    TypeError, ValueError
        If an array is not numeric, or `meta` is no JSON.
    """
    group = {"format": kind, "version": VERSION, "meta": meta}
    root = {"zarr_format": 3, "node_type": "group", "attributes": group}
    members: dict[str, bytes | memoryview] = {"zarr.json": _json(root)}
    for key, values in arrays.items():
        array = np.asarray(values, order="C")
        if array.dtype.name not in _TYPES or not _NAME.fullmatch(key):
            raise TypeError(f"an array must be numeric; {key!r} is of dtype {array.dtype}")
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        members[f"{key}/zarr.json"] = _json(_metadata([*array.shape], array.dtype.name))
        if array.size:
            members[f"{key}/{_chunk(array.ndim)}"] = array.reshape(-1).view(np.uint8).data
    folder.write(name, partial(_fill, members), new)


def read_file(folder: Folder, name: str, kind: str) -> Stored:
    """Return the content of a file.

    Raises
    ------
    StoreError
        If it is missing, truncated, altered, of another kind, or of a version that is not known.
    """
    place = f"{folder}/{name}"
    try:
        with folder.open(name) as file, restoring(place):
            size = _check_end(file)
            with zipfile.ZipFile(file) as archive:
                _check_members(archive, size)
                stored = json.loads(_content(archive, "zarr.json"))["attributes"]
                if stored["format"] != kind or stored["version"] != VERSION:
                    raise StoreError(
                        f"{place} must be a {kind} of version {VERSION}, found "
                        f"{stored['format']} {stored['version']}"
                    )
                names = dict.fromkeys(each.partition("/")[0] for each in archive.namelist())
                found = {key: _array(archive, key) for key in names if key != "zarr.json"}
                if not isinstance(stored["meta"], dict):
                    raise TypeError("its meta is no mapping")
                return Stored(stored["meta"], found)
    except FileNotFoundError:
        raise StoreError(f"{place} is missing; give the path of a run or a model") from None
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{place} cannot be read: {error.strerror or error}") from error


@contextmanager
def restoring(place: str) -> Iterator[None]:
    """Turn what does not fit, while objects are made of a file, into a `StoreError` of its place.

    Raises
    ------
    StoreError
    """
    try:
        yield
    except _MISFITS as error:
        if isinstance(error, StoreError) and str(error).startswith(place):
            raise
        reason = short(f"{type(error).__name__}: {error}", 400)
        raise StoreError(
            f"{place} is damaged or truncated ({reason}); restore it from a copy or write it anew"
        ) from error


class _WrittenBehind:
    """A file that a thread writes to, while the caller makes the checksum of what follows."""

    def __init__(self, file: IO[bytes], thread: ThreadPoolExecutor) -> None:
        self._file, self._thread = file, thread
        self._writes: list[Future[int]] = []

    def write(self, content: "bytes | memoryview") -> int:
        self._writes.append(self._thread.submit(self._file.write, content))
        return len(content)

    def flush(self) -> None:
        for write in self._writes:
            write.result()


def _fill(members: "Mapping[str, bytes | memoryview]", file: IO[bytes]) -> None:
    """Write the zip."""
    with ThreadPoolExecutor(1) as thread:
        behind: Any = _WrittenBehind(file, thread)
        with zipfile.ZipFile(behind, "w") as archive:
            for key, content in members.items():
                info = zipfile.ZipInfo(key)
                info.file_size, info.external_attr = len(content), 0o644 << 16
                with archive.open(info, "w") as member:
                    for start in range(0, len(content), PIECE):
                        member.write(content[start : start + PIECE])
            archive.comment = _digest(archive)
        behind.flush()


def _digest(archive: zipfile.ZipFile) -> bytes:
    """Return the comment of a zip, which names all members with their sizes and checksums."""
    members = [(each.filename, each.file_size, each.CRC) for each in archive.infolist()]
    return f"sha256 {hashlib.sha256(_json(members)).hexdigest()}".encode()


def _check_end(file: IO[bytes]) -> int:
    """Return the size of a zip, if its list of members has a size that is one of ours.

    So `zipfile` reads no list that would fill memory.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size - _COMMENT_BYTES - 20))
    is_long = file.read(4) == b"PK\6\7"  # where another list may be named, as in 2 GB and more
    file.seek(16, os.SEEK_CUR)
    mark, listed, _, length = _END.unpack(file.read(_END.size))
    is_ours = mark == b"PK\5\6" and length == _COMMENT_BYTES and _COMMENT.fullmatch(file.read())
    if not is_ours or listed > _LIST_BYTES or (is_long and size < 1 << 31):
        raise ValueError("its end is not that of a file of sparsegp")
    return size


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    members = archive.infolist()
    if archive.comment != _digest(archive):
        raise ValueError("the SHA-256 of its list of members differs")
    if len(set(archive.namelist())) < len(members) or sum(m.file_size for m in members) > size:
        raise ValueError("it declares more than it holds")
    if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
        raise ValueError("a member of it is compressed or encrypted")


def _content(archive: zipfile.ZipFile, key: str) -> bytes:
    if archive.getinfo(key).file_size > LARGEST:
        raise ValueError(f"{key} is too large")
    return archive.read(key)


def _metadata(shape: list[int], kind: str) -> dict[str, Any]:
    """Return what zarr has to know of an array of one chunk."""
    chunk = [max(1, size) for size in shape]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": [0, 0] if kind.startswith("complex") else False if kind == "bool" else 0,
    }


def _array(archive: zipfile.ZipFile, key: str) -> "NDArray[Any]":
    stored = json.loads(_content(archive, f"{key}/zarr.json"))
    shape, kind = stored["shape"], stored["data_type"]
    if kind not in _TYPES or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"array {key} is {kind} of shape {shape}")
    if stored != _metadata(shape, kind):
        raise ValueError(f"array {key} is stored in another way than ours")
    chunk, size = f"{key}/{_chunk(len(shape))}", math.prod(shape) * np.dtype(kind).itemsize
    if size and archive.getinfo(chunk).file_size != size:
        raise ValueError(f"array {key} of shape {shape} needs {size} bytes")
    array = np.empty(shape, np.dtype(kind).newbyteorder("<"))
    if size:
        flat = array.reshape(-1).view(np.uint8)
        with archive.open(chunk) as member:
            for start in range(0, size, PIECE):
                flat[start : start + PIECE] = np.frombuffer(member.read(PIECE), np.uint8)
    return array.astype(kind, copy=False)


def _chunk(ndim: int) -> str:
    return "/".join(["c", *"0" * ndim])


def _json(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False).encode()
