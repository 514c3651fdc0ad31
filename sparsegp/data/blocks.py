"""Dask arrays chunked by rows only, made from arrays in memory or from a function of the rows."""

from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import DataError
from sparsegp.types import DaskArray

BLOCK_VALUES = 1 << 22
"""Target number of values per chunk: 4 MiB of bytes, 32 MiB of doubles."""
LARGEST_BLOCK = 1 << 28
"""Maximum number of values per chunk, for wide rows or large stored chunks: 2 GiB of doubles."""
MAX_BLOCKS = 1 << 17
"""Maximum number of chunks per table: 2 TB of floats."""


def row_blocks(n: int, p: int, source: str, multiple: int = 1) -> list[int]:
    """Return the number of rows of each block, for blocks of about `BLOCK_VALUES` values.

    Parameters
    ----------
    n, p : int
        Number of rows and columns.
    source : str
        Where the rows come from, for messages.
    multiple : int
        Blocks start at multiples of this, so that each stored chunk is read once.

    Raises
    ------
    DataError
        If a block would be too large, or there would be too many blocks: sizes that a damaged
        file declares are refused before memory is allocated.
    """
    rows = max(multiple, BLOCK_VALUES // max(p, 1) // multiple * multiple)
    if min(rows, n) * p > LARGEST_BLOCK or n > MAX_BLOCKS * rows:
        raise DataError(
            f"{source} must be read in at most {MAX_BLOCKS} blocks of at most {LARGEST_BLOCK} "
            f"values; it has {n} rows of {p} columns, blocks of {rows}; it is damaged, or must "
            f"be divided, or stored in smaller chunks"
        )
    return [min(rows, n - start) for start in range(0, max(n, 1), rows)]


def of_known_sizes(X: Any) -> Any:
    """Return a dask array with known chunk sizes: a copy if they have to be computed."""
    if any(np.isnan(size) for size in X.shape):
        return X.copy().compute_chunk_sizes()  # a copy, as this works in place
    return X


def from_memory(X: Any, source: str = "X") -> DaskArray:
    """Chunk an array or a scipy sparse matrix in memory, X (n, p), by rows.

    Blocks of a sparse matrix are made dense inside their tasks; others are views.
    """
    import dask.array as da  # noqa: PLC0415 - slow to import

    is_sparse = hasattr(X, "tocsr")
    X = X.tocsr() if is_sparse else np.asarray(X)
    rows = tuple(row_blocks(X.shape[0], X.shape[1], source))
    return dense(da.from_array(X, (rows, -1), name=False, asarray=not is_sparse))


def dense(X: DaskArray) -> DaskArray:
    """Make the chunks of a lazy array dense, if they are scipy sparse matrices."""
    from dask.array.utils import meta_from_array  # noqa: PLC0415 - slow to import

    if not hasattr(meta_from_array(X), "toarray"):
        return X
    meta = np.empty((0, 0), X.dtype)
    return X.map_blocks(methodcaller("toarray"), dtype=X.dtype, meta=meta)


def compute_each(
    function: Callable[..., Any], *parts: Iterable[Any], scheduler: Any = None
) -> list[Any]:
    """Apply a function to delayed parts, like `map`, and compute all results in one pass."""
    from dask.base import compute  # noqa: PLC0415 - slow to import
    from dask.delayed import delayed  # noqa: PLC0415

    task = delayed(function, pure=False)
    return list(compute(*map(task, *parts), scheduler=scheduler))


def from_function(
    read: Callable[[slice], NDArray[Any]], rows: Sequence[int], p: int, dtype: Any, source: str
) -> DaskArray:
    """Create an array from blocks of rows, each of which is read lazily in its own task.

    Parameters
    ----------
    read : callable
        Returns the block for a slice of rows; it must be picklable, and should be small.
    rows : sequence of int
        Number of rows of each block.
    p : int
        Number of columns.
    dtype : dtype
        Type of every block; a block of another type or shape raises a `DataError`.
    source : str
        Where the rows come from, for messages.
    """
    import dask.array as da  # noqa: PLC0415 - slow to import

    given = {"read": read, "source": source, "meta": np.empty((0, 0), dtype)}
    return da.map_blocks(_block, chunks=(tuple(rows), (p,)), dtype=dtype, **given)


def _block(
    read: Callable[[slice], NDArray[Any]], source: str, block_info: Any = None
) -> NDArray[Any]:
    """Read a block; raise a `DataError` unless it has the declared shape and type."""
    expected = block_info[None]
    shape, dtype = tuple(expected["chunk-shape"]), expected["dtype"]
    found = read(slice(*expected["array-location"][0]))
    if found.shape != shape or found.dtype != dtype:
        raise DataError(
            f"a block of {source} must be {dtype} of shape {shape}, {found.dtype} of shape "
            f"{found.shape} was read; the file is damaged, or was changed while it was in use"
        )
    return found
