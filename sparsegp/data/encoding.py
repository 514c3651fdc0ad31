"""From columns with names and kinds to columns of numbers, learnt from the training rows.

- A number stays as it is; where it is missing it becomes the median of the training rows, and a
  further column says so, where training rows had such gaps. Truths are numbers, 0 and 1.
- A category has a column of 0 and 1 for each level, in the order of frequency; two levels share
  one. Rare levels are one together: those of fewer than `LEAST` rows (a fiftieth, of few rows), and
  those beyond the `INDICATED` most frequent. Missing values are a level. What training has not seen
  is rare, or no level at all where none was. Where levels are more than `INDICATED`, further
  columns have the mean label of each (data/means.py).
- A date is its year, and the day of the year, the day of the week and the hour as points on a
  circle; as many of them as vary. A missing one is in the middle of the circles.
- Columns without information, all missing or with one value, are left out.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data.frames import (
    MOST,
    Frame,
    Where,
    as_pandas,
    by_row,
    column_places,
    frame_names,
    refuse,
    unreadable,
)
from sparsegp.errors import DataError
from sparsegp.lists import first_of, in_quotes
from sparsegp.types import Booleans, Doubles, Integers

NUMBERS = ("number", "whole number", "truth")
"""Kinds whose values are numbers as they are."""
KINDS = (*NUMBERS, "category", "date")
DROP = "drop"
"""What is said in place of the kind of a column that is left out."""
RARE, MISSING = ": rare", " missing"
"""How the names of encoded columns end; that of a level ends in "=" and the level."""
MEAN = ": mean of "
"""How the name of a column of mean labels goes on."""
INDICATED = 30
"""Levels of a category that have a column, at most."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Column:
    """An input column as it was in training, and what it is encoded as.

    Parameters
    ----------
    name, kind : str
        One of `KINDS`.
    parts : tuple of str
        Ends of the names of its encoded columns; none where it is left out.
    missing : float
        Share of the rows.
    fill : float
        What a missing number, or the year of a missing date, becomes.
    levels, counts : tuple
        Of a category: its frequent levels and their rows.
    rare : tuple of str or None
        Its other levels; None where there are too many to know them.
    note : str
        Why it is left out.
    means : tuple of float
        Of a category with columns of mean labels: those of its levels, of its rare levels, of one
        that training has not seen, and of a gap; as many of each as there are such columns.
    form : str
        How words are read, where they were dates or truths in training.
    """

    name: str
    kind: str
    parts: tuple[str, ...] = ()
    missing: float = 0.0
    fill: float = 0.0
    levels: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    rare: tuple[str, ...] | None = ()
    note: str = ""
    means: tuple[float, ...] = ()
    form: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Column":
        """Make a column of what `asdict` gave."""
        lists = {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
        return cls(**{**values, **lists})

    def encode(self, series: Any) -> Doubles:
        """Return the encoded columns (n, parts) of some rows; NaN where a value is unreadable."""
        from sparsegp.data import kinds  # noqa: PLC0415 - loads pandas

        if self.kind == "category":
            return self._by_place()[self.places(series)]
        missing = kinds.is_missing(series)
        if self.kind == "date":
            year, *others = kinds.dates(series, self.form).T
            values = {kinds.YEAR: np.where(missing, self.fill, year)}
            for (name, period), part in zip(kinds.CIRCLES.items(), others, strict=True):
                angle = 2.0 * np.pi * part / period
                values[f": {name} (sin)"] = np.where(missing, 0.0, np.sin(angle))
                values[f": {name} (cos)"] = np.where(missing, 0.0, np.cos(angle))
        else:
            values = {"": np.where(missing, self.fill, kinds.numbers(series, self.kind))}
        values[MISSING] = missing
        return np.column_stack([values[part] for part in self.parts]).astype(np.float64)

    @property
    def are_means(self) -> Booleans:
        """Which encoded columns are mean labels, (parts,)."""
        of_category = self.kind == "category"
        return np.array([of_category and part.startswith(MEAN) for part in self.parts], bool)

    @property
    def has_many_levels(self) -> bool:
        """Whether it is a category of more than `INDICATED` levels."""
        return len(self.levels) + len(self.rare or ()) > INDICATED

    @property
    def n_places(self) -> int:
        """How many values `places` may have: one for each level, and two more."""
        return len(self.levels) + len(self.rare or ()) + 2

    def places(self, series: Any) -> Integers:
        """Return the places of categories among levels, rare levels, one not seen, a gap; (n,)."""
        from sparsegp.data import kinds  # noqa: PLC0415 - loads pandas

        codes, texts = kinds.texts(series)
        known = {level: place for place, level in enumerate((*self.levels, *(self.rare or ())))}
        unseen, gap = self.n_places - 2, self.n_places - 1
        return np.array([*(known.get(text, unseen) for text in texts), gap])[codes]

    def _by_place(self) -> Doubles:
        """Return what each place is encoded as, (n_places, parts)."""
        gap = MISSING if MISSING in self.parts else RARE
        ends = [*(f"={level}" for level in self.levels), RARE, gap]
        unlike = np.array([[end == part for part in self.parts] for end in ends], np.float64)
        n_rare = self.n_places - len(self.levels) - 1  # and one not seen
        table = np.repeat(unlike, [1] * len(self.levels) + [n_rare, 1], axis=0)
        table[:, self.are_means] = np.reshape(self.means, (self.n_places, -1))
        return table

    def news(self, series: Any) -> tuple[int, str, int]:
        """Return what training has not seen: rows of such levels, one of these, and rows filled.

        A gap in a category is such a level, an empty text; others are filled by the median.
        """
        from sparsegp.data import kinds  # noqa: PLC0415 - loads pandas

        if self.kind != "category":
            return 0, "", 0 if self.missing else int(kinds.is_missing(series).sum())
        if self.rare is None:
            return 0, "", 0
        codes, texts = kinds.texts(series)
        known = {*self.levels, *self.rare}
        new = [number for number, text in enumerate(texts) if text not in known]
        gaps = [] if self.missing else [-1]
        return int(np.isin(codes, [*new, *gaps]).sum()), texts[new[0]] if new else "", 0


@dataclass(frozen=True)
class Encoding:
    """Encoding of the rows of a data frame as numbers.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the training data.
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        texts = [
            each for c in self.columns for each in (c.name, *c.parts, *c.levels, *(c.rare or ()))
        ]
        fills = [each for c in self.columns for each in (c.fill, c.missing, *c.means)]
        if not (
            all(isinstance(text, str) for text in texts)
            and np.isfinite(fills).all()
            and {column.kind for column in self.columns} <= {*KINDS}
            and all(len(c.means) == c.n_places * c.are_means.sum() for c in self.columns)
            and len(set(self.all)) == len(self.all)
        ):
            raise DataError("an encoding must have columns of known kinds, with different names")

    @classmethod
    def learn(
        cls, frame: Any, source: str, kinds: Mapping[str, str] | None = None, scheduler: Any = None
    ) -> "Encoding":
        """Learn an encoding from the training rows, in one pass over the partitions of a frame.

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

        Raises
        ------
        DataError
            If columns cannot be used; all of them are named.
        """
        from sparsegp.data.kinds import study  # noqa: PLC0415 - loads pandas

        return cls(study(Frame.of(frame, source, scheduler), source, kinds or {}, scheduler))

    @classmethod
    def of_numbers(cls, names: Sequence[str], medians: Doubles) -> "Encoding":
        """Return the encoding of numeric columns: missing values are replaced by medians (p,)."""
        pairs = zip(names, medians.tolist(), strict=True)
        return cls(tuple(Column(name, "number", ("",), fill=median) for name, median in pairs))

    @classmethod
    def from_json(cls, columns: Sequence[Mapping[str, Any]]) -> "Encoding":
        """Make an encoding of what `to_json` gave."""
        return cls(tuple(map(Column.from_json, columns)))

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain JSON values."""
        return [asdict(column) for column in self.columns]

    @property
    def all(self) -> tuple[str, ...]:
        """Names of the columns of the training rows, including those left out."""
        return tuple(column.name for column in self.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of a data frame that are used."""
        return tuple(column.name for column in self.columns if column.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns (p,)."""
        return tuple(column.name + part for column, part in self._parts)

    @property
    def _parts(self) -> list[tuple[Column, str]]:
        """The original of each encoded column, and the end of its name."""
        return [(column, part) for column in self.columns for part in column.parts]

    @property
    def groups(self) -> Integers:
        """For each encoded column, the number of its original column, (p,)."""
        return np.repeat(np.arange(len(self.columns)), [len(c.parts) for c in self.columns])

    @property
    def shared(self) -> Integers:
        """A number for each encoded column, which the levels of a category share, (p,)."""
        each = zip(self._parts, self.are_means, strict=True)
        ends = [(c.name, "" if c.kind == "category" and not m else part) for (c, part), m in each]
        numbers = {end: number for number, end in enumerate(dict.fromkeys(ends))}
        return np.array([numbers[end] for end in ends], dtype=np.int64)

    @property
    def indicates(self) -> Booleans:
        """Which encoded columns are 0-1 indicators: of levels, booleans, missing values; (p,)."""
        ends = [c.kind in {"category", "truth"} or part == MISSING for c, part in self._parts]
        return np.array(ends, bool) & ~self.are_means

    @property
    def are_means(self) -> Booleans:
        """Which encoded columns are mean labels, (p,)."""
        return np.concatenate([np.empty(0, bool), *(c.are_means for c in self.columns)])

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers without missing values, which need no encoding."""
        return all(c.kind in NUMBERS and not (c.missing or c.form) for c in self.columns)

    def apply(self, frame: Any, source: str, means: Doubles | None = None) -> Any:
        """Encode rows: immediately for a frame in memory, lazily for a dask data frame.

        Levels and missing values that training had not are warned of, unless the rows are lazy.

        Parameters
        ----------
        frame : Frame or data frame
            Must have the columns `inputs`, in any order; others are ignored.
        source : str
            Where the rows come from, for messages.
        means : Doubles (n, `are_means`), optional
            Mean labels of the training rows, in place of those that new rows get.

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
            self._warn_of_news([frame], source)
            return _encoded(frame, 0, encoding=self, source=source)
        frame = Frame.of(frame, source)
        if not any(hasattr(part, "dask") for part in frame.parts):
            self._warn_of_news(frame.parts or [frame.empty], source)
        rows = partial(_encoded, encoding=self, source=source, where=frame.where)
        beside = () if means is None else (means,)
        return frame.rows(rows, len(self.names), np.float64, *beside)

    def _warn_of_news(self, parts: Sequence[Any], source: str) -> None:
        """Warn of levels and missing values new since training."""
        each = [[c.news(series) for c, series in self._columns_of(part, source)] for part in parts]
        gaps, levels = list[str](), list[str]()
        for name, news in zip(self.inputs, zip(*each, strict=True), strict=True):
            unknown, ones, filled = zip(*news, strict=True)
            if n := sum(filled):
                gaps.append(f"{in_quotes(name)} in {n} rows")
            if n := sum(unknown):
                one = next(filter(None, ones), "")
                levels.append(f"{in_quotes(name)} in {n} rows, such as {one!r}")
        if gaps:
            logger.warning(
                "%s has gaps where training had none, filled by the median: %s",
                source,
                first_of(gaps, MOST),
            )
        if levels:
            logger.warning(
                "%s has levels that training has not seen, which count as rare: %s",
                source,
                "; ".join(levels),
            )

    def _columns_of(self, frame: Any, source: str) -> Iterator[tuple[Column, Any]]:
        """Yield the columns that are used, and the series of some rows."""
        used = [column for column in self.columns if column.parts]
        places = column_places(self.inputs, frame_names(frame), source)
        return ((column, frame.iloc[:, at]) for column, at in zip(used, places, strict=True))


def encoding_for(
    found: Sequence[str] | None,
    encoding: Encoding | None,
    names: Sequence[str] | None,
    medians: Doubles | None,
) -> Encoding | None:
    """Return how a frame becomes the columns of a model; None where it must be numbers alone.

    Its own columns have the names `found`, None of an array; all else is known of those of
    the model, see `sparsegp.model.Model`.
    """
    if encoding is not None or medians is None or found is None:
        return encoding
    called = found if names is None else names
    return Encoding.of_numbers(called, medians) if len(called) == len(medians) else None


def _encoded(
    frame: Any,
    start: int,
    means: Doubles | None = None,
    *,
    encoding: Encoding,
    source: str,
    where: Where = by_row,
) -> Doubles:
    """Encode some rows, of which the first has this number (n, p)."""
    encoded, faults = [], []
    for column, series in encoding._columns_of(frame, source):
        values = column.encode(series)
        encoded.append(values)
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            row = int(bad.argmax())
            value = series.iloc[row : row + 1].tolist()[0]
            faults.append(unreadable(where(start + row, column.name), column.kind, value))
    refuse(faults, source)
    X = np.concatenate(encoded, axis=1) if encoded else np.empty((len(frame), 0))
    if means is not None:
        X[:, encoding.are_means] = means
    return X
