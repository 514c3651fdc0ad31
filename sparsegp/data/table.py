"""Rows with their labels: what every reader gives back, and the checks that all of them share."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsegp.data.blocks import from_memory, from_sparse
from sparsegp.errors import DataError
from sparsegp.types import Integers, Labels

if TYPE_CHECKING:
    import dask.array as da

REAL_KINDS = "biuf"
"""Kinds of dtype that hold real numbers: bool, integers, floats."""


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
    """

    X: "da.Array"
    y: Labels | None
    source: str
    origin: Integers | None = None


@dataclass(frozen=True)
class Dataset:
    """A training table and, where the source has one, its test table."""

    train: Table
    test: Table | None = None


def check_table(table: Table) -> Table:
    """Return the table when it can be learnt from.

    Raises
    ------
    DataError
        If X is not two-dimensional, does not hold real numbers, has no rows or no columns, or if
        the labels are not one per row.
    """
    X, y, source = table.X, table.y, table.source
    if X.ndim != 2:
        raise DataError(f"X must be two-dimensional, (rows, columns); {source} has shape {X.shape}")
    if X.dtype.kind not in REAL_KINDS:
        raise DataError(f"X must hold real numbers; {source} holds {X.dtype}")
    n, p = X.shape
    if n == 0:
        raise DataError(f"{source} has no rows")
    if p == 0:
        raise DataError(f"{source} has no columns to learn from")
    if y is not None and len(y) != n:
        raise DataError(f"every row needs one label; {source} has {n} rows and {len(y)} labels")
    return table


def check_pair(dataset: Dataset) -> Dataset:
    """Return the data set when its two tables have the same columns.

    Raises
    ------
    DataError
        If the numbers of columns differ.
    """
    train, test = dataset.train, dataset.test
    if test is not None and test.X.shape[1] != train.X.shape[1]:
        raise DataError(
            f"training and test rows must have the same columns; {train.source} has "
            f"{train.X.shape[1]} and {test.source} has {test.X.shape[1]}"
        )
    return dataset


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
        If the arrays cannot be learnt from, see `check_table`.
    """
    return check_table(
        Table(_rows(X, source), None if y is None else tidy_labels(y, source), source)
    )


def join_tables(first: Table, second: Table, source: str) -> Table:
    """Return the rows of one table followed by those of another, as a table of that name.

    Raises
    ------
    DataError
        If they have other columns, or one of them alone has labels.
    """
    import dask.array as da  # noqa: PLC0415 - slow to import

    if first.X.shape[1] != second.X.shape[1]:
        raise DataError(
            f"joined rows must have the same columns; {first.source} has {first.X.shape[1]} and "
            f"{second.source} has {second.X.shape[1]}"
        )
    if (first.y is None) != (second.y is None):
        raise DataError(f"both of {first.source} and {second.source} must have labels, or none")
    X: da.Array = da.concatenate([first.X, second.X])  # type: ignore[no-untyped-call]
    y = None if first.y is None else np.concatenate([first.y, second.y])
    return check_table(Table(X, y, source))


def tidy_labels(y: Any, source: str) -> Labels:
    """Return labels as one flat array (n,); bytes become strings.

    Raises
    ------
    DataError
        If there is more than one label for a row, or a label is no valid text.
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(
            f"labels must be one for each row, (rows,); those of {source} have shape {labels.shape}"
        )
    if labels.dtype.kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"labels of {source} must be text in UTF-8: {error}") from None
    if labels.dtype.kind == "T":
        return labels.astype(np.str_)
    if labels.dtype.kind not in REAL_KINDS + "UO":
        raise DataError(
            f"labels must be integers or strings; those of {source} are of type {labels.dtype}"
        )
    if labels.dtype.kind == "U" and not _is_text(labels):
        raise DataError(f"labels of {source} must be text; some hold what is no Unicode")
    return labels


def _is_text(labels: Labels) -> bool:
    """Tell whether all marks of strings (n,) are such as text can hold."""
    if not labels.itemsize:
        return True
    native = np.ascontiguousarray(labels, dtype=labels.dtype.newbyteorder("="))
    codes = native.view(np.uint32)
    return not ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))).any()


def _rows(X: Any, source: str) -> "da.Array":
    """Turn whatever holds rows into a dask array chunked by rows."""
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if hasattr(X, "dask"):
        return _dask_rows(X, source)
    if hasattr(X, "tocsr"):
        return from_sparse(X, source)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    try:
        X = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source} is no table of numbers: {error}") from None
    if X.ndim != 2:
        raise DataError(f"X must be two-dimensional, (rows, columns); {source} has shape {X.shape}")
    return from_memory(_numbers(X, source) if X.dtype.kind in "OUS" else X, source)


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
    try:
        if X.dtype.kind in "US":
            raise ValueError
        return X.astype(np.float64)
    except (TypeError, ValueError):
        row, column, value = next(_not_numbers(X), (0, 0, X.dtype))
    value = getattr(value, "item", lambda: value)()
    raise DataError(
        f"X must hold real numbers; {source} has {value!r} in row {row}, column {column}"
    )


def _not_numbers(X: NDArray[Any]) -> Any:
    for (row, column), value in np.ndenumerate(X):
        try:
            if isinstance(value, str | bytes):
                raise ValueError
            float(value)
        except (TypeError, ValueError):
            yield row, column, value
