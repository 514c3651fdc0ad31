"""Reader of IDX images, the format of MNIST. Unpacked files stay on disk, .gz are read whole."""

import math

import numpy as np

from sparsegp.data.blocks import from_file, from_memory
from sparsegp.data.readers.base import LabelColumn, beside
from sparsegp.data.storage import opened, read_whole, size_of
from sparsegp.data.table import Dataset, Table
from sparsegp.errors import DataError

ENDS = ("", ".gz")


def read_idx(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read images as rows of bytes, with the labels beside them.

    Labels are in the file of the same name with `labels-idx1` for `images-idx3`; there need not
    be any. Beside train-images..., a pair t10k-... becomes the test table.
    """
    images = beside(name, ("train", "t10k"), ends=ENDS)
    test = images and _table(images)
    return Dataset(_table(name), test if test and test.y is not None else None)


def _table(name: str) -> Table:
    labels, y = beside(name, ("images", "labels"), ("idx3", "idx1"), ends=ENDS), None
    if labels is not None:
        y = np.frombuffer(_values(labels, 1)[1], np.uint8).astype(np.int64)
    lazy = not name.lower().endswith(".gz")
    (n, *sides), content = _values(name, 3, lazy)
    shape = n, math.prod(sides)
    if lazy:
        return Table(from_file(name, 16, shape, np.dtype("u1")), y, name)
    return Table(from_memory(np.frombuffer(content, "u1").reshape(shape), name), y, name)


def _values(name: str, ndim: int, lazy: bool = False) -> tuple[tuple[int, ...], bytearray]:
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
