"""Dask arrays chunked by rows only, made from arrays in memory or from a function of the rows."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.errors import DataError

if TYPE_CHECKING:
    import dask.array as da

T = TypeVar("T")

BLOCK_VALUES = 1 << 22
"""Values in one chunk: 4 MiB of bytes, 32 MiB of doubles."""

LARGEST_BLOCK = 1 << 28
"""Values in one chunk at most, where a row or a stored chunk is large: 2 GiB of doubles."""

MOST_BLOCKS = 1 << 17
"""Chunks of one table at most: 2 TB of floats."""


def row_blocks(n: int, p: int, source: str, multiple: int = 1) -> list[tuple[int, int]]:
    """Cut n rows of p values into blocks of about `BLOCK_VALUES` values.

    Parameters
    ----------
    n, p : int
        Rows and columns.
    source : str
        Where the rows come from, for messages.
    multiple : int
        Blocks start at multiples of this, so that a stored chunk is read once.

    Returns
    -------
    list of (int, int)
        First row and the row after the last; one empty block when n is 0.

    Raises
    ------
    DataError
        If a block would be too large to hold, or there would be too many: sizes that a damaged
        file declares are refused here, before anything is made of them.
    """
    rows = max(multiple, BLOCK_VALUES // max(p, 1) // multiple * multiple)
    if min(rows, n) * p > LARGEST_BLOCK:
        raise DataError(
            f"{source} must be read in blocks of {min(rows, n)} rows of {p} columns, more than "
            f"{LARGEST_BLOCK} values; store it in smaller chunks, or with fewer columns"
        )
    if n > MOST_BLOCKS * rows:
        raise DataError(
            f"{source} has {n} rows of {p} columns, more than {MOST_BLOCKS} blocks of "
            f"{BLOCK_VALUES} values; it is damaged, or to be divided"
        )
    return [(start, min(start + rows, n)) for start in range(0, max(n, 1), rows)]


def from_memory(X: NDArray[Any], source: str = "X") -> "da.Array":
    """Chunk an array in memory, X (n, p), by rows."""
    n, p = X.shape
    blocks = row_blocks(n, p, source)
    parts = [(X[start:stop],) for start, stop in blocks]  # views; dask's from_array would copy
    return from_function(_same, parts, [b - a for a, b in blocks], p, X.dtype, source)


def _same(rows: NDArray[Any]) -> NDArray[Any]:
    return rows


def from_function(
    read: Callable[..., NDArray[Any]],
    arguments: Sequence[tuple[Any, ...]],
    rows: Sequence[int],
    p: int,
    dtype: DTypeLike,
    source: str,
) -> "da.Array":
    """Stack blocks that are read when they are needed, each inside its own task.

    Parameters
    ----------
    read : callable
        A module level function; ``read(*arguments[b])`` is block b, (rows[b], p).
    arguments : sequence of tuples
        Small things that pickle (a path, row numbers) or the rows in another form.
    rows : sequence of int
        Rows of each block.
    p : int
        Columns.
    dtype : dtype
        Of every block; one that turns out to be another, or of other rows, is a `DataError`.
    source : str
        Where the rows come from, for messages.
    """
    dask = _dask()
    task = dask.delayed(_block, pure=True)
    dtype = np.dtype(dtype)
    blocks = [
        dask.array.from_delayed(
            task(read, (size, p), dtype, source, *given), shape=(size, p), dtype=dtype
        )
        for given, size in zip(arguments, rows, strict=True)
    ]
    stacked: da.Array = dask.array.concatenate(blocks, axis=0)
    return stacked


def _block(
    read: Callable[..., NDArray[Any]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    source: str,
    *arguments: Any,
) -> NDArray[Any]:
    """Read a block, and refuse what is not as large as it was said to be."""
    rows = read(*arguments)
    if rows.shape != shape or rows.dtype != dtype:
        raise DataError(
            f"a block of {source} must be {dtype} of shape {shape}, {rows.dtype} of shape "
            f"{rows.shape} was read; the file is damaged, or was changed while it was in use"
        )
    return rows


def from_sparse(X: Any, source: str = "X") -> "da.Array":
    """Chunk a scipy sparse matrix, X (n, p), by rows; a chunk is made dense inside its task."""
    X = X.tocsr()
    n, p = X.shape
    blocks = row_blocks(n, p, source)
    parts = [(X[start:stop],) for start, stop in blocks]
    return from_function(_dense, parts, [b - a for a, b in blocks], p, X.dtype, source)


def map_chunks(
    function: Callable[[NDArray[Any]], T],
    X: "da.Array",
    scheduler: str | Callable[..., Any] | None = None,
) -> tuple[T, ...]:
    """Apply a module level function to every chunk of X and collect the small results in order.

    Runs on the named scheduler of dask, or on a callable that `dask.compute` takes as one. None is
    that of the moment: threads, or a cluster when a client is connected.
    """
    dask = _dask()
    task = dask.delayed(function, pure=True)
    blocks: Any = X
    results: tuple[T, ...] = dask.compute(
        *(task(block) for block in blocks.to_delayed().ravel()), scheduler=scheduler
    )
    return results


def _dask() -> Any:
    """Import dask at the first need: it takes longer than the rest of the package."""
    import dask.array  # noqa: PLC0415

    return dask


def _dense(part: Any) -> NDArray[Any]:
    return np.asarray(part.toarray())
