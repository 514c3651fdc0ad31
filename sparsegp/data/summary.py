"""One pass over the rows: range, mean and variance of each column, and bad values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import compute_each
from sparsegp.data.labels import REAL_KINDS
from sparsegp.errors import DataError
from sparsegp.types import Booleans, Doubles, Integers

if TYPE_CHECKING:
    import dask.array as da

PIECE_VALUES = 1 << 20
"""Values of a chunk that are converted to doubles at a time."""

PRECISION = 24
"""Bits that are kept of a mean and a variance, those of a float32."""

SMALLEST = -1074
"""Exponent of the smallest positive double."""


@dataclass(frozen=True)
class Summary:
    """Statistics of the columns of X (n, p).

    Parameters
    ----------
    n, p : int
        Rows and columns.
    low, high : array (p,)
        Least and greatest value of each column.
    mean, variance : array (p,)
        Moments of each column (the variance divides by n), doubles rounded to the precision of
        a float32: see `summarise`.
    whole : bool
        All values are whole numbers, however stored.
    """

    n: int
    p: int
    low: Doubles
    high: Doubles
    mean: Doubles
    variance: Doubles
    whole: bool

    def of(self, columns: Booleans) -> "Summary":
        """Return that of some columns (p,)."""
        names = ("low", "high", "mean", "variance")
        arrays = {name: getattr(self, name)[columns] for name in names}
        return replace(self, p=int(columns.sum()), **arrays)


class Moments(NamedTuple):
    """Statistics of some rows: count, range, mean and sum of squared deviations, bad values.

    The mean is counted from the first of the rows, `origin` (p,), so that its error is small
    against the range of a column, however far from zero that lies. The first value that is not
    finite comes with its row and column.
    """

    n: int
    low: Doubles
    high: Doubles
    origin: Doubles
    mean: Doubles
    squares: Doubles
    whole: bool
    n_bad: int = 0
    first_bad: tuple[int, int, float] | None = None


def summarise(
    X: "da.Array",
    source: str,
    scheduler: str | Callable[..., Any] | None = None,
    names: Sequence[str] | None = None,
    numbers: Integers | None = None,
) -> Summary:
    """Summarise X in one lazy pass over its chunks.

    Statistics of the chunks are combined by the formula of Chan, Golub and LeVeque, in float64.
    Sums over differently chunked rows differ in the last bits, and no result may depend on the
    chunks: the variance is therefore rounded to 24 bits, and the mean, as its distance from the
    first row, to a multiple of 2^-24 of the range of the column (so that a mean of nearly zero is
    rounded too). Columns of one value have exactly that mean and variance 0.

    Parameters
    ----------
    X : dask array (n, p)
        Chunked by rows only.
    source : str
        Where the rows come from, for messages.
    scheduler : str or callable, optional
        Of dask, such as "threads", or what `dask.compute` takes as one. By default that of the
        moment: threads, or a cluster when a client is connected.
    names : sequence of str, optional
        Of the columns, for messages.
    numbers : Integers (n,), optional
        Of the rows, for messages.

    Returns
    -------
    Summary

    Raises
    ------
    DataError
        If X does not hold real numbers, holds NaN or infinity, or values too large or too small to
        square.
    """
    if X.dtype.kind not in REAL_KINDS:
        raise DataError(f"X must hold real numbers; {source} holds {X.dtype}")
    blocks: Any = X
    parts = compute_each(_moments, blocks.to_delayed().ravel(), scheduler=scheduler)
    total: Moments = reduce(_combined, parts)
    _check(total, source, names, numbers)
    _, exponent = np.frexp(total.high - total.low)
    unit = np.ldexp(1.0, np.maximum(exponent - PRECISION, SMALLEST))
    mean = total.origin + unit * np.rint(total.mean / unit)
    fraction, exponent = np.frexp(total.squares / total.n)
    variance = np.ldexp(np.rint(np.ldexp(fraction, PRECISION)), exponent - PRECISION)
    return Summary(total.n, len(mean), total.low, total.high, mean, variance, total.whole)


def _check(
    total: Moments, source: str, names: Sequence[str] | None, numbers: Integers | None
) -> None:
    """Raise a `DataError` for values that are not finite, or that cannot be squared."""

    def shown(column: int) -> str:
        return f"column {column}" + (f", {names[column][:40]!r}" if names else "")

    if total.first_bad is not None:
        row, column, value = total.first_bad
        row = row if numbers is None else int(numbers[row])
        count = "1 value that is" if total.n_bad == 1 else f"{total.n_bad} values that are"
        raise DataError(
            f"{source} has {count} not finite, the first is {value} in row {row}, {shown(column)} "
            f"(counted from 0); remove or fill in such values"
        )
    large = ~np.isfinite(total.squares)
    small = (total.squares < np.finfo(np.float64).tiny) & (total.high > total.low)
    if (large | small).any():
        column = int(np.argmax(large | small))
        size, remedy = ("large", "divide") if large[column] else ("small", "multiply")
        raise DataError(
            f"{source} has values too {size} to standardise in {shown(column)}, from "
            f"{total.low[column]:g} to {total.high[column]:g}; {remedy} the column first"
        )


def _moments(block: NDArray[Any]) -> Moments:
    """Return the statistics of one chunk, (rows, p), a piece of it at a time."""
    rows = max(1, PIECE_VALUES // max(block.shape[1], 1))
    starts = range(0, max(len(block), 1), rows)
    return reduce(_combined, (_piece(block[start : start + rows]) for start in starts))


def _piece(rows: NDArray[Any]) -> Moments:
    X = np.asarray(rows, dtype=np.float64)
    n, p = X.shape
    finite, zeros = np.isfinite(X), np.zeros(p)
    if n == 0 or not finite.all():  # moments do not matter
        first, n_bad = None, int(X.size - finite.sum())
        if n_bad:
            row, column = divmod(int(np.argmin(finite)), p)  # the first False, by row
            first = (row, column, float(X[row, column]))
        return Moments(n, zeros, zeros, zeros, zeros, zeros, True, n_bad, first)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = X - X[0]
        mean = deviation.mean(axis=0)
        deviation -= mean
        squares = np.einsum("np,np->p", deviation, deviation)
    whole = rows.dtype.kind != "f" or bool(np.all(np.rint(X) == X))
    return Moments(n, X.min(axis=0), X.max(axis=0), X[0].copy(), mean, squares, whole)


def _combined(a: Moments, b: Moments) -> Moments:
    """Return the statistics of the rows of `a` followed by those of `b`."""
    if a.n == 0 or b.n == 0:
        return b if a.n == 0 else a
    n, first = a.n + b.n, a.first_bad
    if first is None and b.first_bad is not None:
        first = (a.n + b.first_bad[0], *b.first_bad[1:])
    with np.errstate(over="ignore", invalid="ignore"):
        step = (b.origin - a.origin) + b.mean - a.mean
        mean = a.mean + step * (b.n / n)
        squares = a.squares + b.squares + step**2 * (a.n * b.n / n)
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    whole, n_bad = a.whole and b.whole, a.n_bad + b.n_bad
    return Moments(n, low, high, a.origin, mean, squares, whole, n_bad, first)
