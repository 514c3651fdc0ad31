"""What a reader is, how one is registered, and how the one for a file is found."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, cast

from sparsegp.data.storage import reading
from sparsegp.data.table import Dataset
from sparsegp.errors import DataError
from sparsegp.registry import Registry

LabelColumn: TypeAlias = str | int | None
"""A column's name, its number counted from 0 (negative: from the end), or None for the last."""


@dataclass(frozen=True)
class Request:
    """What the caller knows of the data.

    Parameters
    ----------
    label_column : str, int or None
        For formats that keep labels in a column.
    n_features : int or None
        The columns that a model takes.
    """

    label_column: LabelColumn = None
    n_features: int | None = None


@dataclass(frozen=True)
class Reader:
    """One file format.

    Parameters
    ----------
    read : callable
        Takes the name of a file and a `Request`, gives a `Dataset`.
    magic : bytes
        How its files begin; empty where nothing is certain.
    columns : bool
        Labels are one of the columns.
    urls : bool
        Files may be in a store, named by a URL; rows are read there by the tasks that need them.
    """

    read: Callable[[str, Request], Dataset]
    magic: bytes = b""
    columns: bool = False
    urls: bool = False


READERS: Registry[Reader] = Registry("format")
"""Readers by the ends of the names of their files."""

ReadFunction: TypeAlias = Callable[[str, Request], Dataset]


def reader(
    *endings: str, magic: bytes = b"", columns: bool = False, urls: bool = False
) -> Callable[[ReadFunction], ReadFunction]:
    """Register the decorated function for files whose names end so; see `Reader`."""

    def add(read: ReadFunction) -> ReadFunction:
        for ending in endings:
            READERS.register(ending)(Reader(read, magic, columns, urls))
        return read

    return add


def find_reader(path: Path) -> Reader:
    """Choose the reader of a file or directory by its name, else by its first bytes.

    Raises
    ------
    DataError
        If neither is known.
    """
    name = path.name.lower().removesuffix(".gz")
    for ending in READERS:
        if name.endswith(ending):
            return READERS[ending]
    if path.is_dir():
        if any((path / entry).exists() for entry in ("zarr.json", ".zgroup", ".zarray")):
            return READERS[".zarr"]
    else:
        with reading(str(path)), open_bytes(str(path)) as file:
            start = file.read(16)
        for ending in READERS:
            magic = READERS[ending].magic
            if magic and start.startswith(magic):
                return READERS[ending]
    known = ", ".join(READERS)
    raise DataError(
        f"the format of {str(path)!r} is not known; names must end in one of: {known} (text and "
        f"IDX files may be compressed, with .gz at the end)"
    )


def find_url_reader(url: str) -> Reader:
    """Choose the reader of a file in a store by its name; one without an ending is a zarr group.

    Raises
    ------
    DataError
        If files of this format cannot be read from a store.
    """
    name = url.split(",", maxsplit=1)[0].rstrip("/").rpartition("/")[2].lower()
    if "." not in name:
        return READERS[".zarr"]
    for ending in READERS:
        if name.endswith(ending) and READERS[ending].urls:
            return READERS[ending]
    known = ", ".join(ending for ending in READERS if READERS[ending].urls)
    raise DataError(
        f"{url} cannot be read where it is: in a store there may be {known}; copy it here, or "
        f"convert it"
    )


def open_bytes(name: str) -> IO[bytes]:
    """Open a file for reading bytes, unpacking it when its name ends in .gz."""
    if name.lower().endswith(".gz"):
        return cast("IO[bytes]", gzip.open(name))
    return Path(name).open("rb")
