"""Dask arrays chunked by rows only, made from arrays in memory or from a function of the rows."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    import dask.array as da

T = TypeVar("T")

BLOCK_VALUES = 1 << 22
"""Values in one chunk: 4 MiB of bytes, 32 MiB of doubles."""


def row_blocks(n: int, p: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Cut n rows of p values into blocks of about `BLOCK_VALUES` values.

    Parameters
    ----------
    n, p : int
        Rows and columns.
    multiple : int
        Blocks start at multiples of this, so that a stored chunk is read once.

    Returns
    -------
    list of (int, int)
        First row and the row after the last; one empty block when n is 0.
    """
    rows = max(multiple, BLOCK_VALUES // max(p, 1) // multiple * multiple)
    return [(start, min(start + rows, n)) for start in range(0, max(n, 1), rows)]


def from_memory(X: NDArray[Any]) -> "da.Array":
    """Chunk an array in memory, X (n, p), by rows."""
    n, p = X.shape
    ends = list(row_blocks(n, p))
    parts = [(X[start:stop],) for start, stop in ends]  # views; dask's from_array would copy
    return from_function(_same, parts, [stop - start for start, stop in ends], p, X.dtype)


def _same(rows: NDArray[Any]) -> NDArray[Any]:
    return rows


def from_function(
    read: Callable[..., NDArray[Any]],
    arguments: Sequence[tuple[Any, ...]],
    rows: Sequence[int],
    p: int,
    dtype: DTypeLike,
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
        Of every block.
    """
    dask = _dask()
    task = dask.delayed(read, pure=True)
    dtype = np.dtype(dtype)
    blocks = [
        dask.array.from_delayed(task(*given), shape=(size, p), dtype=dtype)
        for given, size in zip(arguments, rows, strict=True)
    ]
    stacked: da.Array = dask.array.concatenate(blocks, axis=0)
    return stacked


def from_sparse(X: Any) -> "da.Array":
    """Chunk a scipy sparse matrix, X (n, p), by rows; a chunk is made dense inside its task."""
    X = X.tocsr()
    blocks = row_blocks(*X.shape)
    parts = [(X[start:stop],) for start, stop in blocks]
    return from_function(_dense, parts, [b - a for a, b in blocks], X.shape[1], X.dtype)


def map_chunks(
    function: Callable[[NDArray[Any]], T], X: "da.Array", scheduler: str | None = None
) -> tuple[T, ...]:
    """Apply a module level function to every chunk of X and collect the small results in order.

    Runs on the named scheduler of dask. None is that of the moment: threads, or a cluster when a
    client is connected.
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
