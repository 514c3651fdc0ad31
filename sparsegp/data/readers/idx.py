"""Reader of IDX images, the format of MNIST. Unpacked files stay on disk, .gz are read whole."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function, from_memory, row_blocks
from sparsegp.data.readers.base import Request, open_bytes, reader
from sparsegp.data.storage import read_range, read_whole, reading, version
from sparsegp.data.table import Dataset, Table, check_table
from sparsegp.errors import DataError

IMAGES = bytes([0, 0, 8, 3])
LABELS = bytes([0, 0, 8, 1])


@reader("idx3-ubyte", magic=IMAGES)
def read_idx(name: str, request: Request) -> Dataset:
    """Read images as rows of bytes, with the labels beside them.

    Labels are in the file of the same name with `labels-idx1` for `images-idx3`; there need not
    be any. Beside train-images..., a pair t10k-... becomes the test table.

    Raises
    ------
    DataError
        If a file is damaged, cut short, or not what its name says.
    """
    images = Path(name)
    train = _table(images, _beside(images, "images", "labels", "idx3", "idx1"))
    if not images.name.startswith("train"):
        return Dataset(train)
    images_of_test = _beside(images, "train", "t10k")
    if images_of_test is None:
        return Dataset(train)
    labels_of_test = _beside(images_of_test, "images", "labels", "idx3", "idx1")
    if labels_of_test is None:
        return Dataset(train)
    return Dataset(train, _table(images_of_test, labels_of_test))


@reader("idx1-ubyte", magic=LABELS)
def refuse_labels(name: str, request: Request) -> Dataset:
    """Tell that the file of images is wanted.

    Raises
    ------
    DataError
        Always.
    """
    raise DataError(
        f"{name} holds labels; give the file of images beside it (...images-idx3-ubyte)"
    )


def read_rows(name: str, stamp: str, start: int, stop: int, p: int) -> NDArray[Any]:
    """Read images start..stop-1 of p pixels; `stamp` tells versions of the file apart."""
    with reading(name):
        content = read_range(name, 16 + start * p, 16 + stop * p)
        return np.frombuffer(content, np.uint8).reshape(-1, p)


def _table(images: Path, labels: Path | None) -> Table:
    name = str(images)
    shape = _shape(name, IMAGES)
    n, p = shape[0], math.prod(shape[1:])
    y = None
    if labels is not None:
        count = _shape(str(labels), LABELS)
        y = _content(str(labels), 8, count[0]).astype(np.int64)
    if name.lower().endswith(".gz"):
        content = _content(name, 16, n * p).reshape(n, p)
        return check_table(Table(from_memory(content, name), y, name))
    size, stamp = version(name)
    if size != 16 + n * p:
        raise _wrong_length(name, 16 + n * p, size)
    blocks = row_blocks(n, p, name)
    given = [(name, stamp, start, stop, p) for start, stop in blocks]
    X = from_function(read_rows, given, [b - a for a, b in blocks], p, np.uint8, name)
    return check_table(Table(X, y, name))


def _shape(name: str, magic: bytes) -> tuple[int, ...]:
    """Read the header: four bytes, then the dimensions as four bytes each."""
    with reading(name), open_bytes(name) as file:
        header = file.read(4 + 4 * magic[3])
    if not header.startswith(magic):
        raise DataError(
            f"{name} must begin with the bytes {magic.hex()}, it has {header[:4].hex()}"
        )
    if len(header) < 4 + 4 * magic[3]:
        raise _wrong_length(name, 4 + 4 * magic[3], len(header))
    return tuple(np.frombuffer(header, ">u4", offset=4).tolist())


def _content(name: str, offset: int, size: int) -> NDArray[np.uint8]:
    with reading(name), open_bytes(name) as file:
        content = read_whole(file, offset + size, name)
        found = len(content) + len(file.read(1))
    if found != offset + size:
        raise _wrong_length(name, offset + size, found)
    return np.frombuffer(content, np.uint8, offset=offset)


def _wrong_length(name: str, expected: int, found: int) -> DataError:
    state = "cut short" if found < expected else "too long"
    return DataError(f"{name} is {state}: {expected} bytes are expected, {found} were found")


def _beside(path: Path, *replacements: str) -> Path | None:
    """Return the file with parts of the name replaced, with or without .gz, if there is one."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    for old, new in zip(replacements[::2], replacements[1::2], strict=True):
        name = name.replace(old, new)
    found = (path.with_name(name + end) for end in ("", ".gz"))
    return next((file for file in found if file.is_file() and file != path), None)
