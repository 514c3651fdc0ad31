"""A column of a table and its encoding as numbers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.frames import is_clock, likeness
from sparsegp.errors import quoted
from sparsegp.types import Doubles, Integers

NUMBERS = ("number", "whole number")
"""Kinds of columns that may need no encoding."""
KINDS = (*NUMBERS, "truth", "category", "date")
UNTYPED = "words"
"""Kind of a text column until its values have been examined."""
DROP = "drop"
"""Given in place of a kind to leave a column out."""
RARE, MISSING = ": rare", " missing"
"""Suffixes of the names of encoded columns; that of a level is "=" followed by the level."""
CODE_PARTS, CODE_STEP = tuple(f": code {bit}" for bit in range(16)), 0.25
"""Suffixes of the columns that hold the codes of rare levels, and the value of a set bit: the sum
of absolute differences of two codes is then, on average, that of the indicators of two levels."""
TIME, YEAR = ": time", ": year"
"""Suffixes of the encoded columns of the time in years, and of whole years in older models."""
CIRCLES = {"day of year": 366.0, "day of week": 7.0, "hour": 24.0}
"""Cyclic parts of a date, and their periods."""
DATE_PARTS = ([TIME], *([f": {part} (sin)", f": {part} (cos)"] for part in CIRCLES))
"""Suffixes of the encoded columns of the time, and of each cyclic part."""
MEAN = ": mean"
"""Start of the suffixes of mean labels of rare levels."""
LIKE_NUMBERS = re.compile(
    r"(?i:\W*\d|(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"[a-z]{0,6}\b.*\d)"
)
"""Pattern of words that may be numbers or dates rather than codes."""
FOLDS = 5
"""Number of folds of the training rows."""


def code(level: str) -> NDArray[np.uint8]:
    """Return the bits of a hash of a level, (len(CODE_PARTS),), which depends on it alone."""
    text = level.encode("utf-8", "surrogatepass")
    digest = blake2b(text, digest_size=len(CODE_PARTS) // 8).digest()
    return np.unpackbits(np.frombuffer(digest, np.uint8))


def nan_as_missing(series: Any) -> Any:
    """Return the values of a column, in which NaN is missing: in types of Arrow it is not."""
    is_plain = isinstance(series.dtype, np.dtype) or series.dtype.kind != "f"
    return series if is_plain else series.astype(np.float64)


@dataclass(frozen=True)
class Column:
    """An input column of the training rows, and its encoding."""

    name: str
    kind: str  # one of `KINDS`
    parts: tuple[str, ...] = ()  # suffixes of the names of its encoded columns; () if left out
    missing: float = 0.0  # fraction of the training rows where it is missing
    fill: float = 0.0  # replaces a missing number, or the time of a missing date, in years
    levels: tuple[str, ...] = ()  # frequent ones of a category,
    counts: tuple[int, ...] = ()  # their numbers of rows,
    rare: tuple[str, ...] = ()  # and all other levels
    note: str = ""  # why it is left out
    form: str = ""  # of text: date format, form of numbers (numerals.py), or "words" of truth
    zone: str = ""  # of dates, see `values.zone_of`
    means: tuple[tuple[float, ...], ...] = ()
    """For each rare level, mean labels, which replace codes as the last parts: first those without
    each of the `FOLDS`, for training rows, then those of all rows."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Column":
        """Create a column from the result of `asdict`."""
        lists = {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
        lists["means"] = tuple(map(tuple, values.get("means", ())))
        return cls(**{**values, **lists})

    def encode(self, series: Any, fold: Integers | None = None) -> Doubles:
        """Encode the values of some rows, (n, parts); NaN where a value is unreadable.

        Training rows, with their `fold` (n,), get the mean labels of the other folds.
        """
        from sparsegp.data.values import ISO, dates, numbers  # noqa: PLC0415 - loads pandas

        if self.kind == "category":
            return self._of_places(self.places(series), fold)
        missing = series.isna().to_numpy(bool)
        if self.kind == "date":
            time, *others = dates(series, self.form or ISO).T
            values = {TIME: np.where(missing, self.fill, time)}
            values[YEAR] = np.where(missing, self.fill, np.floor(time))
            for (name, period), part in zip(CIRCLES.items(), others, strict=True):
                angle = 2.0 * np.pi * part / period
                values[f": {name} (sin)"] = np.where(missing, 0.0, np.sin(angle))
                values[f": {name} (cos)"] = np.where(missing, 0.0, np.cos(angle))
        else:
            values = {"": np.where(missing, self.fill, numbers(series, self.kind, self.form))}
        values[MISSING] = missing
        return np.column_stack([values[part] for part in self.parts]).astype(np.float64, copy=False)

    @property
    def reading(self) -> str:
        """Its kind, with the form of numbers that were in words, as in "number:$#"."""
        has_form = self.kind in NUMBERS and self.form
        return f"{self.kind}:{self.form}" if has_form else self.kind

    @property
    def category_warning(self) -> str:
        """Message if most levels do not look like a category, with a remedy; else empty."""
        levels, are_rare = (*self.levels, *self.rare), len(self.rare) > len(self.levels)
        what = likeness(levels, are_rare) if self.kind == "category" else ""
        alike = [*filter(LIKE_NUMBERS.match, self.rare)]
        if not what and are_rare and self.has_codes and 2 * len(alike) > len(levels):
            few = "most others begin with digits and have few rows: if they are numbers or dates"
            what = f"{quoted(alike[0])} and {few}, convert them"
        return what and f"{self.name!r}, where {what}"

    @property
    def has_no_day(self) -> bool:
        """Whether its dates are times of day alone."""
        return self.kind == "date" and is_clock(self.form)

    def unlike_dates(self, series: Any) -> str:
        """Return a message if dates are unlike those of the training rows, see values.py."""
        from sparsegp.data.values import unlike_dates  # noqa: PLC0415 - loads pandas

        if self.kind != "date" or series.isna().all():
            return ""
        return unlike_dates(series, not self.has_no_day, self.zone)

    @property
    def n_places(self) -> int:
        """Number of values of `places`: one per level, one for unseen levels, one for missing."""
        return len(self.levels) + len(self.rare) + 2

    def places(self, series: Any) -> Integers:
        """Map values to indices, (n,): frequent levels, rare levels, unseen levels, missing."""
        from sparsegp.data.values import texts  # noqa: PLC0415 - loads pandas

        codes, found = texts(series)
        known = {level: place for place, level in enumerate((*self.levels, *self.rare))}
        unseen, gap = self.n_places - 2, self.n_places - 1
        return np.array([*(known.get(text, unseen) for text in found), gap])[codes]

    def _of_places(self, places: Integers, fold: Integers | None) -> Doubles:
        """Return the encoded values for indices from `places`, (n, parts)."""
        n_levels, gap = len(self.levels), MISSING if MISSING in self.parts else RARE
        ends = [*(f"={level}" for level in self.levels), RARE, gap]
        unlike = np.array([[end == part for part in self.parts] for end in ends], np.float64)
        X = unlike[
            np.where(places == self.n_places - 1, n_levels + 1, np.minimum(places, n_levels))
        ]
        is_rare = (places >= n_levels) & (places < self.n_places - 2)
        found, codes = np.unique(places[is_rare] - n_levels, return_inverse=True)
        if self.has_codes and len(found):
            bits = np.stack([code(self.rare[each]) for each in found.tolist()])
            X[is_rare, -len(CODE_PARTS) :] = CODE_STEP * bits[codes]
        if self.means:
            means = np.array([self.means[each] for each in found.tolist()])
            means = means.reshape(len(found), FOLDS + 1, self.n_means)
            X[is_rare, -self.n_means :] = means[codes, FOLDS if fold is None else fold[is_rare]]
        return X

    @property
    def n_means(self) -> int:
        """Number of parts that are means."""
        return sum(part.startswith(MEAN) for part in self.parts if self.kind == "category")

    @property
    def has_sound_means(self) -> bool:
        """Whether means are finite, and as many as rare levels, folds and parts require."""
        widths = {len(each) for each in self.means} or {0}
        return (
            widths == {(FOLDS + 1) * self.n_means}
            and len(self.means) in {0, len(self.rare)}
            and bool(np.isfinite(self.means).all())
        )

    def with_codes(self) -> "Column":
        """Return the column with codes in place of means, if it has any."""
        if not self.means:
            return self
        return replace(self, parts=self.parts[: -self.n_means] + CODE_PARTS, means=())

    @property
    def has_codes(self) -> bool:
        """Whether rare levels have codes."""
        return self.parts[-1:] == CODE_PARTS[-1:]

    def unseen(self, series: Any) -> tuple[int, str]:
        """Count rows with values that no training row had, and return one new level, if any.

        Such values are new levels of a category, and missing values if training rows had none.
        """
        gaps = series.isna().to_numpy(bool) & (self.missing == 0.0)
        if self.kind != "category":
            return int(gaps.sum()), ""
        from sparsegp.data.values import texts  # noqa: PLC0415 - loads pandas

        new = self.places(series) == self.n_places - 2
        return int((new | gaps).sum()), next(iter(texts(series[new])[1]), "")
