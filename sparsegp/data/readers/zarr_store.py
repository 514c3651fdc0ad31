"""Opens the arrays of zarr groups that others wrote, in a directory or in a store of fsspec.

What metadata declare is checked before zarr sees it. Values are decoded by codecs that compress,
filter or check, and by no others: zarr knows some that unpickle, or whatever an installed package
has registered. No file outside of the group's directory is read.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparsegp.data.blocks import LARGEST_BLOCK
from sparsegp.data.storage import is_file, is_url, printable, read_json, reading
from sparsegp.errors import DataError

KINDS = "biufSUTO"
"""Kinds of dtype that are read; the objects are strings of variable length."""

CODECS = frozenset(
    {"bytes", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes"}
    | {"blosc", "zstd", "zlib", "gzip", "lz4", "bz2", "lzma"}
    | {"crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"}
    | {"delta", "shuffle", "fixedscaleoffset", "bitround", "quantize", "packbits", "astype"}
)
"""Names of the codecs that are used, without the prefix of those that numcodecs lends."""

MISFITS = (TypeError, RuntimeError, OverflowError, SystemError)
"""What zarr and its codecs raise, beside `ValueError`, on metadata and chunks that do not fit."""


def zarr_format(name: str) -> int:
    """Return 2 or 3, the format of the group at a path or URL.

    Raises
    ------
    DataError
        If there is no group.
    """
    if is_file(f"{name}/zarr.json"):
        kind = _entry(read_json(f"{name}/zarr.json"), "node_type")
        version = 3
    else:
        kind = "group" if is_file(f"{name}/.zgroup") else None
        kind = "array" if is_file(f"{name}/.zarray") else kind
        version = 2
    if kind == "array":
        raise DataError(f"{name} is a single array; a group with the arrays X and y is needed")
    if kind is None and is_url(name):
        raise DataError(f"cannot read {name}: no such bucket or object, or no zarr group")
    if kind != "group":
        raise DataError(f"cannot read {name}: there is no zarr group, or it is damaged")
    return version


@contextmanager
def opened(name: str, member: str, version: int) -> Iterator[Any]:
    """Open an array of a group; what goes wrong while it is read is a `DataError`.

    Parameters
    ----------
    name : str
        Path or URL of the group.
    member : str
        Name of the array.
    version : int
        Of the format, 2 or 3.

    Raises
    ------
    DataError
        If it is damaged, holds other than numbers and strings, is coded in a way that is not
        known to be safe, or has chunks that are too large to hold.
    """
    import zarr  # noqa: PLC0415 - 0.3 s, only where it is needed
    from zarr.storage import FsspecStore  # noqa: PLC0415

    source = f"{name} ({member})"
    metadata = read_json(f"{name}/{member}/{'zarr.json' if version == 3 else '.zarray'}")
    _check(metadata, version, source)
    with reading(source):
        try:
            store: Any = (
                FsspecStore.from_url(name, read_only=True) if is_url(name) else _contained(name)
            )
            format_: Any = version
            array: Any = zarr.open_array(store, path=member, mode="r", zarr_format=format_)
            if array.dtype.kind not in KINDS:
                raise DataError(f"{source} must hold numbers or strings; it holds {array.dtype}")
            yield array
        except MISFITS as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None


def _check(metadata: Any, version: int, source: str) -> None:
    """Refuse metadata of an array whose sizes or codecs are not to be trusted."""
    if version == 3:
        grid = _entry(_entry(metadata, "chunk_grid"), "configuration")
        chunks, codecs = _entry(grid, "chunk_shape"), _nested(_entry(metadata, "codecs"))
        names = [_entry(codec, "name") if isinstance(codec, dict) else codec for codec in codecs]
    else:
        chunks, filters = _entry(metadata, "chunks"), _entry(metadata, "filters") or []
        codecs = filters if isinstance(filters, list) else [filters]
        codecs = [codec for codec in [*codecs, _entry(metadata, "compressor")] if codec is not None]
        names = [_entry(codec, "id") for codec in codecs]
    shape = _entry(metadata, "shape")
    if not (_are_sizes(shape) and _are_sizes(chunks) and len(shape) == len(chunks)):
        raise DataError(
            f"cannot read {source}: its metadata are damaged, with shape "
            f"{printable(repr(shape))} and chunks {printable(repr(chunks))}"
        )
    if 0 in chunks or math.prod(chunks) > LARGEST_BLOCK:
        raise DataError(
            f"a chunk of {source} has the shape {chunks}, where 1 to {LARGEST_BLOCK} values are "
            f"read; store it in smaller chunks"
        )
    unknown = {str(name).removeprefix("numcodecs.") for name in names} - CODECS
    if unknown:
        raise DataError(
            f"{source} is coded by {printable(', '.join(sorted(unknown)))}, which is not read; "
            f"write it anew with compressors of zarr or none"
        )


def _entry(metadata: Any, key: str) -> Any:
    return metadata.get(key) if isinstance(metadata, dict) else None


def _are_sizes(sizes: Any) -> bool:
    return isinstance(sizes, list) and all(
        type(size) is int and 0 <= size < 2**63 for size in sizes
    )


def _nested(codecs: Any) -> list[Any]:
    """Return the codecs of a list and of the shards in it."""
    if not isinstance(codecs, list):
        return [codecs]
    found = list(codecs)
    for codec in codecs:
        shard = _entry(codec, "configuration")
        for key in ("codecs", "index_codecs"):
            if _entry(shard, key) is not None:
                found += _nested(shard[key])
    return found


def _contained(path: str) -> Any:
    """Return a store of the files below a directory; links that lead out of it are refused."""
    from zarr.storage import LocalStore  # noqa: PLC0415

    root = os.path.realpath(path)

    class Contained(LocalStore):
        async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
            place = os.path.realpath(os.path.join(root, key))
            if os.path.commonpath([root, place]) != root:
                raise DataError(f"{path}/{key} leads out of its folder; copy the file into it")
            if os.path.exists(place) and not os.path.isfile(place):
                raise DataError(f"{path}/{key} is no file")
            return await super().get(key, *arguments, **options)

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            return [await self.get(key, prototype, part) for key, part in key_ranges]

    return Contained(path, read_only=True)
