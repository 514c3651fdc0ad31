"""Values of columns of data frames as numbers, texts and dates; formats and zones of dates."""

import re
import warnings
from collections.abc import Sequence
from functools import reduce
from itertools import islice, product
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format

from sparsegp.data.column import DATE_PARTS
from sparsegp.data.frames import is_clock
from sparsegp.data.labels import plain_text
from sparsegp.data.numerals import value_of
from sparsegp.types import Doubles, Integers

TRUTHS = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
WHITE = re.compile(r"\s+")
ISO, ISO_DATE = "ISO8601", re.compile(r"(?!.*[AaPp][Mm]$)\d{4}-\d\d-\d\d([T ].*)?")
HALVES = re.compile(r"(?<!\d)\d\d?(:\d\d(?::\d\d)? ?)[AaPp][Mm]$")
SHORT_YEAR = re.compile(r"^(\d\d?([./ -])(?:\d\d?|[A-Za-z]{3})\2)(\d\d)(?!\d)")
TIME_OF_DAY = re.compile(r"\d\d?:\d\d(:\d\d(?:\.\d+)?)?( ?[AaPp][Mm])?")
TIME_FIRST = re.compile(rf"({TIME_OF_DAY.pattern})(,? )(.+)")
YEAR_LAST = re.compile(r"^%d([./ -])(%[mbB])\1%y")
"""Pattern of formats that also fit dates with the year in front."""
FIRST, MANY = 3, 40
"""Number of first words, one of which is a date if a column has any; number of dates from which on
all may be of one day of the month."""
ZONE = re.compile(
    r"[T ]\d\d?(?::?\d\d){1,2}(?:[.,]\d+)?(?: ?[AaPp][Mm])? ?"
    r"(Z|UTC|GMT|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)$"
)
"""A time of day with a time zone, at the end of a date."""
UTC = re.compile(r"^(\d{4}-.*\d) ?(?:UTC|GMT)$")
"""An ISO date and time that ends in UTC or GMT."""


def numbers(series: Any, kind: str = "number", form: str = "") -> Doubles:
    """Return the values of a column as numbers, (n,); NaN where one is missing or unreadable.

    Text is read as truth values if that is its kind, else as numbers, of a form (numerals.py) if
    there is one.
    """
    if not pd.api.types.is_numeric_dtype(series.dtype) and series.dtype.kind not in "Mm":
        if kind == "truth" or form:
            codes, words = texts(series)
            is_truth = kind == "truth"
            read = (TRUTHS.get(w.lower(), np.nan) if is_truth else value_of(w, form) for w in words)
            return np.array([*read, np.nan])[codes]
        values = series.astype(object)  # of a category, too
        try:
            series = pd.to_numeric(values, errors="coerce")
        except OverflowError:  # whole numbers beyond those of doubles
            series = values.map(lambda value: pd.to_numeric(str(value), errors="coerce"))
    if series.dtype.kind in "cMm":  # complex numbers, dates, durations
        return np.full(len(series), np.nan)
    values = np.asarray(series.to_numpy(np.float64, na_value=np.nan))
    return np.where(np.isin(values, (0.0, 1.0)), values, np.nan) if kind == "truth" else values


def texts(series: Any) -> tuple[Integers, list[str]]:
    """Return the index of each value's text, (n,), -1 if missing, and the distinct texts."""
    of_arrow = str(series.dtype).startswith("dictionary")  # with values that no row has
    series = series.astype(object) if of_arrow else series
    if str(pd.api.types.infer_dtype(series)).startswith("mixed"):  # True is no 1
        series = series.map(lambda each: str(each) if isinstance(each, bool | np.bool_) else each)
    codes, found = distinct(series)
    return codes, [WHITE.sub(" ", plain_text(value)) for value in found]


def distinct(series: Any) -> tuple[Integers, Any]:
    """Return the index of each value, (n,), -1 if missing, and the distinct values."""
    try:
        codes, found = pd.factorize(series)
    except TypeError:  # lists and the like
        codes, found = pd.factorize(series.where(series.isna(), series.astype(str)))
    return codes, found


def dates(series: Any, form: str = "") -> Doubles:
    """Return the time in years and the cyclic parts of dates, (n, 4); NaN where one is no date.

    Dates with a time zone are converted to UTC. Text is read in the format `form`, by default that
    which `date_form` finds, or in ISO 8601. Numbers are not dates.
    """
    if not _is_of_dates(series):
        if pd.api.types.is_numeric_dtype(series.dtype):
            return np.full((len(series), len(DATE_PARTS)), np.nan)
        codes, found = distinct(series.astype(object))
        return np.asarray(dates(times(pd.Series([*found, None], dtype=object), form))[codes])
    parts = pd.to_datetime(series, utc=True).dt
    hour = parts.hour + parts.minute / 60.0 + parts.second / 3600.0
    day = parts.day_of_year - 1
    time = parts.year + (day + hour / 24.0) / (365 + parts.is_leap_year)
    each = (time, day, parts.day_of_week, hour)
    return np.column_stack([part.to_numpy(np.float64, na_value=np.nan) for part in each])


def _is_of_dates(series: Any) -> bool:
    """Return whether values have a datetime type of pandas, rather than of Arrow."""
    is_arrow = isinstance(series.dtype, pd.ArrowDtype)
    return not is_arrow and pd.api.types.is_datetime64_any_dtype(series.dtype)


def zones(series: Any) -> set[str]:
    """Return which time zones dates have: some of "none", "UTC", and "other"."""
    if not _is_of_dates(series):
        words = [ZONE.search(str(value)) for value in distinct(series)[1]]
        offsets = {word and word[1].strip("+-0:") for word in words}
        names = {None: "none", "": "UTC", "Z": "UTC", "UTC": "UTC", "GMT": "UTC"}
        return {names.get(offset, "other") for offset in offsets}
    known = series.dropna()
    if known.dt.tz is None:
        return {"none"} if len(known) else set()
    is_utc = known.dt.tz_localize(None) == known.dt.tz_convert(None)
    return {"UTC" if each else "other" for each in is_utc.unique()}


def have_days(series: Any) -> bool | None:
    """Return True for dates, False for times of day alone, None for both or neither."""
    if _is_of_dates(series):
        return True
    words = distinct(series)[1]
    are_times = {bool(TIME_OF_DAY.fullmatch(str(word))) for word in words}
    if are_times == {False} and not pd.api.types.is_numeric_dtype(series.dtype):
        some = map(str, words[:FIRST])
        return any(ISO_DATE.fullmatch(word) or _guesses(word) for word in some) or None
    return False if are_times == {True} else None


def zone_of(found: set[str]) -> str:
    """Return "none" if no dates have a zone, "other" if all have one but not all UTC.

    It is "both" if some have a zone other than UTC and some have none, and "" otherwise: these two
    go with any other dates, as dates without a zone are read as in UTC.
    """
    if "none" in found and len(found) > 1:
        return "both" if "other" in found else ""
    return next(iter(found & {"none", "other"}), "")


def unlike_dates(series: Any, had_days: bool, zone: str) -> str:
    """Return a message if dates have what those of the training rows lack, or the reverse.

    This is a day beside the time, in all of them, or a time zone, in some of them. `zone` is the
    result of `zone_of` for the training rows.
    """
    pairs = {"day beside the time": (have_days(series), had_days)}
    if {"none": "other", "other": "none"}.get(zone) in zones(series):
        pairs["time zone"] = (zone == "none", zone == "other")
    for what, (has, had) in pairs.items():
        if has not in {had, None}:
            some, others = ("a", "none") if has else ("no", "one")
            rest = f"and those of the training rows have {others}: write them alike"
            return f"dates have {some} {what}, {rest}"
    return ""


def times(words: Any, form: str = "") -> Any:
    """Return words as times in UTC; NaT where one is missing or not in the form; see `dates`."""
    form = form or date_form(words.dropna()) or ISO
    forms = [form, form.replace("%B", "%b"), ISO]  # "May" fits both
    if is_clock(form):
        forms = [re.sub("%M(:%S)?", f"%M{end}", form) for end in ("", ":%S", ":%S.%f")]
    words = words.map(lambda word: UTC.sub(r"\1Z", word) if isinstance(word, str) else word)
    # separately, as pandas reads ISO times without a zone in the zone of the time before
    has_zone = words.map(lambda word: bool(ZONE.search(str(word)))).astype(bool)
    ways = product(dict.fromkeys(forms), (words.mask(has_zone), words.where(has_zone)))
    found = (pd.to_datetime(some, format=f, errors="coerce", utc=True) for f, some in ways)
    return reduce(pd.Series.fillna, (each.dt.as_unit("us") for each in found))


def date_form(words: Any) -> str:
    """Return the format in which most words are dates; empty if it is ambiguous.

    It is that of one of the first words: ISO 8601, that of a time of day, or what pandas guesses
    with day or month first. If two formats read equally many words, they must read them alike.
    """
    for word in map(str, islice(words, FIRST)):
        if ISO_DATE.fullmatch(word):
            return ISO
        if clock := TIME_OF_DAY.fullmatch(word):
            return _clock(*clock.groups())
        if forms := _guesses(word):
            return _only(words, forms)
    return ""


def _clock(seconds: str | None, half: str | None) -> str:
    """Return the format of a time of day, with seconds or AM and PM if these were found."""
    hour, half = ("%I", half[:-2] + "%p") if half else ("%H", "")
    return f"{hour}:%M{':%S' if seconds else ''}{half}"


def _guesses(word: str) -> list[str]:
    """Return formats in which pandas may read a word as a date, with day or month first.

    A year of two digits comes last, or first with the day last.
    """
    if parts := TIME_FIRST.fullmatch(word):  # which pandas may take for the date
        clock = _clock(parts[2], parts[3])
        clock = clock.replace("%S", "%S.%f") if "." in parts[1] else clock
        if forms := [clock + parts[4] + form for form in _guesses(parts[5])]:
            return forms
    full = SHORT_YEAR.sub(r"\g<1>20\3", word)  # pandas guesses nothing from two-digit years,
    early = [HALVES.sub(r"03\1AM", each) for each in (full, full.title())]  # JAN, or some hours
    ways = product(early, (False, True))
    with warnings.catch_warnings(action="ignore"):
        guesses = [guess_datetime_format(each, dayfirst=first) or "" for each, first in ways]
    forms = list[str]()
    for guess in guesses:
        if {"%Y", "%d"} <= {*re.findall("%.", guess)} and not re.match("%Y(%m|.?%d)", guess):
            form = guess if full == word else guess.replace("%Y", "%y")
            forms += [form, YEAR_LAST.sub(r"%y\1\2\1%d", form)]
    return [*dict.fromkeys(forms)]


class Reading:
    """Words read as dates in a format."""

    def __init__(self, words: Any, form: str) -> None:
        self.form, self.dates = form, times(words, form)
        self.n_bad = int(self.dates.isna().sum())  # number of words that it does not fit
        self.day, year = self.dates.dt.day, self.dates.dt.year
        self.n_days, self.n_years = self.day.nunique(), year.nunique()  # different ones
        self.n_dates = self.dates.dt.normalize().nunique()
        self.has_year_first = bool(re.search("%y.*%d", form))  # of two digits, in front of the day
        # whether days range over whole months
        self.has_whole_months = bool(self.day.min() <= 3 and self.day.max() >= 28)

    def may_be(self, others: Sequence["Reading"]) -> bool:
        """Return whether the year may be in front of the day, given the readings where it is last.

        It may if days range over whole months, are all the first or the last ones, or are the same
        in many dates, and no other reading ranges over whole months. It also may, if months are
        numbers, where another reading has more years than days, and either few dates per year or,
        in this reading, dates on most days of their range.
        """
        day, were_whole = self.day, any(each.has_whole_months for each in others)
        are_like = day.max() == 1 or day.min() >= 28 or (self.n_days == 1 and self.n_dates >= MANY)
        if (self.has_whole_months or are_like) and not were_whole:
            return True
        odd = [each for each in others if each.n_bad == 0 and each.n_days < each.n_years]
        is_sparse = any(each.n_dates < 3 * each.n_years for each in odd)
        dates = self.dates.dt.normalize()
        is_dense = (dates.max() - dates.min()).days < 2 * self.n_dates
        is_likelier = is_sparse or (is_dense and any(each.n_days > 1 for each in odd))
        return is_likelier and not re.search("%[bB]", self.form)


def _only(words: Any, forms: Sequence[str]) -> str:
    """Return the format that reads most words; empty if another one reads as many differently."""
    read = [Reading(words, form) for form in forms]
    others = [each for each in read if not each.has_year_first]
    found = [each for each in read if not each.has_year_first or each.may_be(others)]
    if not found:
        return ""
    best = min(found, key=lambda each: each.n_bad)
    is_clear = all(each.n_bad > best.n_bad or each.dates.equals(best.dates) for each in found)
    return best.form if is_clear else ""
