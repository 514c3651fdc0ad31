"""A table: rows of named columns with their labels, and the checks that all of them share."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsegp.data.blocks import from_memory
from sparsegp.data.labels import REAL_KINDS, tidy_labels
from sparsegp.errors import DataError, one_line, quoted
from sparsegp.types import Doubles, Integers, Labels

if TYPE_CHECKING:
    import dask.array as da

UNNAMED = "unnamed "
"""How the name begins that a column without one gets."""


@dataclass(frozen=True)
class Table:
    """Inputs and labels of one sample.

    Parameters
    ----------
    X : dask array (n, p)
        Real numbers, chunked by rows only.
    y : array (n,) or None
        Labels as found, integers or strings; None where there are none.
    source : str
        Where the rows come from, for messages; kept without credentials.
    origin : Integers (n,), optional
        Where some rows are copies of others: for each row the number of its original, which is its
        own for the originals.
    names : tuple of str, optional
        Of the columns, where the source has any.
    label : str, optional
        Of the column that the labels were in: its name, or its number if there are no names.
    weights : Doubles (n,), optional
        By which the log likelihoods of the rows are multiplied.
    rows : Integers (n,), optional
        Where some rows of the source were left out: the numbers of those that remain, there.

    Raises
    ------
    DataError
        If X is not two-dimensional, does not hold real numbers, has no rows or no columns, or if
        labels or weights are not one per row, or weights are not finite or negative.
    """

    X: "da.Array"
    y: Labels | None
    source: str
    origin: Integers | None = None
    names: tuple[str, ...] | None = None
    label: str | None = None
    weights: Doubles | None = None
    rows: Integers | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", one_line(self.source))
        require_two_dimensions(self.X, self.source)
        if self.X.dtype.kind not in REAL_KINDS:
            raise DataError(f"X must hold real numbers; {self.source} holds {self.X.dtype}")
        n, p = self.X.shape
        if n == 0 or p == 0:
            missing = "no columns to learn from" if n else "no rows"
            raise DataError(f"a table needs rows and columns; {self.source} has {missing}")
        if self.y is not None and len(self.y) != n:
            raise DataError(
                f"every row needs one label; {self.source} has {n} rows and {len(self.y)} labels"
            )
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, n, self.source))

    def places(self, rows: Integers) -> Integers:
        """Return where some rows of the source are in the table."""
        if self.rows is None:
            return rows
        order = np.argsort(self.rows)
        return np.asarray(order[np.searchsorted(self.rows, rows, sorter=order)])

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the columns hold (p,): numbers, so far."""
        return ("number",) * int(self.X.shape[1])

    def select(self, names: Sequence[str] | None) -> "Table":
        """Return the table with these columns in this order; unchanged where either has no names.

        Raises
        ------
        DataError
            If some are missing; they are named.
        """
        if names is None or self.names is None or tuple(names) == self.names:
            return self
        places = column_places(names, self.names, self.source)
        return replace(self, X=self.X[:, places], names=tuple(names))


@dataclass(frozen=True)
class Dataset:
    """A training table and, where the source has one, its test table.

    Raises
    ------
    DataError
        If they have different columns.
    """

    train: Table
    test: Table | None = None

    def __post_init__(self) -> None:
        train, test = self.train, self.test
        if test is not None and test.X.shape[1] != train.X.shape[1]:
            raise DataError(
                f"training and test rows must have the same columns; {train.source} has "
                f"{train.X.shape[1]} and {test.source} has {test.X.shape[1]}"
            )


def table_from_arrays(
    X: Any, y: ArrayLike | None = None, source: str = "X", sample_weight: Any = None
) -> Table:
    """Make a table of arrays.

    Parameters
    ----------
    X : array-like (n, p), or Table
        A table is kept as it is, but for the weights. Else a numpy array, a data frame, nested
        lists, a scipy sparse matrix (made dense chunk by chunk, when read), or a dask array or data
        frame. Chunks of unknown size are measured, which computes them once; chunks across columns
        are joined.
    y : array-like (n,) or (n, 1), optional
        Labels.
    source : str
        A name for messages.
    sample_weight : array-like (n,), optional
        Weights of the rows.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the arrays cannot be learnt from, see `Table`.
    """
    weights: Any = sample_weight
    if isinstance(X, Table):
        return X if weights is None else replace(X, weights=weights)
    names = column_names(getattr(X, "columns", ()))
    labels = None if y is None else tidy_labels(y, source)
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if hasattr(X, "dask"):
        return Table(_dask_rows(X, source), labels, source, names=names, weights=weights)
    X = X if hasattr(X, "tocsr") else real_numbers(X, source)
    require_two_dimensions(X, source)
    return Table(from_memory(X, source), labels, source, names=names, weights=weights)


def column_names(found: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the names of columns, by place where one is empty; None if they are no strings."""
    names = list(found)
    if not names or not all(isinstance(name, str) for name in names):
        return None
    return tuple(name or f"{UNNAMED}{place}" for place, name in enumerate(names))


def listed(names: Sequence[str]) -> str:
    """Return the first of some names, for a message."""
    return ", ".join([*(name[:40] for name in names[:20]), *(["..."] if len(names) > 20 else [])])


def column_places(wanted: Sequence[str], found: Sequence[str], source: str) -> list[int]:
    """Return where the wanted columns are among those that were found.

    Parameters
    ----------
    wanted, found : sequence of str
        Names.
    source : str
        Where the columns come from, for messages.

    Raises
    ------
    DataError
        If some are missing, which are named, or a name stands for two columns.
    """
    places = {name: place for place, name in enumerate(found)}
    if missing := [name for name in wanted if name not in places]:
        raise DataError(
            f"{source} must have the columns that were trained on; missing: "
            f"{listed(missing)}; found: {listed(found)}"
        )
    if min(len({*names}) - len(names) for names in (wanted, found)) < 0:
        raise DataError(f"{source} must have one column of each name, as those trained on")
    return [places[name] for name in wanted]


def require_two_dimensions(X: Any, source: str) -> None:
    """Raise a `DataError` if X is not an array of rows and columns."""
    if X.ndim != 2:
        raise DataError(f"X must be two-dimensional, (rows, columns); {source} has shape {X.shape}")


def real_numbers(X: Any, source: str) -> NDArray[Any]:
    """Return an array of real numbers from whatever holds some: NaN where a value is masked.

    Raises
    ------
    DataError
        If some are not numbers; the first of them is named.
    """
    if hasattr(X, "toarray"):
        X = X.toarray()
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    try:
        found: NDArray[Any] = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source} is not a table of numbers: {error}") from None
    if found.ndim != 2 or found.dtype.kind not in "OUS":
        return found
    if found.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            return found.astype(np.float64)
    for (row, column), value in np.ndenumerate(found):
        try:
            float("" if isinstance(value, str | bytes) else value)
        except (TypeError, ValueError):
            raise DataError(
                f"X must hold real numbers; {source} has {str(value)[:60]!r} in row {row}, column "
                f"{column}"
            ) from None
    raise DataError(f"X must hold real numbers; {source} holds {found.dtype}")


def _weights(given: Any, n: int, source: str) -> Doubles:
    """Return weights of n rows as doubles, checked."""
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"weights must be numbers; those of {source} are {quoted(given)}") from None
    if weights.shape != (n,):
        raise DataError(
            f"every row needs one weight; {source} has {n} rows and weights of shape "
            f"{weights.shape}"
        )
    bad = ~((weights >= 0.0) & (weights < np.inf))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"weights must be finite and not negative; {source} has {weights[row]} in row {row}"
        )
    return weights


def _dask_rows(X: Any, source: str) -> "da.Array":
    """Return a dask array chunked by rows alone, in chunks of known size."""
    if any(np.isnan(size) for size in X.shape):
        X = X.compute_chunk_sizes()
    if X.ndim == 2 and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if X.dtype.kind == "O":
        X = X.map_blocks(real_numbers, source=source, dtype=float, meta=np.empty((0, 0)))
    rows: da.Array = X
    return rows
