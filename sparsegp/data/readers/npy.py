"""Reader of .npy pairs. Rows stay where they are: a task reads the bytes of its own."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function, row_blocks
from sparsegp.data.readers.array_header import Header, read_header
from sparsegp.data.readers.base import Request, reader
from sparsegp.data.storage import (
    is_file,
    is_url,
    open_plain,
    read_range,
    read_whole,
    reading,
    sibling,
    version,
)
from sparsegp.data.table import Dataset, Table, check_table, table_from_arrays, tidy_labels
from sparsegp.errors import DataError

LONE_X = re.compile(r"(?<![A-Za-z0-9])X(?![A-Za-z0-9])")
"""The X of X.npy, X_train.npy, foo_X.npy."""

TRAIN = re.compile("train")


@reader(".npy", magic=b"\x93NUMPY", urls=True)
def read_npy(name: str, request: Request) -> Dataset:
    """Read "X.npy,y.npy", or X.npy with the y.npy beside it.

    The labels beside a file are those of the same name with y in place of X; there need not be
    any. Beside X_train.npy, X_test.npy and y_test.npy become the test table.

    Raises
    ------
    DataError
        If a file is missing, damaged, or holds Python objects.
    """
    if "," in name and not is_file(name):
        return Dataset(_table(*_pair(name)))
    inputs, labels = name, _renamed(name, LONE_X, "y")
    train = _table(inputs, labels if labels != inputs else None)
    inputs, labels = _renamed(inputs, TRAIN, "test"), _renamed(labels, TRAIN, "test")
    if inputs in {labels, name} or not (is_file(inputs) and is_file(labels)):
        return Dataset(train)
    return Dataset(train, _table(inputs, labels))


def read_rows(name: str, stamp: str, header: Header, start: int, stop: int) -> NDArray[Any]:
    """Read rows start..stop-1 of an array; `stamp` tells versions of the file apart."""
    with reading(name):
        if header.fortran:  # its rows are scattered over the file
            mapped = np.memmap(name, header.dtype, "r", header.offset, header.shape, "F")
            return np.array(mapped[start:stop])
        row = header.nbytes // header.shape[0]
        content = read_range(name, header.offset + start * row, header.offset + stop * row)
        return np.frombuffer(content, header.dtype).reshape(-1, header.shape[1])


def _pair(name: str) -> tuple[str, str]:
    parts = [part.strip() for part in name.split(",")]
    parts = [part if is_url(part) else str(Path(part).expanduser()) for part in parts]
    for part in parts:
        if not is_file(part):
            raise DataError(f"no such file {part!r}; a pair of arrays is given as X.npy,y.npy")
    if len(parts) != 2 or not all(part.lower().endswith(".npy") for part in parts):
        raise DataError(f"a pair of arrays is given as X.npy,y.npy; found {name!r}")
    return parts[0], parts[1]


def _table(inputs: str, labels: str | None) -> Table:
    """Make a table of two files, of which that of the labels need not be there."""
    header, stamp = _header(inputs)
    y = None
    if labels is not None and is_file(labels):
        y = tidy_labels(_whole(labels, _header(labels)[0]), labels)
    if len(header.shape) != 2 or header.dtype.kind in "SU":
        return table_from_arrays(_whole(inputs, header), y, inputs)
    if header.fortran and is_url(inputs):
        raise DataError(
            f"{inputs} is stored column by column, so that its rows cannot be fetched alone; "
            f"store np.ascontiguousarray(X)"
        )
    n, p = header.shape
    blocks = row_blocks(n, p, inputs)
    given = [(inputs, stamp, header, start, stop) for start, stop in blocks]
    X = from_function(read_rows, given, [b - a for a, b in blocks], p, header.dtype, inputs)
    return check_table(Table(X, y, inputs))


def _header(name: str) -> tuple[Header, str]:
    size, stamp = version(name)
    with reading(name), open_plain(name) as file:
        if file.read(4) == b"PK\x03\x04":
            raise DataError(f"{name} is an archive of arrays; call it .npz")
        file.seek(0)
        return read_header(file, name, size), stamp


def _whole(name: str, header: Header) -> NDArray[Any]:
    with reading(name), open_plain(name) as file:
        file.seek(header.offset)
        return header.array(read_whole(file, header.nbytes, name))


def _renamed(name: str, pattern: re.Pattern[str], text: str) -> str:
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    return sibling(name, pattern.sub(text, stem) + dot + ending)
