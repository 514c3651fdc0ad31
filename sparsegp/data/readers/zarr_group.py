"""Reader of zarr groups. Chunks are read inside the tasks that need them, never unpickled."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import LARGEST_BLOCK, from_function, row_blocks
from sparsegp.data.labels import tidy_labels
from sparsegp.data.readers.base import ARRAYS, LabelColumn, dataset_of_arrays
from sparsegp.data.storage import is_url, reading, require_memory
from sparsegp.data.table import Dataset, Table, require_two_dimensions
from sparsegp.errors import DataError


def read_zarr(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read a group, in a directory or at a URL, with the arrays of an .npz file.

    Blocks of rows are multiples of the chunks, so no chunk is read twice.
    """
    name = name.rstrip("/")
    with _group(name) as group:

        def table(X: str, y: str | None) -> Table:
            inputs, source = _array(group, X, name), f"{name} ({X})"
            require_two_dimensions(inputs, source)
            n, p = inputs.shape
            rows = row_blocks(n, p, source, multiple=inputs.chunks[0])
            lazy = from_function(partial(_rows, name, X), rows, p, inputs.dtype, source)
            if y is None:
                return Table(lazy, None, source)
            labels = _array(group, y, name)
            if labels.shape[:1] != inputs.shape[:1]:  # before they are read
                raise DataError(
                    f"every row needs one label; {name} has rows of shape {inputs.shape} and "
                    f"labels of shape {labels.shape}"
                )
            require_memory(labels.nbytes, name)
            return Table(lazy, tidy_labels(labels[:], name), source)

        return dataset_of_arrays([each for each in ARRAYS if each in group], table, name)


def _rows(name: str, member: str, block: int, rows: slice) -> NDArray[Any]:
    """Read rows of an array of the group."""
    with _group(name) as group:
        return np.asarray(_array(group, member, name)[rows])


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


def _array(group: Any, member: str, name: str) -> Any:
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
