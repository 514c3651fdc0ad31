"""Encoding of named columns of several kinds as numbers, learnt from the training rows.

- A number stays as it is; missing values become the median of the training rows and, if training
  rows had any, are marked in a further column. Truth values are numbers, 0 and 1.
- A category has a column of 0 and 1 for each level, in the order of frequency; two levels share
  one column. Rare levels share one too: those with fewer than ten rows (a fiftieth, if rows are
  few), and those beyond the most frequent (30 to 300 of them, see kinds.py). Missing values are a
  level. A level not seen in training counts as rare or, if no level was rare, as no level.
- A category with more than 30 levels also has columns with a random code for each rare level, so
  that a kernel tells them apart at the price of a few columns. Mean labels of levels do so too, but
  even if they are those of other rows they tell something about a row's own label.
- A date is encoded as its year, and sine and cosine of the day of the year, the day of the week and
  the hour; as many of them as vary. A missing date has the median year, and zeros otherwise.
- Columns without information (all values missing, or all the same) are left out.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.frames import (
    MAX_NAMES,
    Frame,
    Where,
    as_pandas,
    by_row,
    column_places,
    frame_names,
    in_pandas,
    likeness,
    refuse,
    require_distinct,
    unreadable,
)
from sparsegp.errors import DataError
from sparsegp.lists import join_first, plural, quote_if_needed
from sparsegp.types import Booleans, Doubles, Integers

NUMBERS = ("number", "whole number")
"""Kinds of columns that may need no encoding."""
KINDS = (*NUMBERS, "truth", "category", "date")
DROP = "drop"
"""Given in place of a kind for a column to leave out."""
RARE, MISSING = ": rare", " missing"
"""Suffixes of the names of encoded columns; for a level it is "=" and the level."""
CODE_PARTS, CODE_STEP = tuple(f": code {bit}" for bit in range(16)), 0.25
"""Suffixes of the columns of the codes of other levels, and the value of a bit that is set: the sum
of absolute differences of two codes is then, on average, that of the indicators of two levels."""

logger = logging.getLogger(__name__)


def code(level: str) -> NDArray[np.uint8]:
    """Return the bits of a hash of a level, which depend on nothing else, (len(CODE_PARTS),)."""
    digest = blake2b(
        level.encode("utf-8", "surrogatepass"), digest_size=len(CODE_PARTS) // 8
    ).digest()
    return np.unpackbits(np.frombuffer(digest, np.uint8))


@dataclass(frozen=True)
class Column:
    """An input column of the training rows, and its encoding.

    Parameters
    ----------
    name, kind : str
        Its name, and one of `KINDS`.
    parts : tuple of str
        Suffixes of the names of its encoded columns; empty if it is left out.
    missing : float
        Fraction of the training rows where it is missing.
    fill : float
        Replaces a missing number, or the year of a missing date.
    levels, counts : tuple
        For a category: its frequent levels and their numbers of rows.
    rare : tuple of str or None
        Its other levels; None if there are too many to store.
    note : str
        Why it is left out.
    form : str
        Date format, or "words", if it held dates or truth values as text in training.
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
    form: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Column":
        """Create a column from the result of `asdict`."""
        lists = {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
        return cls(**{**values, **lists})

    def encode(self, series: Any) -> Doubles:
        """Encode the values of some rows, (n, parts); NaN where a value is unreadable."""
        from sparsegp.data import kinds  # noqa: PLC0415 - loads pandas

        if self.kind == "category":
            return self._by_place()[self.places(series)]
        missing = series.isna().to_numpy(bool)
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
        return np.column_stack([values[part] for part in self.parts]).astype(np.float64, copy=False)

    @property
    def doubt(self) -> str:
        """What most levels look like, other than a category, and what to do about it."""
        levels = (*self.levels, *(self.rare or ()))
        what = likeness(levels) if self.kind == "category" else ""
        return what and f"{self.name!r}, where {levels[0]!r} and {what}"

    @property
    def n_places(self) -> int:
        """Number of values of `places`: one per level, one for unseen levels, one for missing."""
        return len(self.levels) + len(self.rare or ()) + 2

    def places(self, series: Any) -> Integers:
        """Map values to indices, (n,): frequent levels, rare levels, unseen levels, missing."""
        from sparsegp.data import kinds  # noqa: PLC0415 - loads pandas

        codes, texts = kinds.texts(series)
        known = {level: place for place, level in enumerate((*self.levels, *(self.rare or ())))}
        unseen, gap = self.n_places - 2, self.n_places - 1
        return np.array([*(known.get(text, unseen) for text in texts), gap])[codes]

    def _by_place(self) -> Doubles:
        """Return the encoded values for each index of `places`, (n_places, parts)."""
        gap = MISSING if MISSING in self.parts else RARE
        ends = [*(f"={level}" for level in self.levels), RARE, gap]
        unlike = np.array([[end == part for part in self.parts] for end in ends], np.float64)
        n_rare = self.n_places - len(self.levels) - 1  # and one not seen
        table = np.repeat(unlike, [1] * len(self.levels) + [n_rare, 1], axis=0)
        if self.parts[-1:] == CODE_PARTS[-1:]:
            for place, level in enumerate(self.rare or (), len(self.levels)):
                table[place, -len(CODE_PARTS) :] = CODE_STEP * code(level)
        return table

    def news(self, series: Any) -> tuple[int, str]:
        """Count the rows unlike those of training, and return one of their new levels, if any.

        These are rows with new levels of a category and, if training rows had none, with missing
        values.
        """
        gaps = series.isna().to_numpy(bool) & (self.missing == 0.0)
        if self.kind != "category":
            return int(gaps.sum()), ""
        from sparsegp.data import kinds  # noqa: PLC0415 - loads pandas

        new = (self.places(series) == self.n_places - 2) & (self.rare is not None)
        return int((new | gaps).sum()), next(iter(kinds.texts(series[new])[1]), "")


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
        fills = [each for c in self.columns for each in (c.fill, c.missing)]
        if not (
            all(isinstance(text, str) for text in texts)
            and np.isfinite(fills).all()
            and {column.kind for column in self.columns} <= {*KINDS}
            and len(set(self.all)) == len(self.all)
        ):
            raise DataError("an encoding must have columns of known kinds, with different names")

    @classmethod
    def learn(
        cls, frame: Any, source: str, kinds: Mapping[str, str] | None = None, scheduler: Any = None
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

        Raises
        ------
        DataError
            If columns cannot be used; all of them are named.
        """
        from sparsegp.data.kinds import study  # noqa: PLC0415 - loads pandas

        learnt = cls(study(Frame.of(frame, source, scheduler), source, kinds or {}, scheduler))
        require_distinct(learnt.names, f"{source}, once encoded,")
        return learnt

    @classmethod
    def from_json(cls, columns: Sequence[Mapping[str, Any]]) -> "Encoding":
        """Create an encoding from the result of `to_json`."""
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
        """For each encoded column, its input column and the suffix of its name."""
        return [(column, part) for column in self.columns for part in column.parts]

    @property
    def groups(self) -> Integers:
        """For each encoded column, the index of its input column, (p,)."""
        return np.repeat(np.arange(len(self.columns)), [len(c.parts) for c in self.columns])

    @property
    def scales(self) -> tuple[str, ...]:
        """For each encoded column, the name of its length scale, (p,); levels share one."""
        return tuple(c.name + part * (c.kind != "category") for c, part in self._parts)

    @property
    def shared(self) -> Integers:
        """For each encoded column, the index of its length scale, (p,)."""
        pairs = [*zip(self.groups.tolist(), self.scales, strict=True)]
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        return np.array([numbers[pair] for pair in pairs], dtype=np.int64)

    @property
    def indicates(self) -> Booleans:
        """Whether each encoded column is an indicator, or of a code, and stays unscaled; (p,)."""
        ends = [c.kind in {"category", "truth"} or part == MISSING for c, part in self._parts]
        return np.array(ends, bool)

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers without missing values, which need no encoding.

        Truth values need one, by which they are also read from words.
        """
        return all(c.kind in NUMBERS and not (c.missing or c.form) for c in self.columns)

    def apply(self, frame: Any, source: str) -> Any:
        """Encode rows: immediately for a data frame in memory, else lazily.

        Warns about levels and missing values that training rows did not have, unless rows are lazy.

        Parameters
        ----------
        frame : Frame or data frame
            Must have the columns `inputs`, in any order; others are ignored.
        source : str
            Where the rows come from, for messages.

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
            return self._encoded(frame, 0, source=source)
        frame = Frame.of(frame, source)
        if not any(hasattr(part, "dask") for part in frame.parts):
            self._warn_of_news(frame.parts, source)
        rows = partial(self._encoded, source=source, where=frame.where, of_file=frame.of_file)
        return frame.rows(rows, len(self.names), np.float64)

    def _encoded(
        self,
        frame: Any,
        start: int,
        *,
        source: str,
        where: Where = by_row,
        of_file: bool = False,
    ) -> Doubles:
        """Encode the rows of one part, (n, p); `start` is the index of its first row."""
        X, first, faults = np.empty((len(frame), len(self.names))), 0, []
        for column, series in self._columns_of(frame, source):
            values = column.encode(series)
            X[:, first : first + len(column.parts)] = values
            first += len(column.parts)
            if column.kind != "category" and not np.isfinite(values).all():
                row = int(np.isfinite(values).all(axis=1).argmin())
                value = series.iloc[row : row + 1].tolist()[0]
                faults.append(unreadable(where(start + row, column.name), column.kind, value))
        refuse(faults if of_file else in_pandas(faults), source)
        return X

    def _warn_of_news(self, parts: Sequence[Any], source: str) -> None:
        """Warn about levels and missing values that training rows did not have."""
        gaps, levels = list[str](), list[str]()
        for each in zip(*(self._columns_of(part, source) for part in parts), strict=True):
            column = each[0][0]
            counts, ones = zip(*(column.news(series) for _, series in each), strict=True)
            n, one = sum(counts), next(filter(None, ones), "")
            if n and column.kind != "category":
                gaps.append(f"{quote_if_needed(column.name)} in {plural(n, 'row')}")
            elif n:
                such = f"such as {one!r}" if one else "where it is missing"
                treated = "rare" if RARE in column.parts else "no level"
                if len(column.parts) == 1 and RARE not in column.parts:  # of two levels, or a gap
                    treated = repr(column.levels[0])
                found = f"{column.name!r} ({plural(n, 'row')}, {such})"
                levels.append(f"{found} are treated as {treated}")
        if gaps:
            said = "%s has missing values where training rows had none, which are filled in: %s"
            logger.warning(said, source, join_first(gaps, MAX_NAMES))
        if levels:
            logger.warning("%s: unknown values in %s", source, "; in ".join(levels))

    def _columns_of(self, frame: Any, source: str) -> Iterator[tuple[Column, Any]]:
        """Yield each column that is used, with its values in a frame."""
        used = [column for column in self.columns if column.parts]
        places = column_places(self.inputs, frame_names(frame), source)
        return ((column, frame.iloc[:, at]) for column, at in zip(used, places, strict=True))


def encoding_for(found: Sequence[str] | None, fitted: Any) -> Encoding | None:
    """Return the encoding of a frame for a model; None if it must consist of numbers.

    `found` are the column names of the frame, None for an array; `fitted` is the model, or the
    table that it learns from.
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
