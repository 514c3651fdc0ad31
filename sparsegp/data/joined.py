"""Rows of two data frames joined into one, with the column types of the first."""

from typing import Any

import numpy as np
import pandas as pd

from sparsegp.data.frames import (
    by_row,
    column_places,
    frame_names,
    is_frame,
    is_number,
    refuse,
    unreadable,
)
from sparsegp.data.kinds import CODES, counted, reading_of
from sparsegp.data.numerals import form_of
from sparsegp.data.values import have_days, numbers, texts, times, unlike_dates, zone_of, zones
from sparsegp.errors import quoted


def joined_frames(X: Any, more: Any) -> Any:
    """Return the rows of two data frames, or of one and an array, as one frame of pandas.

    Words in `more` become numbers or times where X has these; words in X become times if `more` has
    times there and all can be read. A column without values takes the type of the other.

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
    known, new = map(_plain, (known, new))
    had_days, unlike = have_days(known), ""
    if None not in {had_days, have_days(new)}:
        unlike = unlike_dates(new, bool(had_days), zone_of(zones(known)))
    unlike = unlike and f"column {quoted(name)}: {unlike}"
    faults += filter(None, (unlike, _unlike_words(known, new)))
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
    elif known.dtype.kind in "iuf" and new.dtype.kind not in "iuf":
        new = _read(new, numbers(new), "number", faults)
    elif known.dtype.kind == "b" and new.dtype.kind in "iuf":
        known = _read(known, numbers(known), "number", faults)
    joined = pd.concat([known, new], ignore_index=True).rename(name)
    return joined.astype("category") if is_category else joined


def _plain(series: Any) -> Any:
    """Return a column with times of day as words, and Arrow dates and periods as times."""
    if pd.api.types.infer_dtype(series, skipna=True) == "time":
        return series.astype(object).map(str, na_action="ignore")
    if isinstance(series.dtype, pd.PeriodDtype):
        return series.dt.to_timestamp()
    is_arrow = isinstance(series.dtype, pd.ArrowDtype) and series.dtype.kind == "M"
    return pd.to_datetime(series.astype(object)) if is_arrow else series


def _unlike_words(known: Any, new: Any) -> str:
    """Return a message if a value lacks the form of earlier dates or numbers; else empty."""
    if pd.api.types.infer_dtype(known, skipna=True) != "string" or new.dtype.kind == "M":
        return ""
    counts = counted(known)
    levels, (name, _, form) = [*counts], reading_of(counts).partition(":")
    is_known = name == "date" or (name == "number" and len(levels) > CODES)  # few may be codes
    if not (is_known and form) or new.isna().all():
        return ""
    bad = new.notna().to_numpy(bool)
    if name == "number":
        unread = np.isnan(numbers(new, name, form)) & bad
        if not unread.any() and form_of([*levels, *texts(new)[1]]) == form:
            return ""
        are_bare = new.map(lambda value: is_number(str(value))).to_numpy(bool)  # of another form
        bad = unread if unread.any() else bad & are_bare
    elif new.dtype.kind not in "iufb":
        bad = bad & np.asarray(times(new.astype(object), form).isna())
    if not bad.any():
        return ""
    row, (value,) = int(bad.argmax()), new[bad][:1].tolist()
    what = f"{by_row(row, known.name)}: {quoted(value)} is unlike {quoted(levels[0])} and other"
    return f"{what} {name}s of earlier calls: write them alike"


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
