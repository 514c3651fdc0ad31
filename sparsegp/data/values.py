"""Values of columns of data frames as numbers, dates or texts; rows of two frames as one."""

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
from sparsegp.data.frames import (
    by_row,
    column_places,
    frame_names,
    is_clock,
    is_frame,
    refuse,
    unreadable,
)
from sparsegp.data.labels import plain_text
from sparsegp.data.numerals import value_of
from sparsegp.errors import quoted
from sparsegp.types import Doubles, Integers

TRUTHS = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
ISO, ISO_DATE = "ISO8601", re.compile(r"(?!.*[AaPp][Mm]$)\d{4}-\d\d-\d\d([T ].*)?")
HALVES = re.compile(r"(?<!\d)\d\d?(:\d\d(?::\d\d)? ?)[AaPp][Mm]$")
SHORT_YEAR = re.compile(r"^(\d\d?([./ -])(?:\d\d?|[A-Za-z]{3})\2)(\d\d)(?!\d)")
TIME_OF_DAY = re.compile(r"\d\d?:\d\d(:\d\d(?:\.\d+)?)?( ?[AaPp][Mm])?")
TIME_FIRST = re.compile(rf"({TIME_OF_DAY.pattern})(,? )(.+)")
YEAR_LAST = re.compile(r"^%d([./ -])(%[mbB])\1%y")
"""Pattern of formats, which also fit dates with the year in front."""
FIRST = 3
"""Number of words of which one at least is a date, if they are dates."""
ZONE = re.compile(
    r"[T ]\d\d?(?::?\d\d){1,2}(?:[.,]\d+)?(?: ?[AaPp][Mm])? ?"
    r"(Z|UTC|GMT|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)$"
)
"""A time of day with a time zone, at the end of a date."""
UTC = re.compile(r"^(\d{4}-.*\d) ?(?:UTC|GMT)$")
"""An ISO date and time in UTC, in words."""
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
        codes, found = _distinct(series.astype(object))
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
        words = [ZONE.search(str(value)) for value in _distinct(series)[1]]
        offsets = {word and word[1].strip("+-0:") for word in words}
        names = {None: "none", "": "UTC", "Z": "UTC", "UTC": "UTC", "GMT": "UTC"}
        return {names.get(offset, "other") for offset in offsets}
    known = series.dropna()
    if known.dt.tz is None:
        return {"none"} if len(known) else set()
    is_utc = known.dt.tz_localize(None) == known.dt.tz_convert(None)
    return {"UTC" if each else "other" for each in is_utc.unique()}


def have_days(series: Any) -> bool | None:
    """Return whether values are dates, or times of day alone; None if they are both or neither."""
    if _is_of_dates(series):
        return True
    words = _distinct(series)[1]
    are_times = {bool(TIME_OF_DAY.fullmatch(str(word))) for word in words}
    if are_times == {False} and not pd.api.types.is_numeric_dtype(series.dtype):
        some = map(str, words[:FIRST])
        return any(ISO_DATE.fullmatch(word) or _guesses(word) for word in some) or None
    return False if are_times == {True} else None


def zone_of(found: set[str]) -> str:
    """Return "none" if no dates have a zone, "other" if all have and not all UTC, else "".

    As dates without a zone are read as if in UTC, the last go with all others.
    """
    if "none" in found:
        return "none" if found == {"none"} else ""
    return "other" if "other" in found else ""


def has_other_zones(known: str, found: set[str]) -> bool:
    """Return whether some dates have a zone and those before had none, or the reverse.

    `known` is the result of `zone_of` for those before, `found` that of `zones` for the others.
    """
    return {"none": "other", "other": "none"}.get(known) in found


def times(words: Any, form: str = "") -> Any:
    """Return words as times in UTC; NaT where one is missing or not in the form; see `dates`."""
    form = form or date_form(words.dropna()) or ISO
    forms = [form, form.replace("%B", "%b"), ISO]  # May may be short
    if is_clock(form):
        forms = [re.sub("%M(:%S)?", f"%M{end}", form) for end in ("", ":%S", ":%S.%f")]
    words = words.map(lambda word: UTC.sub(r"\1Z", word) if isinstance(word, str) else word)
    # apart, as pandas reads ISO times without a zone in that of the time before
    has_zone = words.map(lambda word: bool(ZONE.search(str(word)))).astype(bool)
    ways = product(dict.fromkeys(forms), (words.mask(has_zone), words.where(has_zone)))
    found = (pd.to_datetime(some, format=f, errors="coerce", utc=True) for f, some in ways)
    return reduce(pd.Series.fillna, (each.dt.as_unit("us") for each in found))


def date_form(words: Any) -> str:
    """Return the format in which most words are dates; empty if it is ambiguous.

    It is that of one of the first words: ISO 8601, that of a time of day, or what pandas guesses
    with the day or the month first. Two formats that read equally many words must read them alike.
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
    """Return formats in which a word may be a date, by pandas, the day or the month first.

    Two digits are a year if they come last, or first and are not the day.
    """
    if parts := TIME_FIRST.fullmatch(word):  # which pandas may take for the date
        clock = _clock(parts[2], parts[3])
        clock = clock.replace("%S", "%S.%f") if "." in parts[1] else clock
        if forms := [clock + parts[4] + form for form in _guesses(parts[5])]:
            return forms
    full = SHORT_YEAR.sub(r"\g<1>20\3", word)  # pandas guesses no two-digit years
    early = [HALVES.sub(r"03\1AM", each) for each in (full, full.title())]  # nor from JAN; am
    ways = product(early, (False, True))  # or PM only at some hours
    with warnings.catch_warnings(action="ignore"):
        guesses = [guess_datetime_format(each, dayfirst=first) or "" for each, first in ways]
    forms = list[str]()
    for guess in guesses:
        if {"%Y", "%d"} <= {*re.findall("%.", guess)} and not re.match("%Y(%m|.?%d)", guess):
            form = guess if full == word else guess.replace("%Y", "%y")
            forms += [form, YEAR_LAST.sub(r"%y\1\2\1%d", form)]
    return [*dict.fromkeys(forms)]


def _only(words: Any, forms: Sequence[str]) -> str:
    """Return the format that reads most words; empty if another one reads as many differently.

    One with a year of two digits in front counts only if days are from the whole of months, or the
    first or last ones, and they would not be from the whole of months with the day in front; or if
    there would then be more years than days, with few dates each or where now most days occur, and
    months are numbers.
    """
    found, has_all_days = list[tuple[int, str, Any]](), False
    is_sparse = is_doubtful = False
    for form in forms:  # those with the year in front follow the others
        read = times(words, form)
        days = read.dt.day
        are_all = days.min() <= 3 and days.max() >= 28
        are_days = are_all or days.max() == 1 or days.min() >= 28
        each, years, n_days = read.dt.normalize(), read.dt.year.nunique(), days.nunique()
        is_dense = (each.max() - each.min()).days < 2 * each.nunique()
        may_be = (is_sparse or (is_doubtful and is_dense)) and not re.search("%[bB]", form)
        if not re.search("%y.*%d", form) or may_be or (are_days and not has_all_days):
            found.append((read.isna().sum(), form, read))
        has_all_days |= are_all
        if read.notna().all():
            is_sparse |= n_days < years and each.nunique() < 3 * years
            is_doubtful |= 1 < n_days < years
    best = min(found, default=(0, "", None), key=lambda one: one[0])
    is_clear = all(bad > best[0] or read.equals(best[2]) for bad, _, read in found)
    return best[1] if is_clear else ""


def texts(series: Any) -> tuple[Integers, list[str]]:
    """Return the index of each value's text, (n,), -1 if missing, and the distinct texts."""
    of_arrow = str(series.dtype).startswith("dictionary")  # with values that no row has
    codes, found = _distinct(series.astype(object) if of_arrow else series)
    return codes, [WHITE.sub(" ", plain_text(value)) for value in found]


def _distinct(series: Any) -> tuple[Integers, Any]:
    """Return the index of each value, (n,), -1 if missing, and the distinct values."""
    try:
        codes, found = pd.factorize(series)
    except TypeError:  # lists and the like
        codes, found = pd.factorize(series.where(series.isna(), series.astype(str)))
    return codes, found


def joined_frames(X: Any, more: Any) -> Any:
    """Return the rows of two data frames, or of one and an array, as one frame of pandas.

    Words in `more` become the numbers or times that the columns of X hold; words in X become times
    if all can and `more` holds times. A column without values takes the type of that of the other.

    Raises
    ------
    DataError
        If columns are missing, or values cannot be read as numbers or times.
    """
    more = more if is_frame(more) else pd.DataFrame(more, columns=X.columns)
    places, faults = column_places(frame_names(X), frame_names(more), "X"), list[str]()
    pairs = ((X[name], more.iloc[:, at]) for name, at in zip(X.columns, places, strict=True))
    joined = pd.concat([_joined(*pair, faults) for pair in pairs], axis=1)
    refuse(faults, "X")
    return joined


def _joined(known: Any, new: Any, faults: list[str]) -> Any:
    """Return one column with the values of two; what is wrong with these is added to `faults`."""
    name, is_category = known.name, isinstance(known.dtype, pd.CategoricalDtype)
    known, new = map(_without_times, (known, new))
    have = {have_days(known), have_days(new)}
    if have == {True, False}:
        faults.append(f"column {quoted(name)}: dates must all have a day beside the time, or none")
    if have == {True} and has_other_zones(zone_of(zones(known)), zones(new)):
        faults.append(f"column {quoted(name)}: dates must all have a time zone, or none")
    if known.isna().all():
        known = new.iloc[:0].reindex(known.index)
        new = new.astype(known.dtype)
    elif new.isna().all():
        new = known.iloc[:0].reindex(new.index)
        known = known.astype(new.dtype)
    elif new.dtype.kind == "M" and known.dtype.kind not in "iufM":
        found = _as_times(known, new.dt.tz)
        known = known if (found.isna() & known.notna()).any() else found
    elif known.dtype.kind == "M" != new.dtype.kind:
        new = _read(new, _as_times(new, known.dt.tz), "date", faults)
    elif known.dtype.kind in "iuf" and new.dtype.kind not in "iufb":
        new = _read(new, numbers(new), "number", faults)
    joined = pd.concat([known, new], ignore_index=True).rename(name)
    return joined.astype("category") if is_category else joined


def _without_times(series: Any) -> Any:
    """Return a column with times of day as words."""
    if pd.api.types.infer_dtype(series, skipna=True) != "time":
        return series
    return series.astype(object).map(str, na_action="ignore")


def _read(words: Any, values: Any, kind: str, faults: list[str]) -> Any:
    """Return the values of words; one that could not be read is added to `faults`."""
    values = pd.Series(values, words.index, name=words.name)
    bad = (values.isna() & words.notna()).to_numpy(bool)
    if bad.any():
        row = int(bad.argmax())
        faults.append(unreadable(by_row(row, words.name), kind, words.iloc[row]))
    return values


def _as_times(series: Any, tz: Any) -> Any:
    """Return words as times, with or without a zone; NaT where one is missing or ambiguous."""
    words = series.astype(object)
    if pd.api.types.is_numeric_dtype(series.dtype):
        words = words.where(words.isna(), "")  # numbers are no times
    found = times(words).dt
    return found.tz_localize(None) if tz is None else found.tz_convert(tz)
