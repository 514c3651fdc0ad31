"""Range, mean and variance of each column in one pass over the rows; detection of bad values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import compute_each
from sparsegp.data.table import Table
from sparsegp.errors import DataError
from sparsegp.types import Booleans, Doubles

PIECE_VALUES = 1 << 20
"""Number of values of a chunk that are converted to doubles at a time."""
PRECISION = 24
"""Significant bits kept of means and variances, as in a float32."""
SMALLEST = -1074
"""Exponent of the smallest positive double."""
RESEMBLING = 1000
"""Number of rows from which correlations of columns are computed."""
Moments: TypeAlias = tuple[int, Doubles, Doubles, Doubles, Doubles, Doubles, bool]
"""Statistics of rows: count, minima and maxima, the first row, the mean as difference from it (so
that its error is small however far from zero a column lies), the sum of squared deviations from the
mean, and whether all values are whole numbers."""


@dataclass(frozen=True)
class Summary:
    """Statistics of the columns of X (n, p).

    Means and variances, which divide by n, are doubles rounded to the precision of a float32: see
    `summarise`.
    """

    n: int
    p: int
    low: Doubles
    high: Doubles
    mean: Doubles
    variance: Doubles
    whole: bool  # whether all values are whole numbers, whatever their type

    def of(self, columns: Booleans) -> "Summary":
        """Return the summary of a subset of the columns, given as a mask (p,)."""
        names = ("low", "high", "mean", "variance")
        arrays = {name: getattr(self, name)[columns] for name in names}
        return replace(self, p=int(columns.sum()), **arrays)


def summarise(table: Table, scheduler: str | Callable[..., Any] | None = None) -> Summary:
    """Summarise the columns of a table in one pass over its chunks.

    Sums over differently chunked rows differ in the last bits, but results must not depend on the
    chunks. Therefore the variance is rounded to 24 bits, and the mean, as its difference from the
    first row, to a multiple of 2^-24 of the range of the column (so that a mean near zero is
    rounded too). Constant columns have exactly their value as mean, and variance 0.

    Parameters
    ----------
    table : Table
    scheduler : str or callable, optional
        Dask scheduler, such as "threads". By default the current one: threads, or a cluster if a
        client is connected.

    Raises
    ------
    DataError
        If it holds NaN or infinity, or values too large or too small to square.
    """
    X, source, names = table.X, table.source, table.names

    def of_blocks(function: Callable[..., Any]) -> list[Any]:
        return compute_each(function, X.to_delayed().ravel(), scheduler=scheduler)

    def shown(column: int) -> str:
        return f"column {column}" + (f", {names[column][:40]!r}" if names else "")

    n, low, high, origin, mean, squares, whole = _combined(chain(*of_blocks(_moments)))
    if not np.isfinite([low, high]).all():
        bad = np.concatenate(of_blocks(lambda X: (~np.isfinite(X.astype(float))).sum(axis=1)))
        place = int(np.argmax(bad > 0))
        values = np.asarray(X[place].compute(scheduler=scheduler), dtype=np.float64)
        column = int(np.isfinite(values).argmin())
        count = "1 value that is" if bad.sum() == 1 else f"{bad.sum()} values that are"
        row = place if table.rows is None else table.rows[place]
        raise DataError(
            f"{source} has {count} not finite, the first is {values[column]} in row {row}, "
            f"{shown(column)} (counted from 0); correct or fill in such values, or give missing "
            "ones in a data frame or a text file"
        )
    large = ~np.isfinite(squares)
    small = (squares < np.finfo(np.float64).tiny) & (high > low)
    if (large | small).any():
        column = int(np.argmax(large | small))
        size, remedy = ("large", "divide") if large[column] else ("small", "multiply")
        raise DataError(
            f"{source} has values too {size} to standardise in {shown(column)}, from "
            f"{low[column]:g} to {high[column]:g}; {remedy} the column first"
        )
    _, exponent = np.frexp(high - low)
    unit = np.ldexp(1.0, np.maximum(exponent - PRECISION, SMALLEST))
    mean = origin + unit * np.rint(mean / unit)
    fraction, exponent = np.frexp(squares / n)
    variance = np.ldexp(np.rint(np.ldexp(fraction, PRECISION)), exponent - PRECISION)
    return Summary(n, len(mean), low, high, mean, variance, whole)


def _moments(block: NDArray[Any]) -> list[Moments]:
    """Return a list with the statistics of a chunk (rows, p), empty for an empty chunk."""
    rows = max(1, PIECE_VALUES // max(block.shape[1], 1))
    pieces = [_piece(block[start : start + rows]) for start in range(0, len(block), rows)]
    return [_combined(pieces)] if pieces else []


def _piece(rows: NDArray[Any]) -> Moments:
    X = np.asarray(rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = X - X[0]
        mean = deviation.mean(axis=0)
        deviation -= mean
        squares = np.einsum("np,np->p", deviation, deviation)
    whole = rows.dtype.kind != "f" or bool(np.all(np.rint(X) == X))
    return len(X), X.min(axis=0), X.max(axis=0), X[0].copy(), mean, squares, whole


def _combined(parts: Iterable[Moments]) -> Moments:
    """Combine the statistics of parts, none of which is empty."""
    n, low, high, origin, mean, squares, whole = map(np.array, zip(*parts, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        mean += origin - origin[0]
        overall = n @ mean / n.sum()
        squares = squares.sum(axis=0) + n @ (mean - overall) ** 2
    low, high = low.min(axis=0), high.max(axis=0)
    return int(n.sum()), low, high, origin[0], overall, squares, bool(whole.all())


def neighbour_correlation(X: Any, scheduler: Any = None) -> float:
    """Return the mean correlation of neighbouring columns that vary, in the first rows.

    Parameters
    ----------
    X : dask array (n, p)
    scheduler : str or callable, optional
        Dask scheduler.
    """
    some = np.asarray(X[:RESEMBLING].compute(scheduler=scheduler), np.float64)
    some = some - some.mean(axis=0)
    norms = np.sqrt(np.square(some).sum(axis=0))
    products, sizes = (some[:, 1:] * some[:, :-1]).sum(axis=0), norms[1:] * norms[:-1]
    varies = sizes > 0.0
    return float(np.mean(products[varies] / sizes[varies])) if varies.any() else 0.0
