"""What the columns of a data frame hold: their kinds, their values, and which are unfit.

Kinds and encodings are learnt in one pass over the training rows.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from sparsegp.data.blocks import compute_each
from sparsegp.data.encoding import (
    DROP,
    INDICATED,
    KINDS,
    MISSING,
    RARE,
    Column,
    refuse,
    unreadable,
)
from sparsegp.data.frames import Frame, frame_names
from sparsegp.data.labels import plain_text
from sparsegp.errors import DataError, quoted
from sparsegp.types import Booleans, Doubles, Integers

FOUND = {
    "boolean": "truth",
    "integer": "whole number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "datetime": "date",
    "datetime64": "date",
    "date": "date",
    "categorical": "category",
    "string": "category",
    "mixed-integer": "category",
}
"""Kinds of columns, by what pandas finds in them."""

YEAR = ": year"
CIRCLES = {"day of year": 366.0, "day of week": 7.0, "hour": 24.0}
"""Parts of a date that come again, and after how many units."""

LEAST, SHARE = 10, 50
"""Rows of a level that is not rare; of fewer than `LEAST * SHARE` rows, one in `SHARE`."""
KEPT = 10_000
"""Rare levels that are remembered."""
MOST_LEVELS = 100_000
"""Levels of a column."""
WORDS, REPEATS = 6, 10
"""Words of a level, on average, and rows of each: longer ones that are rarer are free text."""
DRAWN = 10_000
"""Rows of which medians are taken."""
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
"""Words that are taken for dates."""


def kinds_of(frame: Frame, scheduler: Any = None) -> dict[str, str]:
    """Return the kind of each column, "" where there is none: of objects, by those in all parts."""
    dtypes = enumerate(frame.empty.dtypes)
    objects = [place for place, dtype in dtypes if types.is_object_dtype(dtype)]
    found = [{each} for each in _found(frame.empty, range(len(frame.names)))]
    parts = compute_each(
        partial(_found, places=objects), frame.parts if objects else (), scheduler=scheduler
    )
    for place, *each in zip(objects, *parts, strict=True):
        found[place].update(each)
    return dict(zip(frame.names, map(_kind, found), strict=True))


def _found(part: Any, places: Sequence[int]) -> list[str]:
    return [str(types.infer_dtype(part.iloc[:, place], skipna=True)) for place in places]


def _kind(found: set[str]) -> str:
    kinds = {FOUND.get(each, "") for each in found - {"empty"}}
    if kinds == {"number", "whole number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "" if "" in kinds else "category"


def numbers(series: Any) -> Doubles:
    """Return the values of a column as numbers (n,); NaN where one is missing or is none."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    if types.is_datetime64_any_dtype(series.dtype):
        return np.full(len(series), np.nan)
    if not types.is_numeric_dtype(series.dtype):
        try:
            series = pd.to_numeric(series.astype(object), errors="coerce")
        except OverflowError:  # whole numbers beyond those of doubles
            series = series.map(lambda value: pd.to_numeric(str(value), errors="coerce"))
    found: Doubles = series.to_numpy(np.float64, na_value=np.nan)
    return found


def dates(series: Any) -> Doubles:
    """Return the parts of dates (n, 4), year and those of `CIRCLES`; NaN where there is none.

    Texts are dates as ISO 8601 writes them, or as they are understood elsewhere, the month before
    the day; numbers are none.
    """
    is_arrow = isinstance(series.dtype, pd.ArrowDtype)
    if is_arrow or not types.is_datetime64_any_dtype(series.dtype):
        if types.is_numeric_dtype(series.dtype):
            return np.full((len(series), 1 + len(CIRCLES)), np.nan)
        texts = series.astype(object)
        options: dict[str, Any] = {"errors": "coerce", "utc": True}
        series = pd.to_datetime(texts, format="ISO8601", **options)
        rest = (series.isna() & texts.notna()).to_numpy()
        if rest.any():
            series = series.copy()
            series[rest] = pd.to_datetime(texts[rest], format="mixed", **options)
    parts = series.dt
    hour = parts.hour + parts.minute / 60.0 + parts.second / 3600.0
    each = (parts.year, parts.day_of_year - 1, parts.day_of_week, hour)
    return np.column_stack([part.to_numpy(np.float64, na_value=np.nan) for part in each])


def texts(series: Any) -> tuple[Integers, list[str]]:
    """Return the number of each value's text, (n,), -1 where it is missing, and the texts."""
    try:
        codes, found = pd.factorize(series)
    except TypeError:  # lists and the like
        codes, found = pd.factorize(series.where(series.isna(), series.astype(str)))
    return codes, [_text(value) for value in found]


def _text(value: Any) -> str:
    return re.sub(r"\s+", " ", plain_text(value))


def is_missing(series: Any) -> Booleans:
    """Return where a column has no value, (n,)."""
    missing: NDArray[np.bool_] = series.isna().to_numpy(bool)
    return missing


@dataclass
class Tally:
    """What some rows of a column hold.

    Attributes
    ----------
    n, missing : int
        Rows, and those without a value.
    low, high : Doubles (q,)
        Range of a number, or of the parts of a date.
    drawn : Doubles (m,)
        Numbers, or years, of the rows of which the median is taken.
    levels : Counter or None
        Rows of each level of a category; None if there are too many.
    first : tuple or None
        Row and value of the first that is not missing.
    fault : tuple or None
        Row and value of the first that is unreadable.
    """

    n: int
    missing: int
    low: Doubles
    high: Doubles
    drawn: Doubles
    levels: Counter[str] | None = field(default_factory=Counter)
    first: tuple[int, Any] | None = None
    fault: tuple[int, Any] | None = None

    def __add__(self, other: "Tally") -> "Tally":
        """Return that of these rows and the ones that follow."""
        levels = None
        if self.levels is not None and other.levels is not None:
            levels = _bounded(self.levels + other.levels)
        return Tally(
            self.n + other.n,
            self.missing + other.missing,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.concatenate([self.drawn, other.drawn]),
            levels,
            self.first or other.first,
            self.fault or other.fault,
        )


def study(
    frame: Frame, source: str, kinds: Mapping[str, str], scheduler: Any = None
) -> tuple[Column, ...]:
    """Return the columns of training rows, see `Encoding.learn`."""
    if not len(frame):
        raise DataError(f"a table needs rows and columns; {source} has no rows")
    known = _kinds(frame, source, kinds, scheduler)
    n = len(frame)
    drawn = np.sort(np.random.default_rng(n).choice(n, min(n, DRAWN), replace=False))

    def tallied(some: Mapping[str, str]) -> dict[str, Tally]:
        tallies_of = partial(_tallies, kinds=some, drawn=drawn)
        parts = compute_each(tallies_of, frame.parts, frame.starts, scheduler=scheduler)
        return {name: reduce(Tally.__add__, (part[name] for part in parts)) for name in some}

    tallies = tallied(known)
    words = (name for name, kind in known.items() if kind == "category" and name not in kinds)
    if written := {name: "date" for name in words if _are_dates(tallies[name])}:
        known, tallies = known | written, tallies | tallied(written)
    refuse([fault for name in known if (fault := _fault(name, known[name], tallies[name]))], source)
    columns = tuple(_column(name, known[name], tallies[name]) for name in known)
    if not any(column.parts or column.has_many_levels for column in columns):
        raise DataError(
            f"a table needs columns that vary; those of {source} have one value, or none: "
            + ", ".join(f"{column.name[:40]} ({column.note})" for column in columns[:20])
        )
    return columns


def _kinds(frame: Frame, source: str, given: Mapping[str, str], scheduler: Any) -> dict[str, str]:
    """Return the kind of each column that is not dropped, "" where there is none."""
    allowed = (*KINDS, DROP)
    if unknown := [name for name in given if name not in frame.names]:
        raise DataError(
            f"kinds must be of columns of {source}; it has no {', '.join(unknown[:20])}; found: "
            f"{', '.join(frame.names[:20])}"
        )
    if wrong := [f"{name}={kind}" for name, kind in given.items() if kind not in allowed]:
        raise DataError(f"kinds must be one of: {', '.join(allowed)}; got {', '.join(wrong)}")
    kinds = {**kinds_of(frame, scheduler), **given}
    return {name: kind for name, kind in kinds.items() if kind != DROP}


def _tallies(part: Any, start: int, kinds: Mapping[str, str], drawn: Integers) -> dict[str, Tally]:
    """Return the tallies of the columns in one part, whose first row has this number."""
    rows = drawn[np.searchsorted(drawn, start) : np.searchsorted(drawn, start + len(part))] - start
    names = frame_names(part)
    return {
        name: _tally(part.iloc[:, names.index(name)], kind, start, rows)
        for name, kind in kinds.items()
    }


def _tally(series: Any, kind: str, start: int, rows: Integers) -> Tally:
    missing = is_missing(series)

    def value(row: int) -> tuple[int, Any]:
        return start + row, series.iloc[row : row + 1].tolist()[0]

    first = None if missing.all() else value(int(missing.argmin()))
    none = np.empty(0)
    tally = Tally(len(series), int(missing.sum()), none, none, none, first=first)
    if kind == "category":
        codes, found = texts(series)
        counts = np.bincount(codes[codes >= 0], minlength=len(found)).tolist()
        total: Counter[str] = Counter()
        for text, count in zip(found, counts, strict=True):
            total[text] += count
        tally.levels = _bounded(total)
    elif kind:
        read = dates if kind == "date" else numbers
        parts = read(series).reshape(len(series), -1)
        bad = ~missing & ~np.isfinite(parts).all(axis=1)
        if bad.any():
            tally.fault = value(int(bad.argmax()))
        good = parts[~(missing | bad)]
        tally.low, tally.high = good.min(axis=0, initial=np.inf), good.max(axis=0, initial=-np.inf)
        some = parts[rows, 0]
        tally.drawn = some[np.isfinite(some)]
    return tally


def _are_dates(tally: Tally) -> bool:
    """Return whether all words of a column are dates, year first."""
    if tally.levels is None:
        return tally.first is not None and bool(ISO_DATE.fullmatch(str(tally.first[1])))
    return bool(tally.levels) and all(map(ISO_DATE.fullmatch, tally.levels))


def _bounded(levels: Counter[str]) -> Counter[str] | None:
    return levels if len(levels) <= MOST_LEVELS else None


def _fault(name: str, kind: str, tally: Tally) -> str:
    """Return what makes a column unfit, and what to do; an empty text if nothing does."""
    if tally.fault is not None:
        return unreadable(name, kind, *tally.fault)
    if tally.first is None or kind not in {"category", ""}:
        return ""
    row, value = tally.first
    such = f"such as {quoted(value)} in row {row}"
    if not kind:
        return (
            f"{quoted(name)} has values of type {type(value).__name__}, {such}: convert or drop it"
        )
    levels, n = tally.levels, tally.n - tally.missing
    if levels is None or (len(levels) > INDICATED and 2 * len(levels) > n):
        return (
            f"{quoted(name)} has a different value in nearly every row, {such}: leave it out, "
            "of a file by `drop` or as id_column"
        )
    words = sum(len(level.split()) for level in levels) / max(len(levels), 1)
    if words >= WORDS and len(levels) > INDICATED and REPEATS * len(levels) > n:
        return f"{quoted(name)} is free text, {such}: drop it, or turn it into numbers first"
    return ""


def _column(name: str, kind: str, tally: Tally) -> Column:
    """Return a column and its encoding."""
    share = tally.missing / tally.n
    if kind == "category":
        return _category(name, tally, share)
    gaps = (MISSING,) if tally.missing else ()
    if tally.missing == tally.n:
        return Column(name, kind, missing=share, note="no value")
    varies = tally.low < tally.high
    if kind == "truth" and not (tally.low[0] >= 0 and tally.high[0] <= 1):
        kind = "whole number"
    fill = float(np.median(tally.drawn)) if len(tally.drawn) else float(tally.low[0])
    ends = [[""]]
    if kind == "date":
        circles = ([f": {part} (sin)", f": {part} (cos)"] for part in CIRCLES)
        ends = [[YEAR], *circles]
    parts = (end for end, some in zip(ends, varies, strict=True) if some)
    found = (*(each for end in parts for each in end), *gaps)
    return Column(name, kind, found, share, fill, note="" if found else "one value")


def _category(name: str, tally: Tally, share: float) -> Column:
    assert tally.levels is not None
    ranked = sorted(tally.levels.items(), key=lambda level: (-level[1], level[0]))
    least = min(LEAST, -(-tally.n // SHARE))
    kept = [(text, count) for text, count in ranked[:INDICATED] if count >= least]
    rare = [text for text, _ in ranked[len(kept) :]]
    own_gap = tally.missing >= least
    has_rare = bool(rare) or (tally.missing > 0 and not own_gap)
    parts = [f"={text}" for text, _ in kept] + [RARE] * has_rare + [MISSING] * own_gap
    parts = parts[1:] if len(parts) <= 2 else parts
    note = ""
    if not parts:
        note = "no value" if tally.missing == tally.n else "one value"
        note = f"no level of {least} rows" if len(rare) > 1 else note
    return Column(
        name,
        "category",
        tuple(parts),
        share,
        levels=tuple(text for text, _ in kept),
        counts=tuple(count for _, count in kept),
        rare=tuple(rare) if len(rare) <= KEPT else None,
        note=note,
    )
