"""Encoding of named columns of several kinds as numbers, learnt from the training rows.

- A number stays as it is; missing values become the median of the training rows and, if training
  rows had any, are marked in a further column. Truth values are numbers, 0 and 1.
- A category has a column of 0 and 1 for each level, in order of frequency; two levels need only
  one column. Rare levels share a column: those with fewer than ten rows (a fiftieth of all, if
  these are few), and those beyond the most frequent (30 to 300, see kinds.py). Missing values are
  a level. A level not seen in training counts as rare or, if no level was rare, as no level.
- A category with more than 30 levels also has columns with a random code for each rare level, so
  that a kernel can tell them apart at the cost of a few columns; or, with more than 100 rare levels
  (1000 in a regression), their mean labels (means.py).
- A date is encoded as its time in years, such as 2024.5, and the sine and cosine of the day of the
  year, the day of the week and the hour, as far as these vary. A missing date has the median time,
  and zeros otherwise.
- Columns without information (all values missing, or all the same) are left out.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import compute_each
from sparsegp.data.column import KINDS, MEAN, MISSING, NUMBERS, RARE, Column, nan_as_missing
from sparsegp.data.frames import (
    MAX_NAMES,
    Frame,
    Where,
    as_pandas,
    by_row,
    column_places,
    frame_names,
    refuse,
    require_distinct,
    unreadable,
    with_remedies,
)
from sparsegp.errors import DataError, quoted
from sparsegp.lists import join_first, plural, quote_if_needed
from sparsegp.math.hashing import hashes_of_rows
from sparsegp.types import Booleans, Doubles, Integers

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoding:
    """Encoding of the rows of a data frame as numbers.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the training data.
    """

    columns: tuple[Column, ...]
    _warned_of: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_warned_of": set()}

    def __post_init__(self) -> None:
        texts = [each for c in self.columns for each in (c.name, *c.parts, *c.levels, *c.rare)]
        fills = [each for c in self.columns for each in (c.fill, c.missing)]
        if not (
            all(isinstance(text, str) for text in texts)
            and np.isfinite(fills).all()
            and all(column.has_sound_means for column in self.columns)
            and {column.kind for column in self.columns} <= {*KINDS}
            and len(set(self.all)) == len(self.all)
        ):
            raise DataError("an encoding must have columns of known kinds, with different names")

    @classmethod
    def learn(
        cls,
        frame: Any,
        source: str,
        kinds: Mapping[str, str] | None = None,
        scheduler: Any = None,
        is_part: bool = False,
    ) -> "Encoding":
        """Learn an encoding from the training rows, part by part.

        Parameters
        ----------
        frame : Frame or data frame
            Of pandas, polars, pyarrow or dask.
        source : str
            Where the rows come from, for messages.
        kinds : mapping of str to str, optional
            Kinds of columns that their values do not determine; "drop" leaves one out.
        scheduler : str or callable, optional
            Dask scheduler.
        is_part : bool
            Whether more rows will follow, so that these may all be alike, and categories with too
            many levels are left out.

        Raises
        ------
        DataError
            If columns cannot be used; all of them are named.
        """
        from sparsegp.data.kinds import study  # noqa: PLC0415 - loads pandas

        frame = Frame.of(frame, source, scheduler)
        columns = study(frame, source, kinds or {}, scheduler, is_part)
        if not any(column.parts for column in columns):
            if not is_part:
                raise DataError(
                    f"a table needs columns that vary; those of {source} have one value, or none: "
                    + ", ".join(f"{column.name[:40]} ({column.note})" for column in columns[:20])
                )
            columns = (replace(columns[0], parts=(MISSING,)), *columns[1:])
        learnt = cls(columns)
        require_distinct(learnt.names, f"{source}, once encoded,")
        found = [(quote_if_needed(c.name), c) for c in columns if c.name not in (kinds or {})]
        how = "have codes read as words by `kinds` NAME=category"
        likely = filter(None, (c.category_warning for _, c in found))
        remedy, *doubts = with_remedies([how, *likely], frame.of_file)
        numbers = [f"{name} ({c.form})" for name, c in found if c.reading != c.kind]
        clocks = [name for name, c in found if c.has_no_day]
        mixed = [name for name, c in found if c.zone == "both"]
        for what, names in (
            (f"text columns that are read as numbers: %s; {remedy}", numbers),
            ("columns that are read as times of day: %s; convert durations to numbers", clocks),
            ("dates with and without time zones in: %s; the latter are read as in UTC", mixed),
        ):
            if names:
                logger.warning(f"%s has {what}", source, join_first(names, MAX_NAMES))
        if doubts:
            message = "%s has columns taken for categories: %s"
            logger.warning(message, source, "; ".join(doubts))
        left = [f"{c.name} ({c.note})" for c in columns if c.note]
        if left and not learnt.is_plain:
            logger.warning("columns of %s that are left out: %s", source, ", ".join(left))
        return learnt

    @classmethod
    def from_json(cls, columns: Sequence[Mapping[str, Any]]) -> "Encoding":
        """Create an encoding from the result of `to_json`."""
        return cls(tuple(map(Column.from_json, columns)))

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain JSON values."""
        found = map(asdict, self.columns)  # without empty zones, as in models of older versions
        return [{k: v for k, v in each.items() if v or k != "zone"} for each in found]

    @property
    def all(self) -> tuple[str, ...]:
        """Names of the columns of the training rows, including those left out."""
        return tuple(column.name for column in self.columns)

    @property
    def _used(self) -> list[Column]:
        return [column for column in self.columns if column.parts]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of a data frame that are used."""
        return tuple(column.name for column in self._used)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns (p,)."""
        return tuple(column.name + part for column, part in self._parts)

    @property
    def _parts(self) -> list[tuple[Column, str]]:
        """For each encoded column, its input column and the suffix of its name."""
        return [(column, part) for column in self.columns for part in column.parts]

    @property
    def groups(self) -> Integers:
        """For each encoded column, the index of its input column, (p,)."""
        return np.repeat(np.arange(len(self.columns)), [len(c.parts) for c in self.columns])

    def by_input(self, relevances: Doubles) -> Doubles:
        """Return the relevance of each column, (q,), given those of the encoded columns, (p,).

        Squares of relevances add up, as in a sum of kernels; columns left out have relevance zero.
        """
        roots = np.sqrt(np.bincount(self.groups, relevances**2, len(self.columns)))
        return np.asarray(roots / (roots.sum() or 1.0))

    @property
    def scales(self) -> tuple[str, ...]:
        """For each encoded column, the name of its length scale, (p,); levels share one."""
        return tuple(
            c.name + part * (c.kind != "category" or part.startswith(MEAN))
            for c, part in self._parts
        )

    @property
    def shared(self) -> Integers:
        """For each encoded column, the index of its length scale, (p,)."""
        pairs = [*zip(self.groups.tolist(), self.scales, strict=True)]
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        return np.array([numbers[pair] for pair in pairs], dtype=np.int64)

    @property
    def indicates(self) -> Booleans:
        """Whether each encoded column holds an indicator or a code, and stays unscaled, (p,)."""
        ends = [
            (c.kind in {"category", "truth"} or part == MISSING) and not part.startswith(MEAN)
            for c, part in self._parts
        ]
        return np.array(ends, bool)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers without missing values, which need no encoding.

        Truth values do need one, which also reads them from words.
        """
        return all(c.kind in NUMBERS and not (c.missing or c.form) for c in self.columns)

    def apply(self, frame: Any, source: str, folds: Integers | None = None) -> Any:
        """Encode rows: immediately for a data frame in memory, else lazily.

        Warns about levels and missing values that training rows did not have, except in data frames
        of dask; if rows are not from a file, once for each column.

        Parameters
        ----------
        frame : Frame or data frame
            Must have the columns `inputs`, in any order; others are ignored.
        source : str
            Where the rows come from, for messages.
        folds : Integers (n,), optional
            Folds of training rows; their mean labels leave out their own fold.

        Returns
        -------
        Doubles (n, p), or dask array

        Raises
        ------
        DataError
            If columns are missing or hold unreadable values; all are named.
        """
        frame = as_pandas(frame)
        if not isinstance(frame, Frame) and not hasattr(frame, "dask"):
            self._warn_of_unseen([self._unseen(frame, source)], source, self._warned_of)
            return self._encoded(frame, by_row, folds, source=source)
        frame = Frame.of(frame, source)
        lazy = any(hasattr(part, "dask") for part in frame.parts)
        if frame.of_file or not lazy:
            news = partial(self._unseen, source=source)
            found = compute_each(news, frame.parts) if lazy else [*map(news, frame.parts)]
            self._warn_of_unseen(found, source, set() if frame.of_file else self._warned_of)
        rows = partial(self._encoded, source=source, of_file=frame.of_file)
        return frame.rows(rows, len(self.names), np.float64, folds)

    def _encoded(
        self,
        frame: Any,
        where: Where,
        fold: Integers | None = None,
        *,
        source: str,
        of_file: bool = False,
    ) -> Doubles:
        """Encode the rows of one part, (n, p); `where` describes where its values are."""
        X, first, faults = np.empty((len(frame), len(self.names))), 0, []
        for column, series in self._columns_of(frame, source):
            values = column.encode(series, fold)
            X[:, first : first + len(column.parts)] = values
            first += len(column.parts)
            if unlike := column.unlike_dates(series):
                faults.append(f"column {quoted(column.name)}: {unlike}")
            elif column.kind != "category" and not np.isfinite(values).all():
                row = int(np.isfinite(values).all(axis=1).argmin())
                value = series.iloc[row : row + 1].tolist()[0]
                kind = f"{column.kind}:{column.form}"
                faults.append(unreadable(where(row, column.name), kind, value))
        refuse(faults, source, of_file)
        return X

    def hashes_of(self, frame: Any, source: str) -> NDArray[np.uint64]:
        """Return a hash of the values of each row of a part, (n,), with codes instead of means."""
        used = self._columns_of(frame, source)
        values = [column.with_codes().encode(series) for column, series in used]
        return hashes_of_rows(np.hstack(values))

    def _unseen(self, part: Any, source: str) -> list[tuple[int, str]]:
        """Return what is new in each column that is used; see `Column.unseen`."""
        return [column.unseen(series) for column, series in self._columns_of(part, source)]

    def _warn_of_unseen(
        self, parts: Sequence[list[tuple[int, str]]], source: str, known: set[str]
    ) -> None:
        """Warn about levels and missing values that training rows did not have; see `_unseen`.

        Columns in `known` are skipped, and those that the warning names are added to it.
        """
        gaps, levels = list[str](), list[str]()
        for column, *each in zip(self._used, *parts, strict=True):
            n, one = sum(n for n, _ in each), next((one for _, one in each if one), "")
            if not n or column.name in known:
                continue
            known.add(column.name)
            if column.kind != "category":
                gaps.append(f"{quote_if_needed(column.name)} in {plural(n, 'row')}")
                continue
            such = f"such as {one!r}" if one else "where it is missing"
            treated = "rare" if RARE in column.parts or column.means else "no level"
            if len(column.parts) == 1 and treated != "rare":  # of two levels, or a gap
                treated = repr(column.levels[0])
            found = f"{column.name!r} ({plural(n, 'row')}, {such})"
            levels.append(f"{found} are treated as {treated}")
        if gaps:
            message = "%s has missing values where training rows had none, which are filled in: %s"
            logger.warning(message, source, join_first(gaps, MAX_NAMES))
        if levels:
            logger.warning("%s: unknown values in %s", source, "; in ".join(levels))

    def _columns_of(self, frame: Any, source: str) -> Iterator[tuple[Column, Any]]:
        """Yield each column that is used, with its values in a frame."""
        places = column_places(self.inputs, frame_names(frame), source)
        pairs = zip(self._used, places, strict=True)
        return ((column, nan_as_missing(frame.iloc[:, at])) for column, at in pairs)


def encoding_for(found: Sequence[str] | None, fitted: Any) -> Encoding | None:
    """Return the encoding of a frame for a model; None if it must consist of numbers.

    `found` are the column names of the frame, None for an array; `fitted` is the model, or its
    training table.
    """
    medians = fitted.medians
    if fitted.encoding is not None or medians is None or found is None:
        return fitted.encoding  # type: ignore[no-any-return]
    numbers = tuple(map(str, range(len(medians))))  # of columns without names, in any order
    called = fitted.names or (numbers if {*found} == {*numbers} else found)
    if len(called) != len(medians):
        return None
    pairs = zip(called, medians.tolist(), strict=True)
    return Encoding(tuple(Column(name, "number", ("",), fill=median) for name, median in pairs))
