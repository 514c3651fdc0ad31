"""Class labels: from what users write to codes 0..K-1, and to JSON and back."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsegp.data.table import tidy_labels
from sparsegp.errors import DataError
from sparsegp.types import Integers, Labels

TOO_LARGE = 2.0**63
"""Whole numbers from here on are no integers of 64 bits."""


def encode(y: Labels | None, source: str) -> tuple[Labels, Integers]:
    """Give each class a number.

    Parameters
    ----------
    y : array (n,)
        Integers, strings, bools or floats; floats that are all whole become integers, and labels
        of mixed types become strings.
    source : str
        Where the labels come from, for messages.

    Returns
    -------
    classes : array (K,)
        Sorted.
    codes : array (n,)
        Places in `classes`.

    Raises
    ------
    DataError
        If there are no labels, a label is missing (None, NaN), or all are the same.
    """
    classes, codes = np.unique(_uniform(y, source), return_inverse=True)
    if len(classes) < 2:
        rows = "the only row" if len(codes) == 1 else f"all {len(codes)} rows"
        raise DataError(
            f"one class only, {repr(classes[0].item())[:60]}, in {rows} of {source}; a classifier "
            "needs at least two"
        )
    return classes, codes.astype(np.int64)


def encode_with(
    classes: Labels, y: Labels | None, source: str = "y"
) -> tuple[Integers, list[int | str | bool | float]]:
    """Give labels the numbers of the classes of a model.

    Labels are compared as strings when only one side is made of strings.

    Parameters
    ----------
    classes : array (K,)
        As `encode` gave them.
    y : array (n,)
        Labels.
    source : str
        Where the labels come from, for messages.

    Returns
    -------
    codes : array (n,)
        Places in `classes`, -1 for labels that are not among them.
    unseen : list
        Those labels, sorted.

    Raises
    ------
    DataError
        If there are no labels, or a label is missing.
    """
    found, places = np.unique(_uniform(y, source), return_inverse=True)
    known, wanted = classes, found
    if (classes.dtype.kind == "U") != (found.dtype.kind == "U"):
        known, wanted = _strings(classes), _strings(found)
    code = {label: number for number, label in enumerate(known.tolist())}
    codes = np.array([code.get(label, -1) for label in wanted.tolist()], dtype=np.int64)
    return codes[places], found[codes < 0].tolist()


def classes_to_json(classes: Labels) -> list[int | str | bool | float]:
    """Return the classes (K,) as plain values, which JSON keeps apart by type."""
    return list(classes.tolist())


def classes_from_json(stored: Sequence[int | str | bool | float]) -> Labels:
    """Restore what `classes_to_json` gave.

    Raises
    ------
    DataError
        If the values are not all integers, all strings, all bools or all floats.
    """
    kinds = {type(value) for value in stored}
    if len(kinds) != 1 or not kinds <= {int, str, bool, float}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
        raise DataError(f"stored classes must be values of one type; found {names}")
    return np.array(stored)


def labels_from_text(texts: Sequence[str]) -> Labels:
    """Read labels written as text: integers if all are whole numbers, else floats, else strings.

    Whole numbers that do not fit 64 bits stay strings.
    """
    try:
        values = [float(text) for text in texts]
    except ValueError:
        return np.array(texts, dtype=np.str_)
    if not all(value.is_integer() for value in values):
        return np.array(values)
    if all(abs(value) < TOO_LARGE for value in values):
        return np.array([_whole(text) for text in texts], dtype=np.int64)
    return np.array(texts, dtype=np.str_)  # as doubles, some of them could be the same


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _uniform(y: Labels | None, source: str) -> Labels:
    """Return labels of one type, none of them missing."""
    if y is None:
        raise DataError(
            f"{source} has no labels; a text or parquet file holds them in a column, other formats "
            f"in an array or a file y beside X"
        )
    labels = tidy_labels(y, source)
    if labels.dtype.kind == "O":
        labels = _one_type(labels, source)
    if labels.dtype.kind == "f":
        labels = _whole_floats(labels, source)
    elif labels.dtype.kind == "u" and labels.size and labels.max() > np.iinfo(np.int64).max:
        raise DataError(f"label {labels.max()} of {source} does not fit 64 bits with a sign")
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _one_type(labels: Labels, source: str) -> Labels:
    """Turn objects (n,) into bools, numbers or strings; a missing one is refused."""
    values = [value.item() if isinstance(value, np.generic) else value for value in labels]
    for row, value in enumerate(values):
        if _is_missing(value):
            raise DataError(_missing(row, value, source))
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds <= {int, float} and all(
        isinstance(value, float) or abs(value) < TOO_LARGE for value in values
    ):
        return np.array(values)
    return np.array([str(value) for value in values], dtype=np.str_)


def _whole_floats(labels: Labels, source: str) -> Labels:
    finite = np.isfinite(labels)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(_missing(row, labels[row], source))
    whole = np.all((labels == np.rint(labels)) & (np.abs(labels) < TOO_LARGE))
    return labels.astype(np.int64) if whole else labels


def _is_missing(value: Any) -> bool:
    """None, NaN, or the marks of data frames for a missing value."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float) and math.isnan(value)


def _missing(row: int, value: Any, source: str) -> str:
    return f"every row needs a label; row {row} of {source} has {value} (rows counted from 0)"


def _strings(labels: Labels) -> Labels:
    return np.array([str(label) for label in labels.tolist()], dtype=np.str_)
