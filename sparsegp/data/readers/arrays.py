"""Readers of .npy pairs, whose rows stay where they are, and of .npz archives, read into memory."""

import math
import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparsegp.data.blocks import from_file
from sparsegp.data.labels import tidy_labels
from sparsegp.data.readers.base import LabelColumn, beside, dataset_of_arrays
from sparsegp.data.storage import opened, read_whole, size_of
from sparsegp.data.table import Dataset, Table, table_from_arrays
from sparsegp.errors import DataError

LABELS = (r"(?<![A-Za-z0-9])X(?![A-Za-z0-9])", "y")
"""The X of X.npy, X_train.npy, foo_X.npy, and what the name of the labels has in its place."""

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npy(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read "X.npy,y.npy", or X.npy with the y.npy beside it.

    The labels beside a file are those of the same name with y in place of X; there need not be
    any. Beside X_train.npy, X_test.npy and y_test.npy become the test table.
    """
    if "," in name and size_of(name) is None:
        parts = [part.strip() for part in name.split(",")]
        if len(parts) != 2 or None in map(size_of, parts):
            raise DataError(f"a pair of files is given as X.npy,y.npy; no such pair {name!r}")
        return Dataset(_table(*parts))
    train, inputs = _table(name, beside(name, LABELS)), beside(name, ("train", "test"))
    labels = inputs and beside(inputs, LABELS)
    return Dataset(train, _table(inputs, labels) if inputs and labels else None)


def read_npz(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read `X, y` or `X_train, y_train[, X_test, y_test]`; nothing is ever unpickled."""
    with opened(name) as file, zipfile.ZipFile(file) as archive:

        def array(member: str) -> NDArray[Any]:
            info = archive.getinfo(f"{member}.npy")
            with archive.open(info) as content:
                found = _array(content, f"{member} in {name}", info.file_size)
                content.read(1)  # at the end the checksum is compared
                return found

        def table(X: str, y: str | None) -> Table:
            return table_from_arrays(array(X), None if y is None else array(y), f"{name} ({X})")

        members = [each.removesuffix(".npy") for each in archive.namelist()]
        return dataset_of_arrays(members, table, name)


def _table(inputs: str, labels: str | None) -> Table:
    y = None
    if labels is not None:
        with opened(labels) as file:
            y = tidy_labels(_array(file, labels, size_of(labels)), labels)
    with opened(inputs) as file:
        size = size_of(inputs)
        shape, fortran, dtype = _header(file, inputs, size)
        if len(shape) != 2 or fortran or dtype.kind in "SU":  # no row is in one piece
            file.seek(0)
            return table_from_arrays(_array(file, inputs, size), y, inputs)
        X: Any = from_file(inputs, file.tell(), (shape[0], shape[1]), dtype)
    return Table(X.astype(dtype.newbyteorder("=")), y, inputs)


def _array(file: IO[bytes], name: str, size: int | None) -> NDArray[Any]:
    """Read an array into memory, as far as its bytes go: what is declared may be wrong."""
    shape, fortran, dtype = _header(file, name, size)
    content = read_whole(file, math.prod(shape) * dtype.itemsize, name)
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _header(
    file: IO[bytes], name: str, size: int | None
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array; the file, of so many bytes, stands at its values then."""
    shape, fortran, dtype = HEADERS[npy.read_magic(file)](file)
    if dtype.kind not in "biufcSU" or not dtype.itemsize:
        raise DataError(
            f"{name} must hold numbers or strings; it declares {dtype} of shape {shape}, and "
            f"Python objects are not read: they could run code"
        )
    expected = file.tell() + math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or expected > (size or 0):
        raise DataError(
            f"cannot read {name}: it is cut short or damaged, {dtype} of shape {shape} take "
            f"{expected} bytes and it has {size}"
        )
    return shape, fortran, dtype
