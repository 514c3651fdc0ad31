"""Readers of files of arrays: .npy, .npz, zarr groups and IDX.

Rows of .npy, zarr and unpacked IDX files stay where they are until the tasks that need them; others
are read into memory. Nothing is ever unpickled.
"""

import math
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparsegp.data.blocks import LARGEST_BLOCK, from_function, from_memory, row_blocks
from sparsegp.data.labels import tidy_labels
from sparsegp.data.readers.columns import LabelColumn
from sparsegp.data.storage import (
    is_url,
    opened,
    read_whole,
    reading,
    require_memory,
    size_of,
    store_of,
)
from sparsegp.data.table import Dataset, Table, require_two_dimensions, table_from_arrays
from sparsegp.errors import DataError

if TYPE_CHECKING:
    import dask.array as da

LABELS = (r"(?<![A-Za-z0-9])X(?![A-Za-z0-9])", "y")
"""The X of X.npy, X_train.npy, foo_X.npy, and what the name of the labels has in its place."""

ARRAYS = ("X", "y", "X_train", "y_train", "X_test", "y_test")

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

GZ = ("", ".gz")


def read_npy(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read "X.npy,y.npy", or X.npy with the y.npy beside it.

    The labels beside a file are those of the same name with y in place of X; there need not be
    any. Beside X_train.npy, X_test.npy and y_test.npy become the test table.
    """
    if "," in name and size_of(name) is None:
        parts = [part.strip() for part in name.split(",")]
        if len(parts) != 2 or None in map(size_of, parts):
            raise DataError(f"a pair of files is given as X.npy,y.npy; no such pair {name!r}")
        return Dataset(_npy_table(*parts))
    train, inputs = _npy_table(name, _beside(name, LABELS)), _beside(name, ("train", "test"))
    labels = inputs and _beside(inputs, LABELS)
    return Dataset(train, _npy_table(inputs, labels) if inputs and labels else None)


def read_npz(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read `X, y` or `X_train, y_train[, X_test, y_test]`; nothing is ever unpickled."""
    with opened(name) as file, zipfile.ZipFile(file) as archive:

        def array(member: str) -> NDArray[Any]:
            info = archive.getinfo(f"{member}.npy")
            with archive.open(info) as content:
                found = _npy_array(content, f"{member} in {name}", info.file_size)
                content.read(1)  # at the end the checksum is compared
                return found

        def table(X: str, y: str | None) -> Table:
            return table_from_arrays(array(X), None if y is None else array(y), f"{name} ({X})")

        members = [each.removesuffix(".npy") for each in archive.namelist()]
        return _dataset(members, table, name)


def _npy_table(inputs: str, labels: str | None) -> Table:
    y = None
    if labels is not None:
        with opened(labels) as file:
            y = tidy_labels(_npy_array(file, labels, size_of(labels)), labels)
    with opened(inputs) as file:
        size = size_of(inputs)
        shape, fortran, dtype = _npy_header(file, inputs, size)
        if len(shape) != 2 or fortran or dtype.kind in "SU":  # no row is in one piece
            file.seek(0)
            return table_from_arrays(_npy_array(file, inputs, size), y, inputs)
        X: Any = _from_file(inputs, file.tell(), (shape[0], shape[1]), dtype)
    return Table(X.astype(dtype.newbyteorder("=")), y, inputs)


def _npy_array(file: IO[bytes], name: str, size: int | None) -> NDArray[Any]:
    """Read an array into memory, as far as its bytes go: what is declared may be wrong."""
    shape, fortran, dtype = _npy_header(file, name, size)
    content = read_whole(file, math.prod(shape) * dtype.itemsize, name)
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _npy_header(
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


def read_zarr(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read a group, in a directory or at a URL, with the arrays of an .npz file.

    Blocks of rows are multiples of the chunks, so no chunk is read twice.
    """
    name = name.rstrip("/")
    with _group(name) as group:

        def table(X: str, y: str | None) -> Table:
            inputs, source = _zarr_array(group, X, name), f"{name} ({X})"
            require_two_dimensions(inputs, source)
            n, p = inputs.shape
            rows = row_blocks(n, p, source, multiple=inputs.chunks[0])
            lazy = from_function(partial(_zarr_rows, name, X), rows, p, inputs.dtype, source)
            if y is None:
                return Table(lazy, None, source)
            labels = _zarr_array(group, y, name)
            if labels.shape[:1] != inputs.shape[:1]:  # before they are read
                raise DataError(
                    f"every row needs one label; {name} has rows of shape {inputs.shape} and "
                    f"labels of shape {labels.shape}"
                )
            require_memory(labels.nbytes, name)
            return Table(lazy, tidy_labels(labels[:], name), source)

        return _dataset([each for each in ARRAYS if each in group], table, name)


def _zarr_rows(name: str, member: str, block: int, rows: slice) -> NDArray[Any]:
    """Read rows of an array of the group."""
    with _group(name) as group:
        return np.asarray(_zarr_array(group, member, name)[rows])


@contextmanager
def _group(name: str) -> Iterator[Any]:
    """Open a group; what goes wrong while it is read is a `DataError`."""
    import zarr  # noqa: PLC0415 - 0.3 s, only where it is needed
    from zarr.storage import FsspecStore, LocalStore  # noqa: PLC0415

    with reading(name):
        store: Any = FsspecStore.from_url if is_url(name) else LocalStore
        group = zarr.open(store(name, read_only=True), mode="r")
        if not isinstance(group, zarr.Group):
            raise DataError(f"{name} is a single array; a group with arrays X and y is needed")
        yield group


def _zarr_array(group: Any, member: str, name: str) -> Any:
    """Return an array of a group, if its sizes and codecs are to be trusted."""
    array = group[member]
    chunk, metadata = array.shards or array.chunks, array.metadata.to_dict()
    if array.dtype.kind not in "biufSUTO":  # the objects are strings of variable length
        raise DataError(f"{name} ({member}) must hold numbers or strings; it holds {array.dtype}")
    if 0 in chunk or math.prod(chunk) * array.dtype.itemsize > 8 * LARGEST_BLOCK:
        raise DataError(
            f"a chunk of {name} ({member}) has the shape {chunk}, where at most "
            f"{8 * LARGEST_BLOCK} bytes are read; store it in smaller chunks"
        )
    codecs = [metadata.get(key) for key in ("codecs", "filters", "compressor")]
    if "pickle" in str(codecs):
        raise DataError(
            f"{name} ({member}) is coded by pickle, which could run code; write it anew without"
        )
    return array


def read_idx(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read images as rows of bytes, with the labels beside them.

    Labels are in the file of the same name with `labels-idx1` for `images-idx3`; there need not
    be any. Beside train-images..., a pair t10k-... becomes the test table.
    """
    images = _beside(name, ("train", "t10k"), ends=GZ)
    test = images and _idx_table(images)
    return Dataset(_idx_table(name), test if test and test.y is not None else None)


def _idx_table(name: str) -> Table:
    labels, y = _beside(name, ("images", "labels"), ("idx3", "idx1"), ends=GZ), None
    if labels is not None:
        y = np.frombuffer(_idx_values(labels, 1)[1], np.uint8).astype(np.int64)
    lazy = not name.lower().endswith(".gz")
    (n, *sides), content = _idx_values(name, 3, lazy)
    shape = n, math.prod(sides)
    if lazy:
        return Table(_from_file(name, 16, shape, np.dtype("u1")), y, name)
    return Table(from_memory(np.frombuffer(content, "u1").reshape(shape), name), y, name)


def _idx_values(name: str, ndim: int, lazy: bool = False) -> tuple[tuple[int, ...], bytearray]:
    """Return the sizes that the header of a file declares, and its values unless `lazy`.

    Four bytes are followed by the sizes, four bytes each, and the values, a byte each.
    """
    magic = bytes([0, 0, 8, ndim])
    with opened(name) as file:
        header = file.read(4 + 4 * ndim)
        shape = tuple(np.frombuffer(header[4:], ">u4").tolist())
        if not header.startswith(magic) or len(shape) != ndim:
            raise DataError(f"{name} must begin with {magic.hex()} and {ndim} sizes")
        n, content = math.prod(shape), bytearray()
        if lazy:
            found = (size_of(name) or 0) - len(header)
        else:
            content = read_whole(file, n, name)
            found = len(content) + len(file.read(1))
    if found != n:
        state = "cut short" if found < n else "too long"
        raise DataError(f"{name} is {state}: {n} values are expected, and there are {found}")
    return shape, content


def _from_file(name: str, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> "da.Array":
    """Chunk an array whose rows follow one another in a file, from some byte on."""
    p = shape[1]
    read = partial(_file_rows, name, offset, p, dtype)
    return from_function(read, row_blocks(*shape, name), p, dtype, name)


def _file_rows(
    name: str, offset: int, p: int, dtype: np.dtype[Any], block: int, rows: slice
) -> NDArray[Any]:
    """Read rows of a file, of one in a store by one request."""
    width = p * dtype.itemsize
    with reading(name):
        fs, path = store_of(name)
        start, end = offset + rows.start * width, offset + rows.stop * width
        content = fs.cat_file(path, start=start, end=end)
    return np.frombuffer(content[: len(content) // width * width], dtype).reshape(-1, p)


def _dataset(
    names: Collection[str], table: Callable[[str, str | None], Table], source: str
) -> Dataset:
    """Make a data set of the arrays `X[, y]` or `X_train, y_train[, X_test, y_test]` of a file.

    `table` makes a table of the arrays with two names, the second of which may be None.
    """
    if "X_train" not in names and "X" in names:
        return Dataset(table("X", "y" if "y" in names else None))
    tested = "X_test" in names
    if not {"X_train", "y_train"} | ({"y_test"} if tested else set()) <= set(names):
        found = ", ".join(each[:40] for each in sorted(names)[:20]) or "nothing"
        raise DataError(
            f"{source} must hold X and y, or X_train, y_train and perhaps X_test, y_test; "
            f"found: {found}"
        )
    test = table("X_test", "y_test") if tested else None
    return Dataset(table("X_train", "y_train"), test)


def _beside(name: str, *replaced: tuple[str, str], ends: Sequence[str] = ("",)) -> str | None:
    """Return the file in the same folder with patterns in its name replaced, None if there is none.

    Either name may end in any of `ends` besides.
    """
    folder, slash, last = name.rpartition("/")
    for end in ends:
        last = last.removesuffix(end)
    other = last
    for pattern, text in replaced:
        other = re.sub(pattern, text, other)
    found = (folder + slash + other + end for end in ends)
    return next((each for each in found if other != last and size_of(each) is not None), None)
