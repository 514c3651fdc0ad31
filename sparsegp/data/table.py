"""A table: rows of named columns with their labels, and the checks that all of them share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsegp.data.blocks import from_memory
from sparsegp.data.labels import REAL_KINDS, tidy_labels
from sparsegp.errors import DataError
from sparsegp.types import Integers, Labels

if TYPE_CHECKING:
    import dask.array as da


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
        Where the rows come from, for messages.
    origin : Integers (n,), optional
        Where some rows are copies of others: for each row the number of its original, which is its
        own for the originals.
    names : tuple of str, optional
        Of the columns, where the source has any.

    Raises
    ------
    DataError
        If X is not two-dimensional, does not hold real numbers, has no rows or no columns, or if
        the labels are not one per row.
    """

    X: "da.Array"
    y: Labels | None
    source: str
    origin: Integers | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        X, y, source = self.X, self.y, self.source
        require_two_dimensions(X, source)
        if X.dtype.kind not in REAL_KINDS:
            raise DataError(f"X must hold real numbers; {source} holds {X.dtype}")
        n, p = X.shape
        if n == 0:
            raise DataError(f"{source} has no rows")
        if p == 0:
            raise DataError(f"{source} has no columns to learn from")
        if y is not None and len(y) != n:
            raise DataError(f"every row needs one label; {source} has {n} rows and {len(y)} labels")

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the columns hold (p,): numbers, so far."""
        return ("number",) * int(self.X.shape[1])

    def select(self, names: Sequence[str] | None) -> "Table":
        """Return the table with these columns in this order; as it is where either has no names.

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


def table_from_arrays(X: Any, y: ArrayLike | None = None, source: str = "X") -> Table:
    """Make a table of arrays.

    Parameters
    ----------
    X : array-like (n, p)
        A numpy array, a data frame, nested lists, a scipy sparse matrix (made dense chunk by
        chunk, when read), or a dask array or data frame. Chunks of unknown size are measured,
        which computes them once; chunks across columns are joined.
    y : array-like (n,) or (n, 1), optional
        Labels.
    source : str
        A name for messages.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the arrays cannot be learnt from, see `Table`.
    """
    names = column_names(getattr(X, "columns", ()))
    labels = None if y is None else tidy_labels(y, source)
    return Table(_rows(X, source), labels, source, names=names)


def column_names(found: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the names of columns if they are strings, none of them empty or twice, else None."""
    names = list(found)
    named = all(isinstance(name, str) and name for name in names)
    return tuple(names) if names and named and len(set(names)) == len(names) else None


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
        If some are missing; they are named.
    """
    places = {name: place for place, name in enumerate(found)}
    missing = [name for name in wanted if name not in places]
    if missing:
        raise DataError(
            f"{source} must have the columns that were trained on; missing: "
            f"{', '.join(missing[:20])}; found: {', '.join(found[:20])}"
        )
    return [places[name] for name in wanted]


def require_two_dimensions(X: Any, source: str) -> None:
    """Raise a `DataError` if X is no array of rows and columns."""
    if X.ndim != 2:
        raise DataError(f"X must be two-dimensional, (rows, columns); {source} has shape {X.shape}")


def _rows(X: Any, source: str) -> "da.Array":
    """Turn whatever holds rows into a dask array chunked by rows."""
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if hasattr(X, "dask"):
        return _dask_rows(X, source)
    if hasattr(X, "tocsr"):
        return from_memory(X, source)
    X = real_numbers(X, source)
    require_two_dimensions(X, source)
    return from_memory(X, source)


def real_numbers(X: Any, source: str) -> NDArray[Any]:
    """Return an array of real numbers from whatever holds some: NaN where a value is masked.

    Raises
    ------
    DataError
        If some are no numbers.
    """
    if hasattr(X, "toarray"):
        X = X.toarray()
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    try:
        X = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source} is no table of numbers: {error}") from None
    return _numbers(X, source) if X.ndim == 2 and X.dtype.kind in "OUS" else X


def _dask_rows(X: Any, source: str) -> "da.Array":
    if any(np.isnan(size) for size in X.shape):
        X = X.compute_chunk_sizes()
    if X.ndim == 2 and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if X.dtype.kind == "O":
        X = X.map_blocks(_numbers, source=source, dtype=float, meta=np.empty((0, 0)))
    rows: da.Array = X
    return rows


def _numbers(X: NDArray[Any], source: str) -> NDArray[np.float64]:
    """Convert objects (n, p) to doubles, or say which one is not a number."""
    if X.dtype.kind == "O":
        try:
            return X.astype(np.float64)
        except (TypeError, ValueError):
            pass
    for (row, column), value in np.ndenumerate(X):
        try:
            float("" if isinstance(value, str | bytes) else value)
        except (TypeError, ValueError):
            raise DataError(
                f"X must hold real numbers; {source} has {str(value)[:60]!r} in row {row}, column "
                f"{column}"
            ) from None
    raise DataError(f"X must hold real numbers; {source} holds {X.dtype}")
