"""Reader of zarr groups. Chunks are read inside the tasks that need them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function, row_blocks
from sparsegp.data.readers.base import Request, reader
from sparsegp.data.readers.members import dataset_from_members
from sparsegp.data.readers.zarr_store import opened, zarr_format
from sparsegp.data.storage import entries, require_memory
from sparsegp.data.table import Dataset, Table, check_table, tidy_labels
from sparsegp.errors import DataError


@reader(".zarr", urls=True)
def read_zarr(name: str, request: Request) -> Dataset:
    """Read a group, in a directory or at a URL, with the arrays of an .npz file.

    Blocks of rows are multiples of the chunks, so no chunk is read twice.

    Raises
    ------
    DataError
        If it is not a group, is damaged, or lacks arrays.
    """
    name = name.rstrip("/")
    version = zarr_format(name)

    def table(X: str, y: str | None) -> Table:
        source = f"{name} ({X})"
        rows = _rows(name, X, version, source)
        labels = None if y is None else _labels(name, y, version, rows.shape)
        return check_table(Table(rows, labels, source))

    members = [entry for entry in entries(name) if not entry.startswith((".", "zarr.json"))]
    return dataset_from_members(members, table, name)


def read_rows(name: str, member: str, version: int, start: int, stop: int) -> NDArray[Any]:
    """Read rows start..stop-1 of an array of the group."""
    with opened(name, member, version) as array:
        return np.asarray(array[start:stop])


def _labels(name: str, member: str, version: int, rows: tuple[int, ...]) -> NDArray[Any]:
    source = f"{name} ({member})"
    with opened(name, member, version) as array:
        if array.shape[:1] != rows[:1]:  # before they are read
            raise DataError(
                f"every row needs one label; {name} has {rows[0]} rows and labels of shape "
                f"{array.shape}"
            )
        require_memory(array.nbytes, source)
        return tidy_labels(array[:], source)


def _rows(name: str, member: str, version: int, source: str) -> Any:
    with opened(name, member, version) as array:
        shape, dtype, chunks = array.shape, array.dtype, array.chunks
    if len(shape) != 2:
        raise DataError(f"X must be two-dimensional, (rows, columns); {source} has shape {shape}")
    n, p = shape
    blocks = row_blocks(n, p, source, multiple=chunks[0])
    given = [(name, member, version, start, stop) for start, stop in blocks]
    return from_function(read_rows, given, [b - a for a, b in blocks], p, dtype, source)
