"""Values of a column of a data frame as numbers, dates or texts."""

import re
import warnings
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format

from sparsegp.data.column import DATE_PARTS
from sparsegp.data.labels import plain_text
from sparsegp.data.numerals import value_of
from sparsegp.types import Doubles, Integers

TRUTHS = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
ISO, ISO_DATE = "ISO8601", re.compile(r"(?!.*[AaPp][Mm]$)\d{4}-\d\d-\d\d([T ].*)?")
HALVES = re.compile(r"(?<!\d)\d\d?(:\d\d(?::\d\d)? ?)[AaPp][Mm]$")
SHORT_YEAR = re.compile(r"^(\d\d?([./ -])(?:\d\d?|[A-Za-z]{3})\2)(\d\d)(?!\d)")
TIME_OF_DAY = re.compile(r"\d\d?:\d\d(:\d\d)?( ?[AaPp][Mm])?")
ZONE = re.compile(
    r"[T ]\d\d?(?::?\d\d){0,2}(?:[.,]\d+)?(?: ?[AaPp][Mm])? ?"
    r"(Z|UTC|GMT|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)$"
)
"""A time of day with a time zone, at the end of a date."""
WHITE = re.compile(r"\s+")


def numbers(series: Any, kind: str = "number", form: str = "") -> Doubles:
    """Return the values of a column as numbers, (n,); NaN where one is missing or unreadable.

    Text is read as truth values if these are its kind, else as numbers of a form (numerals.py), if
    they have one.
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
    return np.asarray(series.to_numpy(np.float64, na_value=np.nan))


def dates(series: Any, form: str = "") -> Doubles:
    """Return the time in years and the cyclic parts of dates, (n, 4); NaN where one is no date.

    Dates with a time zone are those in UTC. Text is read in the format `form`, by default that of
    `date_form`, or in ISO 8601. Numbers are not dates.
    """
    if not _is_of_dates(series):
        if pd.api.types.is_numeric_dtype(series.dtype):
            return np.full((len(series), len(DATE_PARTS)), np.nan)
        codes, found = pd.factorize(series.astype(object))
        return np.asarray(dates(times(pd.Series([*found, None], dtype=object), form))[codes])
    parts = pd.to_datetime(series, utc=True).dt
    hour = parts.hour + parts.minute / 60.0 + parts.second / 3600.0
    day = parts.day_of_year - 1
    time = parts.year + (day + hour / 24.0) / (365 + parts.is_leap_year)
    each = (time, day, parts.day_of_week, hour)
    return np.column_stack([part.to_numpy(np.float64, na_value=np.nan) for part in each])


def _is_of_dates(series: Any) -> bool:
    """Return whether values have a type of dates that is not of Arrow."""
    is_arrow = isinstance(series.dtype, pd.ArrowDtype)
    return not is_arrow and pd.api.types.is_datetime64_any_dtype(series.dtype)


def zones(series: Any) -> set[str]:
    """Return which time zones dates have: some of "none", "UTC", and "other"."""
    if not _is_of_dates(series):
        words = [ZONE.search(str(value)) for value in series.dropna().unique()]
        offsets = {word and word[1].strip("+-0:") for word in words}
        names = {None: "none", "": "UTC", "Z": "UTC", "UTC": "UTC", "GMT": "UTC"}
        return {names.get(offset, "other") for offset in offsets}
    known = series.dropna()
    if known.dt.tz is None:
        return {"none"} if len(known) else set()
    is_utc = known.dt.tz_localize(None) == known.dt.tz_convert(None)
    return {"UTC" if each else "other" for each in is_utc.unique()}


def zone_of(found: set[str]) -> str:
    """Return "none" if no dates have a zone, "other" if all have and not all UTC, else "".

    As dates without a zone are read as if in UTC, the last go with all others.
    """
    if "none" in found:
        return "none" if found == {"none"} else ""
    return "other" if "other" in found else ""


def times(words: Any, form: str = "") -> Any:
    """Return words as times in UTC; NaT where one is missing or not in the form; see `dates`."""
    form = form or date_form(words.dropna()) or ISO
    forms = [form, form.replace("%B", "%b"), ISO if "%d" in form else form]  # May may be short
    each = (
        pd.to_datetime(words, format=f, errors="coerce", utc=True) for f in dict.fromkeys(forms)
    )
    return reduce(pd.Series.fillna, each)


def date_form(words: Any) -> str:
    """Return the format in which most words are dates; empty if it is ambiguous.

    That is ISO 8601 if the first word is in it, that of its time of day, or else what pandas
    guesses from it with the day or the month first. Two formats that read equally many words must
    read them alike.
    """
    word = str(next(iter(words), ""))
    if ISO_DATE.fullmatch(word):
        return ISO
    if clock := TIME_OF_DAY.fullmatch(word):
        hour, half = ("%I", clock[2][:-2] + "%p") if clock[2] else ("%H", "")
        return f"{hour}:%M{':%S' if clock[1] else ''}{half}"
    full = SHORT_YEAR.sub(r"\g<1>20\3", word)  # pandas guesses no two-digit years
    early = [HALVES.sub(r"03\1AM", each) for each in (full, full.title())]  # nor from JAN; am
    ways = product(early, (False, True))  # or PM only at some hours
    with warnings.catch_warnings(action="ignore"):
        guesses = [guess_datetime_format(each, dayfirst=first) or "" for each, first in ways]
    found = []
    for guess in dict.fromkeys(guesses):
        if {"%Y", "%d"} <= {*re.findall("%.", guess)} and not re.match("%Y(%m|.?%d)", guess):
            form = guess if full == word else guess.replace("%Y", "%y")
            read = times(words, form)
            found.append((read.isna().sum(), form, read))
    best = min(found, default=(0, "", None), key=lambda one: one[0])
    is_clear = all(bad > best[0] or read.equals(best[2]) for bad, _, read in found)
    return best[1] if is_clear else ""


def texts(series: Any) -> tuple[Integers, list[str]]:
    """Return the index of each value's text, (n,), -1 if missing, and the distinct texts."""
    of_arrow = str(series.dtype).startswith("dictionary")  # with values that no row has
    try:
        codes, found = pd.factorize(series.astype(object) if of_arrow else series)
    except TypeError:  # lists and the like
        codes, found = pd.factorize(series.where(series.isna(), series.astype(str)))
    return codes, [WHITE.sub(" ", plain_text(value)) for value in found]
