"""Readers of files of arrays: .npy, .npz, zarr groups and IDX.

Rows of .npy, zarr and uncompressed IDX files are read lazily, by the tasks that need them; others
are read into memory. Nothing is ever unpickled.
"""

import math
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparsegp.data.blocks import LARGEST_BLOCK, from_function, row_blocks
from sparsegp.data.frames import listed
from sparsegp.data.labels import tidy_labels
from sparsegp.data.readers.columns import Columns
from sparsegp.data.storage import (
    absolute,
    is_url,
    opened,
    reading,
    require_memory,
    size_of,
    store_of,
    unpacked,
)
from sparsegp.data.table import Dataset, Table, require_two_dimensions, table_from_arrays
from sparsegp.errors import DataError

Header = Callable[[IO[bytes], str], tuple[tuple[int, ...], bool, np.dtype[Any]]]
"""Reads shape, whether in Fortran order, and type of an array from the start of a file."""
LABELS = (r"(?<![A-Za-z0-9])X(?![A-Za-z0-9])", "y")
"""Pattern of the X of X.npy, X_train.npy, foo_X.npy, and its replacement for the labels."""
PIECE = 1 << 20
"""Number of bytes that are read at a time."""
ARRAYS = ("X", "y", "X_train", "y_train", "X_test", "y_test")

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npy(name: str, columns: Columns) -> Dataset:
    """Read "X.npy,y.npy", or X.npy with y.npy in the same folder.

    The file of labels has the same name with y in place of X, and is optional. Next to X_train.npy,
    X_test.npy and y_test.npy become the test table.
    """
    if "," in name and size_of(name) is None:
        parts = [part.strip() for part in name.split(",")]
        if len(parts) != 2 or None in map(size_of, parts):
            raise DataError(f"a pair of files is given as X.npy,y.npy; no such pair {name!r}")
        return Dataset(_table(parts[0], parts[1], _npy_header))
    return _files(name, _npy_header, (LABELS,), ("train", "test"))


def read_idx(name: str, columns: Columns) -> Dataset:
    """Read images in the format of MNIST as rows of bytes, with labels from the same folder.

    The file of labels has the same name with `labels-idx1` for `images-idx3`, and is optional.
    Next to train-images..., a pair t10k-... becomes the test table.
    """
    return _files(name, _idx_header, (("images", "labels"), ("idx3", "idx1")), ("train", "t10k"))


def _files(
    name: str, header: Header, labels: Sequence[tuple[str, str]], split: tuple[str, str]
) -> Dataset:
    """Read a file and its labels, and the test rows in the same folder if they have labels."""
    train, test = _table(name, _beside(name, *labels), header), None
    inputs = _beside(name, split)
    if inputs and (y := _beside(inputs, *labels)):
        test = _table(inputs, y, header)
    return Dataset(train, test)


def _npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    shape, fortran, dtype = HEADERS[npy.read_magic(file)](file)
    if dtype.kind not in "biufcSU" or not dtype.itemsize or min(shape, default=0) < 0:
        raise DataError(
            f"{name} must hold numbers or strings; it declares {dtype} of shape {shape}, and "
            f"Python objects are not read: they could run code"
        )
    return shape, fortran, dtype


def _idx_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read type and number of dimensions (four bytes), and the sizes; an image becomes a row."""
    magic = file.read(4)
    if len(magic) < 4 or not magic.startswith(b"\0\0\x08"):
        raise DataError(f"{name} must begin with the bytes 0, 0, 8 and the number of dimensions")
    n, *sides = np.frombuffer(file.read(4 * magic[3]), ">u4").tolist()
    return (n, math.prod(sides)) if sides else (n,), False, np.dtype(np.uint8)


def _table(inputs: str, labels: str | None, header: Header) -> Table:
    """Create a table from two files; uncompressed rows in C order are read lazily."""
    y = None
    with opened(inputs) as file:
        shape, fortran, dtype = header(file, inputs)
        if labels is not None:
            with opened(labels) as beside:
                y = tidy_labels(_values(beside, labels, *header(beside, labels)), labels)
        packed = unpacked(inputs) != inputs
        if len(shape) != 2 or fortran or dtype.kind in "SU" or packed:
            return table_from_arrays(_values(file, inputs, shape, fortran, dtype), y, inputs)
        offset = file.tell()
    _require_size(inputs, math.prod(shape) * dtype.itemsize, (size_of(inputs) or 0) - offset)
    read = partial(_file_rows, absolute(inputs), offset, shape[1], dtype)
    X: Any = from_function(read, row_blocks(*shape, inputs), shape[1], dtype, inputs)
    return Table(X.astype(dtype.newbyteorder("=")), y, inputs)


def _values(
    file: IO[bytes], name: str, shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Read an array into memory, piece by piece: the size that its header declares may be wrong."""
    size, content = math.prod(shape) * dtype.itemsize, bytearray()
    require_memory(size, name)
    while len(content) < size and (piece := file.read(min(PIECE, size - len(content)))):
        content += piece
    _require_size(name, size, len(content) + len(file.read(1)))  # archives verify a checksum here
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _require_size(name: str, expected: int, found: int) -> None:
    if found != expected:
        state = "cut short" if found < expected else "too long"
        raise DataError(
            f"{name} is {state}: its header declares {expected} bytes, and there are {found}"
        )


def _file_rows(name: str, offset: int, p: int, dtype: np.dtype[Any], rows: slice) -> NDArray[Any]:
    """Read rows of a file; if it is in object storage, by one request."""
    width = p * dtype.itemsize
    with reading(name):
        fs, path = store_of(name)
        start, end = offset + rows.start * width, offset + rows.stop * width
        content = fs.cat_file(path, start=start, end=end)
    return np.frombuffer(content[: len(content) // width * width], dtype).reshape(-1, p)


def read_npz(name: str, columns: Columns) -> Dataset:
    """Read `X, y` or `X_train, y_train[, X_test, y_test]`; nothing is ever unpickled."""
    with opened(name) as file, zipfile.ZipFile(file) as archive:

        def array(member: str) -> NDArray[Any]:
            source = f"{member} in {name}"
            with archive.open(f"{member}.npy") as content:
                return _values(content, source, *_npy_header(content, source))

        def table(X: str, y: str | None) -> Table:
            return table_from_arrays(array(X), None if y is None else array(y), f"{name} ({X})")

        return _dataset([each.removesuffix(".npy") for each in archive.namelist()], table, name)


def read_zarr(name: str, columns: Columns) -> Dataset:
    """Read a zarr group, in a directory or at a URL, with the arrays of an .npz file.

    Blocks of rows are multiples of the chunks, so no chunk is read twice.
    """
    name = name.rstrip("/")
    with _group(name) as group:

        def table(X: str, y: str | None) -> Table:
            inputs, source = _zarr_array(group, X, name), f"{name} ({X})"
            require_two_dimensions(inputs, source)
            n, p = inputs.shape
            rows = row_blocks(n, p, source, multiple=inputs.chunks[0])
            read = partial(_zarr_rows, absolute(name), X)
            lazy = from_function(read, rows, p, inputs.dtype, source)
            if y is None:
                return Table(lazy, None, source)
            labels = _zarr_array(group, y, name)
            require_memory(labels.nbytes, name)
            return Table(lazy, tidy_labels(labels[:], name), source)

        return _dataset([each for each in ARRAYS if each in group], table, name)


def _zarr_rows(name: str, member: str, rows: slice) -> NDArray[Any]:
    """Read rows of an array of a group."""
    with _group(name) as group:
        return np.asarray(_zarr_array(group, member, name)[rows])


@contextmanager
def _group(name: str) -> Iterator[Any]:
    """Open a group; any exception while it is read becomes a `DataError`."""
    import zarr  # noqa: PLC0415 - 0.3 s, only where it is needed
    from zarr.storage import FsspecStore, LocalStore  # noqa: PLC0415

    with reading(name):
        store: Any = FsspecStore.from_url if is_url(name) else LocalStore
        group = zarr.open(store(name, read_only=True), mode="r")
        if not isinstance(group, zarr.Group):
            raise DataError(f"{name} is a single array; a group with arrays X and y is needed")
        yield group


def _zarr_array(group: Any, member: str, name: str) -> Any:
    """Return an array of a group, after checks that its chunks and codecs are safe."""
    array = group[member]
    chunk, metadata = array.shards or array.chunks, array.metadata.to_dict()
    if 0 in chunk or math.prod(chunk) * array.dtype.itemsize > 8 * LARGEST_BLOCK:
        raise DataError(
            f"a chunk of {name} ({member}) has the shape {chunk}, where at most "
            f"{8 * LARGEST_BLOCK} bytes are read; store it in smaller chunks"
        )
    codecs = [metadata.get(key) for key in ("codecs", "filters", "compressor")]
    if "pickle" in str(codecs):
        raise DataError(
            f"{name} ({member}) is coded by pickle, which could run code; write it again without"
        )
    return array


def _dataset(
    names: Collection[str], table: Callable[[str, str | None], Table], source: str
) -> Dataset:
    """Create a data set of the arrays `X[, y]` or `X_train, y_train[, X_test, y_test]` of a file.

    `table` creates a table from the names of two arrays, the second of which may be None.
    """
    if "X_train" not in names and "X" in names:
        return Dataset(table("X", "y" if "y" in names else None))
    tested = "X_test" in names
    if not {"X_train", "y_train"} | ({"y_test"} if tested else set()) <= set(names):
        raise DataError(
            f"{source} must hold X and y, or X_train, y_train and perhaps X_test, y_test; found: "
            f"{listed(sorted(names)) or 'nothing'}"
        )
    test = table("X_test", "y_test") if tested else None
    return Dataset(table("X_train", "y_train"), test)


def _beside(name: str, *replaced: tuple[str, str]) -> str | None:
    """Return the file in the same folder whose name has patterns replaced, compressed or not.

    The result is None if there is no such file, or no pattern occurs.
    """
    folder, slash, last = name.rpartition("/")
    other = last = last.removesuffix(".gz")
    for pattern, text in replaced:
        other = re.sub(pattern, text, other)
    found = (folder + slash + other + end for end in ("", ".gz"))
    return next((each for each in found if other != last and size_of(each) is not None), None)
