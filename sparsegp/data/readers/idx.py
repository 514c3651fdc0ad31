"""Reader of IDX images, the format of MNIST. Unpacked files stay on disk, .gz are read whole."""

import math

import numpy as np

from sparsegp.data.blocks import from_file, from_memory
from sparsegp.data.readers.base import LabelColumn, reader
from sparsegp.data.storage import is_file, opened, read_whole, size_of
from sparsegp.data.table import Dataset, Table
from sparsegp.errors import DataError

IMAGES, LABELS = bytes([0, 0, 8, 3]), bytes([0, 0, 8, 1])
"""How files begin: bytes, and the number of dimensions."""


@reader("idx3-ubyte", magic=IMAGES)
def read_idx(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read images as rows of bytes, with the labels beside them.

    Labels are in the file of the same name with `labels-idx1` for `images-idx3`; there need not
    be any. Beside train-images..., a pair t10k-... becomes the test table.
    """
    train = _table(name)
    images = _beside(name, ("train", "t10k"))
    test = None if images is None else _table(images)
    return Dataset(train, None if test is None or test.y is None else test)


def _table(name: str) -> Table:
    labels = _beside(name, ("images", "labels"), ("idx3", "idx1"))
    y = None
    if labels is not None:
        y = np.frombuffer(_values(labels, LABELS)[1], np.uint8).astype(np.int64)
    lazy = not name.lower().endswith(".gz")
    (n, *sides), content = _values(name, IMAGES, lazy)
    shape = n, math.prod(sides)
    if lazy:
        return Table(from_file(name, 16, shape, np.dtype("u1")), y, name)
    return Table(from_memory(np.frombuffer(content, "u1").reshape(shape), name), y, name)


def _values(name: str, magic: bytes, lazy: bool = False) -> tuple[tuple[int, ...], bytearray]:
    """Return the sizes that the header of a file declares, and its values unless `lazy`.

    Four bytes are followed by the sizes, four bytes each, and the values, a byte each.
    """
    with opened(name) as file:
        header = file.read(4 + 4 * magic[3])
        shape = tuple(np.frombuffer(header[4:], ">u4").tolist())
        if not header.startswith(magic) or len(shape) != magic[3]:
            raise DataError(f"{name} must begin with {magic.hex()} and {magic[3]} sizes")
        n = math.prod(shape)
        if lazy:
            content, found = bytearray(), size_of(name) - len(header)
        else:
            content = read_whole(file, n, name)
            found = len(content) + len(file.read(1))
    if found != n:
        state = "cut short" if found < n else "too long"
        raise DataError(f"{name} is {state}: {n} values are expected, and there are {found}")
    return shape, content


def _beside(name: str, *replaced: tuple[str, str]) -> str | None:
    """Return the file with parts of the name replaced, with or without .gz, if there is one."""
    folder, slash, last = name.rpartition("/")
    last = last[:-3] if last.lower().endswith(".gz") else last
    other = last
    for part in replaced:
        other = other.replace(*part)
    found = [folder + slash + other + end for end in ("", ".gz")]
    return next((each for each in found if other != last and is_file(each)), None)
