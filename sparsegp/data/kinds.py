"""Find the kinds of the columns of a data frame, and which columns cannot be used.

Kinds and encodings are learnt in at most three passes over the training rows.
"""

import logging
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from sparsegp.data.blocks import compute_each
from sparsegp.data.column import (
    CODE_PARTS,
    DATE_PARTS,
    DROP,
    KINDS,
    MISSING,
    NUMBERS,
    RARE,
    UNTYPED,
    Column,
    nan_as_missing,
)
from sparsegp.data.frames import (
    Frame,
    Where,
    frame_names,
    given_as,
    listed,
    refuse,
    unlikeness,
    unreadable,
    with_remedies,
)
from sparsegp.data.labels import EXACT
from sparsegp.data.numerals import form_of
from sparsegp.data.values import TRUTHS, date_form, dates, numbers, texts, zone_of, zones
from sparsegp.errors import DataError, quoted
from sparsegp.types import Doubles, Integers

logger = logging.getLogger(__name__)

FOUND = {
    "boolean": "truth",
    "integer": "whole number",
    "categorical": "category",
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("datetime", "datetime64", "date"), "date"),
    **dict.fromkeys(("string", "mixed-integer", "time"), UNTYPED),
}
"""Kinds of columns by the type that pandas infers."""

TO = {"Timedelta": " by dt.total_seconds", "Period": " by dt.to_timestamp"}
"""How pandas converts columns of types that are not accepted, for messages."""

MIN_LEVEL_ROWS, SHARE = 10, 50
"""Minimum rows of a level that is not rare; with fewer than `MIN_LEVEL_ROWS * SHARE` rows, one in
`SHARE` of them."""
CODED, INDICATED, COLUMNS, VALUES = 30, 300, 600, 30_000_000
"""Number of levels above which rare ones have codes; maximum numbers of levels of a category with
columns, of such columns in a table, and of values in them (docs/benchmarks/studies.md)."""
MAX_LEVELS = 100_000
"""Maximum number of levels of a column, as all are stored."""
WORDS, REPEATS = 6, 10
"""A column is free text if levels have at least `WORDS` words and fewer than `REPEATS` rows, on
average."""
UNLIKE, TOO_MANY = 0.9, "too many levels so far"
"""Levels per row above which a column is taken for names or row numbers; note on such a column."""
DRAWN = 10_000
"""Number of rows drawn to compute medians."""

FEW, FAULTY, CODES = 2, 0.01, 20
"""A text column is numeric (or of dates) with errors if other values are in at most `FEW` rows or a
share of `FAULTY`, or are at most `FEW` distinct words beside more than `CODES` distinct numbers. Up
to `CODES` numbers beside words, with on average `MIN_LEVEL_ROWS` rows, are levels."""

ID = re.compile(r"(?i:(.*[\W_])?id|unnamed:? 0[.\d]*)|.*[a-z]I[dD]|__index_level_\d+__")
"""Pattern of column names such as `id`, `customer_id` and `CustomerID`, and those of an index."""
MIN_NUMBERED = 200
"""Minimum number of rows for row numbers in any order."""
LIKE_DATES = 0.9
"""Share of numbers of a column that could be dates above which they probably are."""


@dataclass
class Tally:
    """Statistics of some rows of a column."""

    n: int
    missing: int
    low: Doubles  # range of numbers, or of the parts of dates, (q,)
    high: Doubles
    drawn: Doubles  # numbers, or times in years, of the rows drawn for the median, (m,)
    levels: Counter[str] = field(default_factory=Counter)  # of a category, see `_bounded`
    first: tuple[int, Any] | None = None  # row and value: the first one that is not missing,
    fault: tuple[int, Any] | None = None  # and the first unreadable one
    zones: set[str] = field(default_factory=set)  # see `values.zones`

    def __add__(self, other: "Tally") -> "Tally":
        """Return the statistics of these rows followed by others."""
        return Tally(
            self.n + other.n,
            self.missing + other.missing,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.concatenate([self.drawn, other.drawn]),
            _bounded(self.levels + other.levels),
            self.first or other.first,
            self.fault or other.fault,
            self.zones | other.zones,
        )


def study(
    frame: Frame, source: str, kinds: Mapping[str, str], scheduler: Any, is_part: bool
) -> tuple[Column, ...]:
    """Learn the columns and their encodings from training rows; see `Encoding.learn`."""
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
    words = [name for name, kind in known.items() if kind == UNTYPED]
    known |= {name: reading_of(tallies[name].levels, kinds.get(name)) for name in words}
    read = {name: known[name] for name in words if known[name] != "category"}
    for name, tally in tallied(read).items() if read else ():
        if known[name] == "number" and not tally.fault:  # numeric strings of a data frame are names
            known[name] = "category"
        else:
            tallies[name] = tally
    excess = {name: _excess(known[name], tallies[name], name in kinds) for name in known}
    why = dict.fromkeys(known, "") if is_part else excess
    faults = (_fault(name, known[name], tallies[name], frame.where, why[name]) for name in known)
    refuse([*filter(None, faults)], source, frame.of_file)
    doubts = (
        _doubt(place, name, kind, tallies[name])
        for place, (name, kind) in enumerate(known.items())
        if name not in kinds
    )
    for doubt in with_remedies([*filter(None, doubts)], frame.of_file):
        logger.warning("%s %s", source, doubt)
    many = sum(len(tally.levels) > CODED for tally in tallies.values())
    most = int(np.clip(min(COLUMNS, VALUES // n) // max(many, 1), CODED, INDICATED))
    columns = (_column(name, known[name], tallies[name], most) for name in known)
    return tuple(replace(c, parts=(), note=TOO_MANY) if excess[c.name] else c for c in columns)


def _kinds(frame: Frame, source: str, given: Mapping[str, str], scheduler: Any) -> dict[str, str]:
    """Return the kind of each column that is not dropped, "" if none fits."""
    allowed = (*KINDS, DROP)
    if unknown := [name for name in given if name not in frame.names]:
        raise DataError(
            f"kinds must be of columns of {source}; it has no {listed(unknown)}; found: "
            f"{listed(frame.names)}"
        )
    if wrong := [f"{name}={kind}" for name, kind in given.items() if kind not in allowed]:
        raise DataError(f"kinds must be one of: {', '.join(allowed)}; got {', '.join(wrong)}")
    objects = [n for n, each in enumerate(frame.empty.dtypes) if pd.api.types.is_object_dtype(each)]
    found = [{each} for each in _found(frame.empty, range(len(frame.names)))]
    parts = compute_each(
        partial(_found, places=objects), frame.parts if objects else (), scheduler=scheduler
    )
    for place, *each in zip(objects, *parts, strict=True):
        found[place].update(each)
    kinds = dict(zip(frame.names, map(_kind, found), strict=True))
    for name, kind in given.items():
        if kinds[name] != UNTYPED or kind in {"category", DROP}:
            kinds[name] = kind
    return {name: kind for name, kind in kinds.items() if kind != DROP}


def _found(part: Any, places: Sequence[int]) -> list[str]:
    found = list[str]()
    for series in (part.iloc[:, place] for place in places):
        is_coded = str(series.dtype).startswith("dictionary")  # of Arrow
        kind = "categorical" if is_coded else str(pd.api.types.infer_dtype(series, skipna=True))
        is_text = kind == "mixed" and all(isinstance(x, str | Real) for x in series.dropna())
        found.append("string" if is_text else kind)  # words, and numbers with decimals
    return found


def _kind(found: set[str]) -> str:
    kinds = {FOUND.get(each, "") for each in found - {"empty"}}
    if kinds == {"number", "whole number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "" if "" in kinds else UNTYPED


def reading_of(levels: Counter[str], given: str | None = None) -> str:
    """Return the kind of a text column, and the format of its values, as in "date:%d.%m.%Y"."""
    if given in NUMBERS:
        return f"{given}:{form_of([*levels], asked=True)}"
    words, counts = pd.Series([*levels], dtype=object), np.array([*levels.values()])
    if given == "truth" or (levels and {word.lower() for word in levels} <= TRUTHS.keys()):
        return f"truth:{UNTYPED}"
    date = f"date:{date_form(words)}"
    if given == "date":
        return date
    for kind in ("number", date):
        bad = np.isnan(_read(words, kind)).any(axis=1)
        wrong, right, n = counts[bad].sum(), counts[~bad].sum(), (~bad).sum()
        few = wrong <= max(FEW, FAULTY * (wrong + right)) and right > 2 * wrong
        if few or (bad.sum() <= FEW and n > CODES):
            are_levels = wrong and n <= CODES and right >= MIN_LEVEL_ROWS * n
            return "category" if are_levels and kind == "number" else kind
    return f"number:{form}" if (form := form_of([*levels])) else "category"


def _read(series: Any, kind: str) -> Doubles:
    """Return numbers or truth values, (n, 1), or the parts of dates, (n, 4)."""
    kind, _, form = kind.partition(":")
    return dates(series, form) if kind == "date" else numbers(series, kind, form)[:, np.newaxis]


def _tallies(part: Any, start: int, kinds: Mapping[str, str], drawn: Integers) -> dict[str, Tally]:
    """Return the tallies of the columns of one part; `start` is the index of its first row."""
    rows = drawn[np.searchsorted(drawn, start) : np.searchsorted(drawn, start + len(part))] - start
    names = frame_names(part)
    return {
        name: _tally(nan_as_missing(part.iloc[:, names.index(name)]), kind, start, rows)
        for name, kind in kinds.items()
    }


def _tally(series: Any, kind: str, start: int, rows: Integers) -> Tally:
    missing = series.isna().to_numpy(bool)

    def value(row: int) -> tuple[int, Any]:
        return start + row, series.iloc[row : row + 1].tolist()[0]

    first = None if missing.all() else value(int(missing.argmin()))
    none = np.empty(0)
    tally = Tally(len(series), int(missing.sum()), none, none, none, first=first)
    if kind in {"category", UNTYPED}:
        tally.levels = _bounded(counted(series))
    elif kind:
        parts = _read(series, kind)
        tally.zones = zones(series) if kind.startswith("date") else set()
        bad = ~missing & ~np.isfinite(parts).all(axis=1)
        if bad.any():
            tally.fault = value(int(bad.argmax()))
        good = parts[~(missing | bad)]
        tally.low, tally.high = good.min(axis=0, initial=np.inf), good.max(axis=0, initial=-np.inf)
        some = parts[rows, 0]
        tally.drawn = some[np.isfinite(some)]
    return tally


def counted(series: Any) -> Counter[str]:
    """Return the number of rows of each text."""
    codes, found = texts(series)
    counts, total = np.bincount(codes[codes >= 0], minlength=len(found)).tolist(), Counter[str]()
    for text, count in zip(found, counts, strict=True):
        total[text] += count
    return total


def _bounded(levels: Counter[str]) -> Counter[str]:
    return Counter(dict(islice(levels.items(), MAX_LEVELS + 1)))


def _fault(name: str, kind: str, tally: Tally, where: Where, excess: str) -> str:
    """Return why a column cannot be used, and what to do about it; empty if it can be used."""
    if tally.fault is not None:
        row, value = tally.fault
        return unreadable(where(row, name), kind, value, name)
    if tally.first is None or (kind and not excess):
        return ""
    row, value = tally.first
    found = type(value).__name__
    such = f"{quoted(value)} is of type {found}: convert it{TO.get(found, '')} or `drop` it"
    return f"{where(row, name)}: {excess or such}"


def _doubt(place: int, name: str, kind: str, tally: Tally) -> str:
    """Return what the numbers of a column may be instead, and what to do about it; else empty."""
    if kind not in NUMBERS or not len(tally.drawn):
        return ""
    column, remedy = f"the input {shlex.quote(name)}", "give it as `id_column`, or `drop` it"
    if kind == "whole number" and _numbers_rows(name, place, tally):
        return f"numbers its rows in {column}; {remedy}"
    if kind == "whole number" and max(-tally.low[0], tally.high[0]) >= EXACT:
        return f"has numbers with more digits than count in {column}; {remedy}"
    if _look_like_dates(tally.drawn):
        how = given_as(name, "date")
        return f"has numbers like 20241231 in {column}; if they are dates, give {how}"
    return ""


def _numbers_rows(name: str, place: int, tally: Tally) -> bool:
    """Return whether whole numbers look like row numbers, as no two of those drawn are the same.

    A name such as `id`, or as of an index that was written too, suffices, or a range in which so
    many numbers would hardly be distinct by chance; else it must be the first column and ascend
    from 0 or 1 without gaps.
    """
    n, drawn, (low,) = tally.n, tally.drawn, tally.low
    if tally.missing or n < 2 or len(np.unique(drawn)) < len(drawn):
        return False
    span = tally.high[0] - low
    is_dense = span < min(2 * n, len(drawn) ** 2 / 20)  # 10 pairs of those drawn alike by chance
    if ID.fullmatch(name) or (is_dense and n >= MIN_NUMBERED):
        return True
    return bool(place == 0 and low in (0, 1) and span == n - 1 and (np.diff(drawn) > 0).all())


def _look_like_dates(found: Doubles) -> bool:
    """Return whether nearly all numbers are years, months and days, as in 20241231."""
    months, days = found // 100 % 100, found % 100
    are_dates = (found >= 19000101) & (found <= 21001231) & (months >= 1) & (months <= 12)
    are_dates &= (days >= 1) & (days <= 31) & (days % 1 == 0)
    return bool(are_dates.mean() > LIKE_DATES)


def _excess(kind: str, tally: Tally, is_given: bool) -> str:
    """Return what a category with too many levels seems to be, with a remedy; else empty."""
    levels, n = tally.levels, tally.n - tally.missing
    if kind != "category" or tally.first is None or len(levels) <= CODED:
        return ""
    if len(levels) > MAX_LEVELS or (not is_given and len(levels) > UNLIKE * n):
        return unlikeness([*levels])
    words = sum(len(level.split()) for level in levels) / len(levels)
    is_text = words >= WORDS and REPEATS * len(levels) > n
    what = "is free text: `drop` it, or turn it into numbers first"
    return f"{quoted(tally.first[1])} {what}" if is_text else ""


def _column(name: str, kind: str, tally: Tally, most: int) -> Column:
    """Create a column and its encoding; at most `most` levels get a column of their own."""
    kind, _, form = (kind or "category").partition(":")
    share = tally.missing / tally.n
    if kind == "category":
        return _category(name, tally, share, most)
    gaps = (MISSING,) if tally.missing else ()
    if tally.missing == tally.n:
        return Column(name, kind, missing=share, note="no value")
    varies = tally.low < tally.high
    fill = float(np.median(tally.drawn)) if len(tally.drawn) else float(tally.low[0])
    ends = DATE_PARTS if kind == "date" else ([""],)
    parts = (end for end, some in zip(ends, varies, strict=True) if some)
    found = (*(each for end in parts for each in end), *gaps)
    note = "" if found else "one value"
    return Column(name, kind, found, share, fill, note=note, form=form, zone=zone_of(tally.zones))


def _category(name: str, tally: Tally, share: float, most: int) -> Column:
    ranked = sorted(tally.levels.items(), key=lambda level: (-level[1], level[0]))
    least = min(MIN_LEVEL_ROWS, -(-tally.n // SHARE))
    kept = {text: count for text, count in ranked[:most] if count >= least}
    rare = tuple(text for text, _ in ranked[len(kept) :])
    own_gap = tally.missing >= least
    ends = [RARE] * (bool(rare) or (tally.missing > 0 and not own_gap)) + [MISSING] * own_gap
    parts = [f"={text}" for text in kept] + ends
    parts = parts[1:] if len(parts) <= 2 else parts
    parts += CODE_PARTS * (len(ranked) > CODED and len(rare) > 1)
    why = f"no level of {least} rows" if len(rare) > 1 else "one value"
    note = "" if parts else "no value" if tally.missing == tally.n else why
    levels, counts = tuple(kept), tuple(kept.values())
    return Column(name, "category", tuple(parts), share, 0.0, levels, counts, rare, note)
