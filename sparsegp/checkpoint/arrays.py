"""Numeric arrays as the files of a zarr group, format 3, uncompressed, each chunk with a CRC-32C.

Zarr only encodes here: it writes into a dictionary that is emptied after every chunk, so that the
caller writes, digests and syncs the files itself and at most one chunk is held twice.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK_BYTES = 64 * 2**20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_METADATA = "zarr.json"
_CHECKSUM_BYTES = 4
_TYPES = frozenset(
    {"bool", "complex64", "complex128", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


def checked(arrays: Mapping[str, "NDArray[Any]"]) -> "dict[str, NDArray[Any]]":
    """Return the arrays in native byte order after a check of names and types.

    Raises
    ------
    TypeError
        If one is not of bool, integer, float or complex numbers of at most 64 bits a part.
    ValueError
        If a name is not made of letters, digits, `_`, `.` and `-`, or two differ in case only.
    """
    native = {}
    for name, values in arrays.items():
        if not _NAME.fullmatch(name) or name == _METADATA or name.startswith("__"):
            raise ValueError(f"array name {name!r} must be letters, digits, '_', '.' and '-'")
        array = np.asarray(values)
        widest = 16 if array.dtype.kind == "c" else 8
        if array.dtype.kind not in "biufc" or array.dtype.itemsize > widest:
            raise TypeError(f"array {name!r} must be numeric or bool, got dtype {array.dtype}")
        native[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    if len({name.lower() for name in native}) < len(native):
        raise ValueError(f"array names must differ in more than case, got {sorted(native)}")
    return native


def encoded(arrays: Mapping[str, "NDArray[Any]"]) -> Iterator[tuple[str, memoryview]]:
    """Yield name and content of every file of the group, chunk after chunk."""
    import zarr  # noqa: PLC0415 - 0.3 s, only when something is saved
    from zarr.storage import MemoryStore  # noqa: PLC0415

    pending: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(pending), zarr_format=3)
    for name, values in arrays.items():
        target = _create(group, name, values)
        for part in _parts(values):
            target[part] = values[part]
            for key in [key for key in pending if not key.endswith(_METADATA)]:
                yield key, _bytes(pending.pop(key))
    for key in sorted(pending):
        yield key, _bytes(pending.pop(key))


def decoded(
    group: Path | Mapping[str, bytes], files: Mapping[str, int]
) -> "dict[str, NDArray[Any]]":
    """Load all arrays of a group.

    Parameters
    ----------
    group : Path or mapping
        Its directory, or the contents of its files by name.
    files : mapping
        Sizes in bytes of its files, by their names relative to the group.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError
        If a file is missing or is not what `encoded` wrote.
    """
    import zarr  # noqa: PLC0415 - 0.3 s, only when something is loaded
    from zarr.buffer.cpu import Buffer  # noqa: PLC0415
    from zarr.storage import LocalStore, MemoryStore  # noqa: PLC0415

    store: LocalStore | MemoryStore
    if isinstance(group, Path):
        store = LocalStore(group, read_only=True)
    else:
        held: dict[str, Any] = {name: Buffer.from_bytes(each) for name, each in group.items()}
        store = MemoryStore(held, read_only=True)
    loaded = {}
    for name in sorted(file.partition("/")[0] for file in files if file.endswith(f"/{_METADATA}")):
        file = f"{name}/{_METADATA}"
        raw = (group / file).read_bytes() if isinstance(group, Path) else group[file]
        _check(json.loads(raw), name, files)
        array = zarr.open_array(store, path=name, mode="r", zarr_format=3)
        loaded[name] = np.asarray(array[...])
    return loaded


def _check(metadata: Mapping[str, Any], name: str, files: Mapping[str, int]) -> None:
    """Refuse metadata that `_create` would not have written, or that the files do not bear out.

    So nothing is made of a size that was only declared, and no codec runs but the two of ours.
    """
    shape, kind = metadata["shape"], metadata["data_type"]
    chunks = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    sizes = [*shape, *chunks]
    codecs = [codec["name"] for codec in metadata["codecs"]]
    if kind not in _TYPES or codecs != ["bytes", "crc32c"] or len(shape) != len(chunks):
        raise ValueError(f"array {name!r} is {kind!r}, coded by {codecs!r}, in chunks {chunks!r}")
    if not all(type(size) is int and size >= 0 for size in sizes) or 0 in chunks:
        raise ValueError(f"array {name!r} has the shape {shape!r} in chunks {chunks!r}")
    fill = metadata["fill_value"]
    if not all(part in {"NaN", 0} for part in (fill if isinstance(fill, list) else [fill])):
        raise ValueError(f"array {name!r} has the fill value {fill!r}")
    n_chunks = math.prod(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
    chunk_bytes = math.prod(chunks) * np.dtype(kind).itemsize + _CHECKSUM_BYTES
    found = [size for file, size in files.items() if file.startswith(f"{name}/c")]
    if len(found) != n_chunks or any(size != chunk_bytes for size in found):
        raise ValueError(
            f"array {name!r} of shape {shape} needs {n_chunks} chunks of {chunk_bytes} bytes, "
            f"there are {len(found)}"
        )


def _create(group: Any, name: str, values: "NDArray[Any]") -> Any:
    from zarr.codecs import Crc32cCodec  # noqa: PLC0415

    sizes = tuple(max(1, size) for size in values.shape)
    return group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(_rows(values), *sizes[1:]) if sizes else (),
        compressors=[Crc32cCodec()],
        filters=None,
        fill_value=np.nan if values.dtype.kind in "fc" else 0,
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"order": "C", "write_empty_chunks": True},
    )


def _rows(values: "NDArray[Any]") -> int:
    """Rows of a chunk: the fewest chunks that stay under the limit, of nearly equal size."""
    n_rows = max(1, len(values))
    n_chunks = min(n_rows, -(-values.nbytes // CHUNK_BYTES)) or 1
    return -(-n_rows // n_chunks)


def _parts(values: "NDArray[Any]") -> Iterator[Any]:
    if values.ndim == 0:
        yield ...
    elif values.size:
        rows = _rows(values)
        for first in range(0, len(values), rows):
            yield slice(first, first + rows)


def _bytes(buffer: Any) -> memoryview:
    return np.ascontiguousarray(buffer.as_numpy_array()).data.cast("B")
