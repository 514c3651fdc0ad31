"""Values of columns of data frames as numbers or texts."""

import re
from typing import Any

import numpy as np
import pandas as pd

from sparsegp.data.labels import plain_text
from sparsegp.data.numerals import value_of
from sparsegp.types import Doubles, Integers

TRUTHS = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
WHITE = re.compile(r"\s+")


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
