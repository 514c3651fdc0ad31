"""What the columns of a data frame hold, and their values as numbers, dates or texts."""

import re
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from sparsegp.data.encoding import NUMBERS
from sparsegp.data.labels import plain_text
from sparsegp.types import Booleans, Doubles, Integers

OBJECTS = {
    "boolean": "truth",
    "integer": "whole number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "datetime": "date",
    "datetime64": "date",
    "date": "date",
    "empty": "category",
    "string": "category",
    "mixed-integer": "category",
}
"""Kinds of columns of objects, by what pandas finds in them."""

YEAR = ": year"
CIRCLES = {"day of year": 366.0, "day of week": 7.0, "hour": 24.0}
"""Parts of a date that come again, and after how many units."""


def kind_of(dtype: Any) -> str:
    """Return the kind that a dtype stands for; "object" if values decide; "" if there is none."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if getattr(dtype, "type", None) is date:  # of pyarrow
        return "date"
    for is_kind, kind in (
        (types.is_bool_dtype, "truth"),
        (types.is_integer_dtype, "whole number"),
        (types.is_complex_dtype, ""),
        (types.is_numeric_dtype, "number"),
        (types.is_datetime64_any_dtype, "date"),
        (types.is_object_dtype, "object"),
        (types.is_string_dtype, "category"),
    ):
        if is_kind(dtype):
            return kind
    return ""


def kind_of_objects(found: set[str]) -> str:
    """Return the kind of a column of objects, from what was found in its parts."""
    kinds = {OBJECTS.get(each, "") for each in found - {"empty"}}
    if not kinds:
        return "category"
    if kinds <= {*NUMBERS} and "truth" not in kinds:
        return "whole number" if len(kinds) == 1 and "whole number" in kinds else "number"
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
