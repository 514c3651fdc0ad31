"""Rows of two data frames as one, in the types of the first where it has values."""

from typing import Any

import pandas as pd

from sparsegp.data.frames import by_row, column_places, frame_names, is_frame, refuse, unreadable
from sparsegp.data.values import numbers, times


def joined_frames(X: Any, more: Any) -> Any:
    """Return the rows of two data frames, or of one and an array, as one frame of pandas.

    Words in `more` become the numbers or times that the columns of X hold; words in X become times
    if all can and `more` holds times. A column of X without values takes the type of new ones.

    Raises
    ------
    DataError
        If columns are missing, or values cannot be read as numbers or times.
    """
    more = more if is_frame(more) else pd.DataFrame(more, columns=X.columns)
    places = column_places(frame_names(X), frame_names(more), "X")
    X, more, faults = X.copy(), more.iloc[:, places].set_axis(X.columns, axis=1), []
    for name in X.columns:
        series, kind = more[name], X[name].dtype.kind
        if series.dtype.kind == "M" and kind not in "iufM":
            found = _times(X[name], series.dt.tz)
            X[name] = X[name] if (found.isna() & X[name].notna()).any() else found
        elif kind in "iufM" and series.dtype.kind not in ("M" if kind == "M" else "iufb"):
            if X[name].isna().all():
                X[name] = None  # of any type
                continue
            more[name] = _times(series, X[name].dt.tz) if kind == "M" else numbers(series)
            bad = (more[name].isna() & series.notna()).to_numpy(bool)
            if bad.any():
                row, what = int(bad.argmax()), "date" if kind == "M" else "number"
                faults.append(unreadable(by_row(row, name), what, series.iloc[row]))
    refuse(faults, "X")
    levels = [name for name in X.columns if isinstance(X[name].dtype, pd.CategoricalDtype)]
    return pd.concat([X, more], ignore_index=True).astype(dict.fromkeys(levels, "category"))


def _times(series: Any, tz: Any) -> Any:
    """Return words as times, with or without a zone; NaT where one is missing or ambiguous."""
    words = series.astype(object)
    if pd.api.types.is_numeric_dtype(series.dtype):
        words = words.where(words.isna(), "")  # numbers are no times
    found = times(words).dt
    return found.tz_localize(None) if tz is None else found.tz_convert(tz)
