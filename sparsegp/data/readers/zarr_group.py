"""Reader of zarr groups. Chunks are read inside the tasks that need them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function, row_blocks
from sparsegp.data.readers.base import Request, reader, reading
from sparsegp.data.readers.members import dataset_from_members
from sparsegp.data.table import Dataset, Table, check_table, tidy_labels
from sparsegp.errors import DataError


@reader(".zarr")
def read_zarr(name: str, request: Request) -> Dataset:
    """Read a group, in a directory or at a URL, with the arrays of an .npz file.

    Blocks of rows are multiples of the chunks, so no chunk is read twice.

    Raises
    ------
    DataError
        If it is not a group, is damaged, or lacks arrays.
    """
    import zarr  # noqa: PLC0415

    with reading(name):
        group: Any = zarr.open(name, mode="r")
        if not hasattr(group, "array_keys"):
            raise DataError(f"{name} is a single array; a group with the arrays X and y is needed")

        def table(X: str, y: str | None) -> Table:
            source = f"{name} ({X})"
            labels = None if y is None else tidy_labels(group[y][:], source)
            return check_table(Table(_rows(name, X, group[X], source), labels, source))

        return dataset_from_members(group.array_keys(), table, name)


def read_rows(name: str, member: str, start: int, stop: int) -> NDArray[Any]:
    """Read rows start..stop-1 of an array of the group."""
    import zarr  # noqa: PLC0415

    with reading(f"{name} ({member})"):
        group: Any = zarr.open(name, mode="r")
        return np.asarray(group[member][start:stop])


def _rows(name: str, member: str, array: Any, source: str) -> Any:
    if array.ndim != 2:
        raise DataError(
            f"X must be two-dimensional, (rows, columns); {source} has shape {array.shape}"
        )
    n, p = array.shape
    blocks = row_blocks(n, p, multiple=max(1, array.chunks[0]))
    given = [(name, member, start, stop) for start, stop in blocks]
    return from_function(read_rows, given, [b - a for a, b in blocks], p, array.dtype)
