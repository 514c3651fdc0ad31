"""Tables: rows of named columns with their labels, and the checks that all sources share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparsegp.data.blocks import dense, from_memory, of_known_sizes
from sparsegp.data.column import DROP
from sparsegp.data.encoding import Encoding, encoding_for
from sparsegp.data.frames import Frame, column_names, column_places, is_frame, listed, real_numbers
from sparsegp.data.labels import REAL_KINDS, encode, tidy_labels, warn_of_alike
from sparsegp.data.means import Targets, folds_of, learn_means
from sparsegp.errors import DataError, SettingsError, one_line, quoted
from sparsegp.types import DaskArray, Doubles, Integers, Labels

MAX_REPEATED = 20_000
"""Maximum sum of the weights of rows that are repeated: see `data.copies`."""
MIN_IDS = 20
"""Minimum number of different ids for rows of one id to be held out together."""
WEIGHTS = 1e-9, 1e9
"""Smallest and largest nonzero weight of a row that double precision can handle."""


@dataclass(frozen=True)
class Table:
    """Inputs and labels of some rows.

    Parameters
    ----------
    X : dask array (n, p)
        Real numbers, chunked by rows only. A frame not yet encoded may hold other values, which
        are errors when they are computed.
    y : array (n,) or None
        Labels as given, integers or strings; None if there are none.
    source : str
        Origin of the rows, for messages, without credentials.
    origin : Integers (n,), optional
        For each row the number of its original (its own unless it is a copy), if there are copies.
    names : tuple of str, optional
        Column names, if the source has any.
    label : str, optional
        Name of the label column, or its number if there are no names.
    weights : Doubles (n,), optional
        Weights of the log likelihoods of the rows.
    weight_column : str, optional
        Name or number of the column that held them, if it was one of a file.
    rows : Integers (n,), optional
        If some rows of the source were left out: the row numbers of the others in the source.
    repeats : bool
        Whether rows have the inputs of others, but are separate observations.
    frame : Frame, optional
        The original rows, unless they have been encoded for good; see `learnt` and `encoded`.
    kinds : mapping of str to str, optional
        Kinds of columns of the frame that their values do not determine.
    encoding : Encoding, optional
        How X was computed from a frame.
    medians : Doubles (p,), optional
        Column medians of a frame that held only numbers.
    beside : mapping of str to array
        Columns that are not inputs but are kept for output: ids of the rows of the source.
    classes : Labels (K,), optional
        All possible labels, sorted, if these rows may lack some.
    missing : tuple of str
        Markers of missing values in a text file, besides the usual ones.
    is_part : bool
        Whether more rows will follow, with which the encoding of a frame is learnt again.

    Raises
    ------
    DataError
        If X is not a matrix of real numbers, or is empty; if rows lack a label or valid weight.
    """

    X: DaskArray
    y: Labels | None
    source: str
    origin: Integers | None = None
    names: tuple[str, ...] | None = None
    label: str | None = None
    weights: Doubles | None = None
    weight_column: str | None = None
    rows: Integers | None = None
    repeats: bool = False
    frame: Frame | None = None
    kinds: Mapping[str, str] | None = None
    encoding: Encoding | None = None
    medians: Doubles | None = None
    beside: Mapping[str, Labels] = field(default_factory=dict)
    classes: Labels | None = None
    missing: tuple[str, ...] = ()
    is_part: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", one_line(self.source))
        require_two_dimensions(self.X, self.source)
        if self.X.dtype.kind not in REAL_KINDS:
            raise DataError(f"X must hold real numbers; {self.source} holds {self.X.dtype}")
        n, p = self.X.shape
        if n == 0 or p == 0:
            missing = "no columns to learn from" if n else "no rows"
            raise DataError(f"a table needs rows and columns; {self.source} has {missing}")
        labels = None if self.y is None else tidy_labels(self.y, self.source)
        object.__setattr__(self, "y", labels)
        if labels is not None and len(labels) != n:
            raise DataError(
                f"every row needs one label; {self.source} has {n} rows and {len(labels)} labels"
            )
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, n, self.source))

    @property
    def counts(self) -> Doubles:
        """Weight of each row, (n,); one if there are no weights."""
        return np.ones(len(self.X)) if self.weights is None else self.weights

    @property
    def most_rows(self) -> int:
        """Maximum number of rows of a fit, which may repeat weighted rows."""
        n = len(self.X)
        return n if self.weights is None else max(n, min(int(self.weights.sum()), MAX_REPEATED))

    def codes(self) -> tuple[Labels, Integers]:
        """Return the classes, and for each row the index of its class; see `encode`.

        Classes that are not given raise a warning if some differ only in case or spaces.
        """
        classes, codes = encode(self.y, self.source, self.classes)
        if self.classes is None:
            warn_of_alike(classes, self.source)
        return classes, codes

    @cached_property
    def ids(self) -> Labels | None:
        """Ids of the rows, (n,), if there are at least `MIN_IDS` and rows share some, else None."""
        ids: Any = next(iter(self.beside.values()), ())
        if self.rows is not None and len(ids):
            ids = np.asarray(ids)[self.rows]
        return ids if MIN_IDS <= len(np.unique(ids)) < len(self.X) == len(ids) else None

    @cached_property
    def families(self) -> Integers | None:
        """For each row, (n,), the first of those held out together: of the same id, or copies."""
        if self.ids is None:
            return self.origin
        _, first, family = np.unique(self.ids, return_index=True, return_inverse=True)
        return first[family]

    def places(self, rows: Integers) -> Integers:
        """Return the positions in the table of some rows of the source."""
        if self.rows is None:
            return rows
        order = np.argsort(self.rows)
        return np.asarray(order[np.searchsorted(self.rows, rows, sorter=order)])

    def learnt(
        self, scheduler: Any = None, is_regression: bool | None = None, shares: Any = None
    ) -> "Table":
        """Return the table as numbers; an encoding is learnt if a frame holds anything else.

        It is learnt from the rows of positive weight.

        Parameters
        ----------
        scheduler : str or callable, optional
            Dask scheduler.
        is_regression : bool, optional
            Whether it is for a regression; without it the encoding does not depend on the labels.
        shares : Doubles (n, K), optional
            Probabilities of the classes, in place of labels.

        Raises
        ------
        DataError
            If columns cannot be used; all of them are named.
        """
        if self.frame is None or self.encoding is not None or self.medians is not None:
            return replace(self, frame=None)
        counts = self.counts if self.counts.any() else np.ones(len(self.X))
        rows = counts > 0.0
        frame = self.frame if rows.all() else self.frame.take(np.flatnonzero(rows))
        encoding = Encoding.learn(frame, self.source, self.kinds, scheduler, self.is_part)
        if encoding.is_plain:
            medians = np.array([column.fill for column in encoding.columns])
            return replace(self.encoded(None), medians=medians)
        if is_regression is not None:
            each = (self.y if shares is None else shares, self.ids)
            y, ids = (None if some is None else some[rows] for some in each)
            targets = Targets(y, is_regression, self.classes, counts[rows])
            encoding = learn_means(encoding, frame, targets, self.source, ids, scheduler)
        return self.encoded(encoding, to_learn=True)

    def encoded(self, encoding: Encoding | None, to_learn: bool = False) -> "Table":
        """Return the table as numbers, by the encoding of a model; None accepts only numbers.

        Raises
        ------
        DataError
            If columns are missing, or the rows are not a frame; for unreadable values, when these
            are computed.
        """
        if self.frame is None:
            if encoding is not None and self.X.shape[1] != len(encoding.names):
                raise DataError(
                    f"{self.source} must have named columns, as the training rows had: "
                    f"{listed(encoding.inputs)}; it is an array of {self.X.shape[1]} columns"
                )
            return self
        if encoding is None:
            return replace(self, frame=None)
        folds = None
        if to_learn and any(column.means for column in encoding.columns):
            folds = folds_of(encoding, self.frame, self.source, self.ids, self.counts > 0.0)
        X = encoding.apply(self.frame, self.source, folds)
        return replace(self, X=X, names=encoding.names, frame=None, encoding=encoding)

    def encoded_for(self, fitted: Any, to_learn: bool = False) -> "Table":
        """Return the table with the columns of a model or of its training rows; see `encoded`.

        Named columns are put into the same order, and none may be missing. Missing values are
        filled, even if the training rows had none. If the rows are `to_learn` from, their means
        leave out their own labels.
        """
        found = None if self.frame is None else self.frame.names
        table, names = self.encoded(encoding_for(found, fitted), to_learn), fitted.names
        if names is not None and table.names not in (None, names):
            table = table.columns(column_places(names, table.names or (), self.source))
        return replace(table, encoding=fitted.encoding, medians=fitted.medians)

    def batches(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield the inputs of one chunk after another, with the columns kept for output."""
        from dask.local import get_sync  # noqa: PLC0415 - slow; by name it would load distributed

        start = 0
        for index in range(self.X.numblocks[0]):
            X = np.asarray(self.X.blocks[index].compute(scheduler=get_sync))
            rows = slice(start, start := start + len(X))
            yield X, {name: values[rows] for name, values in self.beside.items()}

    def columns(self, places: Sequence[int]) -> "Table":
        """Return the table with the columns at these positions, in this order."""
        names = None if self.names is None else tuple(self.names[place] for place in places)
        frame = None if self.frame is None else self.frame.select(places)
        X = self.X[:, places] if frame is None else frame.numbers(self.source)
        return replace(self, X=X, names=names, frame=frame)


@dataclass(frozen=True)
class Dataset:
    """A training table and, if there is one, a test table.

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


def as_table(X: Any, y: Any = None, sample_weight: Any = None, source: str = "X") -> Table:
    """Return X, a table or else arrays, as a table with the labels and weights that are given."""
    table = X if isinstance(X, Table) else table_from_arrays(X, None, source)
    given = {"y": y, "weights": sample_weight}
    return replace(table, **{name: each for name, each in given.items() if each is not None})


def table_of(name: str, given: Any, source: str) -> Table:
    """Return rows given as the argument `name`: a table, or a tuple (X, y) or (X, y, weights).

    Raises
    ------
    SettingsError
        If it is neither.
    """
    if isinstance(given, Table):
        return given
    if not isinstance(given, tuple | list) or len(given) not in {2, 3}:
        raise SettingsError(
            f"{name} must be a pair of inputs and labels, or these and weights, got {quoted(given)}"
        )
    X, y, weights = (*given, None)[:3]
    return as_table(X, y, weights, source)


def table_from_arrays(X: Any, y: Any = None, source: str = "X") -> Table:
    """Create a table from arrays.

    Parameters
    ----------
    X : array-like (n, p)
        A numpy array, nested lists, a scipy sparse matrix (made dense chunk by chunk when read),
        a dask array, also of such matrices, or a data frame, see `table_from_frame`. Chunks of
        unknown size are computed once to find it; chunks that divide columns are joined.
    y : array-like (n,) or (n, 1), optional
        Labels.
    source : str
        A name for messages.

    Raises
    ------
    DataError
        If the arrays are invalid, see `Table`.
    """
    if is_frame(X):
        return table_from_frame(X, y, source)
    if hasattr(X, "dask"):
        X = of_known_sizes(dense(X))
        X = X.rechunk({1: -1}) if X.ndim == 2 else X
        if X.dtype.kind == "O":
            X = X.map_blocks(real_numbers, source=source, dtype=float, meta=np.empty((0, 0)))
        return Table(X, y, source)
    X = X if hasattr(X, "tocsr") else real_numbers(X, source)
    require_two_dimensions(X, source)
    return Table(from_memory(X, source), y, source)


def table_from_frame(
    frame: Any,
    y: ArrayLike | None = None,
    source: str = "X",
    kinds: Mapping[str, str] | None = None,
    label: str | None = None,
) -> Table:
    """Create a table from a data frame of numbers, booleans, categories and dates.

    It is encoded later: a fit learns the encoding from its training rows (`Table.learnt`), and a
    model applies it (`Table.encoded`).

    Parameters
    ----------
    frame : data frame
        Of pandas, polars, pyarrow or dask. The parts of a dask data frame are computed once to
        count their rows.
    y : array-like (n,), optional
        Labels.
    source : str
        A name for messages.
    kinds : mapping of str to str, optional
        "number", "whole number", "truth", "category" or "date" for columns whose values do not
        determine their kind; "drop" for those to leave out.
    label : str, optional
        Name of the label column.

    Raises
    ------
    DataError
        If there are no rows or columns, labels do not match, or two columns share a name.
    """
    parts, kinds = Frame.of(frame, source), kinds or {}
    kept = [place for place, name in enumerate(parts.names) if kinds.get(name) != DROP]
    kinds = {name: kind for name, kind in kinds.items() if kind != DROP or name not in parts.names}
    parts = parts.select(kept)
    known: dict[str, Any] = {"y": y, "names": column_names(parts.empty.columns), "label": label}
    return Table(parts.numbers(source), source=source, frame=parts, kinds=kinds, **known)


def require_two_dimensions(X: Any, source: str) -> None:
    """Raise a `DataError` if X is not an array of rows and columns."""
    if X.ndim != 2:
        hint = "; a file is read by sparsegp.data.open_dataset" if X.ndim == 0 else ""
        raise DataError(
            f"X must be two-dimensional, (rows, columns); {source} has shape {X.shape}{hint}"
        )


def _weights(given: Any, n: int, source: str) -> Doubles:
    """Check the weights of n rows, and return them as doubles."""
    try:
        found = np.ma.asarray(given)
        if np.iscomplexobj(found):
            raise TypeError
        weights = np.ma.filled(found.astype(np.float64), np.nan)
    except (TypeError, ValueError):
        raise DataError(f"weights must be numbers; those of {source} are {quoted(given)}") from None
    if weights.shape != (n,):
        sizes = f"{n} rows and weights of shape {weights.shape}"
        raise DataError(f"every row needs one weight; {source} has {sizes}")
    low, high = WEIGHTS
    bad = ~((weights == 0.0) | ((weights >= low) & (weights <= high)))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"weights must be 0, or from {low:g} to {high:g}; {source} has {weights[row]:g} in row "
            f"{row}; a row that counts once weighs 1"
        )
    return weights
