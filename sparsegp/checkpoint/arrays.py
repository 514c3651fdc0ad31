"""Numeric arrays as the files of a zarr group, format 3, uncompressed, each chunk with a CRC-32C.

Zarr only encodes here: it writes into a dictionary that is emptied after every chunk, so that the
caller writes, digests and syncs the files itself and at most one chunk is held twice.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK_BYTES = 64 * 2**20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_METADATA = "zarr.json"


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


def decoded(path: Path, names: Iterable[str]) -> "dict[str, NDArray[Any]]":
    """Load the named arrays of the group at `path`.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        If a file is missing or is not what `encoded` wrote.
    """
    import zarr  # noqa: PLC0415 - 0.3 s, only when something is loaded
    from zarr.storage import LocalStore  # noqa: PLC0415

    store = LocalStore(path, read_only=True)
    loaded = {}
    for name in names:
        array = zarr.open_array(store, path=name, mode="r", zarr_format=3)
        loaded[name] = np.asarray(array[...])
    return loaded


def names_in(files: Iterable[str]) -> list[str]:
    """Return the names of the arrays whose files are listed relative to the group."""
    ending = "/" + _METADATA
    return sorted(name.removesuffix(ending) for name in files if name.endswith(ending))


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
