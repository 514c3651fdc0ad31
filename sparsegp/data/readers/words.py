"""What a column of words holds: numbers, truths, dates or names, found out or given."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NAN", "null", "NULL", "None", "?", "-")
)
"""Words that stand for a missing value, whatever the column."""

TRUTHS = {"true": True, "yes": True, "false": False, "no": False}

FEW, SHARE, CODES = 2, 0.01, 20
"""Rows, or their share, that may be no numbers in a column that is one of numbers for all that, and
must be mended; and as many numbers beside `FEW` words are no names of categories."""

ISO_DATE = r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d([.,]\d+)?)?)? ?(Z|[+-]\d\d:?\d\d)?)?"
DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"),
    *("%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y"),
)
CLOCKS = ("", " %H:%M", " %H:%M:%S")


class Fault(NamedTuple):
    """A value that does not fit its column: what the column is to hold, and the rows."""

    expected: str
    rows: NDArray[np.int64]


def as_number(word: str, decimal: str = ".") -> float | None:
    """Return the number that a word is (infinity, too), None if it is none."""
    if decimal != ".":
        word = word.replace(".", "_").replace(decimal, ".")
    if "_" in word or not word.isascii():
        return None  # `float` takes 1_0, and digits of other scripts
    try:
        return float(word)
    except ValueError:
        return None


def looks_like(words: Sequence[str], decimal: str = ".") -> Callable[[str], bool] | None:
    """Return a test that nine in ten of some words pass: for a number or a date."""
    tests: tuple[Callable[[str], bool], ...] = (
        lambda word: as_number(word, decimal) is not None,
        lambda word: (
            re.fullmatch(rf"{ISO_DATE}|\d+(?P<mark>[./-])\d+(?P=mark)\d+( \d+:.*)?", word)
            is not None
        ),
    )
    found = (test for test in tests if sum(map(test, words)) >= max(0.9 * len(words), 1))
    return next(found, None)


def typed(
    texts: Any, kind: str | None, missing: Iterable[str] = (), decimal: str = "."
) -> tuple[Any, Fault | None]:
    """Give the words of a column their type.

    Parameters
    ----------
    texts : pandas Series of str (n,)
    kind : str, optional
        number, whole number, truth, category or date, if it is given.
    missing : iterable of str
        Words that stand for a missing value, beside `MISSING`.
    decimal : str
        The mark before decimals.

    Returns
    -------
    values : pandas Series (n,)
        Of int64, float64, boolean, datetime64 or str.
    fault : Fault or None
        Rows that do not fit.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    codes, found = pd.factorize(texts)
    marks, words = {*MISSING, *missing}, [str(word).strip() for word in found]
    gaps = np.array([word in marks for word in words], dtype=bool)
    present, counts = ~gaps, np.bincount(codes, minlength=len(words))

    def column(values: Any, bad: Any = False) -> tuple[Any, Fault | None]:
        """Return a value for each row, and the rows of what is bad."""
        rows = np.flatnonzero((present & bad)[codes])
        return pd.Series(values[codes]), Fault(expected, rows) if len(rows) else None

    expected = "number"
    if kind in (None, "number", "whole number"):
        numbers = [as_number(word, decimal) for word in words]
        is_number = np.array([number is not None for number in numbers], dtype=bool)
        bad = present & ~is_number
        if kind or not bad.any() or _nearly(is_number & present, bad, counts):
            return column(_numbers(words, numbers, gaps), bad)
    truths = np.array([TRUTHS.get(word.lower()) for word in words], dtype=object)
    known = np.array([truth is not None for truth in truths], dtype=bool)
    if kind == "truth" or (kind is None and known[present].all()):
        expected = "truth (true, false, yes or no)"
        return column(pd.array(truths, dtype="boolean"), ~known)
    if kind in (None, "date"):
        expected = "date that can be read in one way"
        dates = _dates([word if each else None for word, each in zip(words, present, strict=True)])
        bad = present & np.isnat(dates)
        if kind or not bad.any() or _nearly(~gaps & ~bad, bad, counts):
            return column(dates, bad)
    names = np.array(words, dtype=object)
    names[gaps] = None
    return pd.Series(names[codes], dtype="string"), None


def _nearly(numeric: Any, bad: Any, counts: NDArray[np.int64]) -> bool:
    """Return whether a column is one of numbers for all that a few of its values are none."""
    rows, wrong = counts[numeric].sum(), counts[bad].sum()
    few = wrong <= max(FEW, SHARE * (rows + wrong)) and rows > 2 * wrong
    return bool(few or (bad.sum() <= FEW and numeric.sum() > CODES))


def _numbers(
    words: Sequence[str], numbers: Sequence[float | None], gaps: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return numbers as int64, where all are whole and none is missing, else as float64."""
    if not gaps.any() and all(re.fullmatch(r"[+-]?\d{1,18}", word) for word in words):
        return np.array([int(word) for word in words], dtype=np.int64)
    known = (math.nan if each is None else each for each in numbers)
    return np.where(gaps, np.nan, np.fromiter(known, np.float64, len(words)))


def _dates(words: Sequence[str | None]) -> NDArray[Any]:
    """Return dates, NaT for what is none in the form of the others.

    Forms in which day and month could change places are taken if just one fits all words.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    def parsed(form: str, some: Sequence[str | None]) -> NDArray[Any]:
        series = pd.Series(some, dtype="string")
        found = pd.to_datetime(series, format=form, utc=True, errors="coerce")
        dates: NDArray[Any] = found.dt.tz_localize(None).to_numpy("M8[us]")
        return dates

    none = np.array([word is None for word in words], dtype=bool)
    present = [word for word in words if word is not None]
    iso = [word if word and re.fullmatch(ISO_DATE, word) else None for word in words]
    if any(iso):
        return parsed("ISO8601", iso)
    forms = [day + clock for day in DAYS for clock in CLOCKS]
    some = [form for form in forms if not np.isnat(parsed(form, present[:1])).any()]
    fitting = [dates for form in some if not np.isnat(dates := parsed(form, words))[~none].any()]
    same = all(np.array_equal(fitting[0], dates, equal_nan=True) for dates in fitting[1:])
    return fitting[0] if fitting and same else np.full(len(words), "NaT", dtype="M8[us]")
