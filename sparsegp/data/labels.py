"""Labels of classes as codes 0..K-1 and back; targets of a regression, standardised."""

import logging
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data.frames import listed
from sparsegp.errors import DataError, quoted
from sparsegp.types import Doubles, Integers, Labels

logger = logging.getLogger(__name__)

REAL_KINDS = "biuf"
"""Kinds of dtype that hold real numbers: bool, integers, floats."""
CODE = re.compile(r"\s*[+-]?0\d")
"""Start of numbers with leading zeros, which are codes."""
TOO_LARGE = 2.0**63
"""Whole numbers of at least this size do not fit into 64 bits."""
EXACT = 2.0**53
"""Smaller whole numbers do not coincide as doubles."""
LONGEST = 200
"""Maximum length of a label in bytes: an array of strings is as wide as its longest one."""
FEW, ROWS_PER_CLASS = 20, 5
"""More than `FEW` classes need on average `ROWS_PER_CLASS` rows each; integers raise a warning."""
OTHER_COLUMN = "labels in another column need label_column"
REMEDY = f"numbers to predict need a regression (task=regression), and {OTHER_COLUMN}"


def encode(y: Labels | None, source: str, known: Labels | None = None) -> tuple[Labels, Integers]:
    """Return the sorted classes, and for each row the index of its class.

    Parameters
    ----------
    y : array (n,)
        Integers, strings, bools, or floats that are whole numbers. Labels of mixed types become
        strings.
    source : str
        Where the labels come from, for messages.
    known : array (K,), optional
        The classes, if these rows may lack some; other labels are an error.

    Returns
    -------
    classes : array (K,)
    codes : array (n,)
        Indices into `classes`.

    Raises
    ------
    DataError
        If there are no labels, a label is missing or cannot name a class, all are the same,
        or there are too many different ones for classes.
    """
    if known is not None:
        codes, unseen = encode_with(known, y, source)
        if unseen:
            raise DataError(
                f"labels of {source} must be among {quoted(known.tolist())}, found "
                f"{quoted(unseen[0])}; for new classes update with the `old` rows too, or train a "
                "new model with the old rows and these"
            )
        return known, codes
    classes, codes = _unique(y, source, REMEDY)
    n, n_classes = len(codes), len(classes)
    if n_classes < 2:
        raise DataError(
            f"one class only, {classes[0].item()!r}, in {source} ({n} rows); a classifier needs at "
            "least two"
        )
    if n_classes > max(FEW, n / ROWS_PER_CLASS):
        raise DataError(
            f"{source} has {n_classes} classes in {n} rows, on average fewer than "
            f"{ROWS_PER_CLASS} for each; {REMEDY}"
        )
    return classes, codes


def warn_of_alike(classes: Labels, source: str) -> None:
    """Warn if words among the classes (K,) differ only in case or spaces."""
    groups: dict[str, list[str]] = {}
    for each in classes.tolist() if classes.dtype.kind == "U" else ():
        groups.setdefault(" ".join(each.casefold().split()), []).append(repr(each))
    if alike := [", ".join(group) for group in groups.values() if len(group) > 1]:
        message = "%s has labels that differ only in case or spaces, each a class: %s; %s"
        logger.warning(message, source, "; ".join(alike[:FEW]), "write them alike if they are one")


def warn_of_single_rows(
    y: Labels | None, counts: Doubles, source: str, known: Labels | None = None
) -> None:
    """Warn of classes of a single row, if there are many rows for each class on average.

    Each row counts as so many rows (n,); those of 0 rows are left out.
    """
    counted = counts > 0.0
    if y is None or not counted.any():
        return  # which is an error elsewhere
    classes, codes = encode(y[counted], source, known)
    rows, weights = (np.bincount(codes, w, len(classes)) for w in (None, counts[counted]))
    few = classes[(rows == 1) & (weights <= 1.0)]
    if len(few) and len(codes) >= ROWS_PER_CLASS * len(classes):
        message = "%s has classes of a single row: %s; correct them if they are misspelt"
        logger.warning(message, source, listed(few.tolist()))


def encode_with(
    classes: Labels, y: Labels | None, source: str = "y"
) -> tuple[Integers, list[int | str | bool]]:
    """Return the index of each label among the classes of a model.

    Labels are compared as strings if only one side consists of strings.

    Parameters
    ----------
    classes : array (K,)
        As returned by `encode`.
    y : array (n,)
        Labels.
    source : str
        Where the labels come from, for messages.

    Returns
    -------
    codes : array (n,)
        Indices into `classes`, -1 for labels that are not among them.
    unseen : list
        Those labels, sorted.

    Raises
    ------
    DataError
        If there are no labels, or a label is missing or cannot name a class.
    """
    found, places = _unique(y, source, OTHER_COLUMN)
    known, wanted = classes.tolist(), found.tolist()
    if (classes.dtype.kind == "U") != (found.dtype.kind == "U"):
        known, wanted = list(map(str, known)), list(map(str, wanted))
        if classes.dtype.kind in "iu":  # 08 and 8.0 are 8 if all labels were numbers in training
            wanted = list(map(_plain_number, wanted))
    code = {label: number for number, label in enumerate(known)}
    codes = np.array([code.get(label, -1) for label in wanted], dtype=np.int64)
    return codes[places], found[codes < 0].tolist()


def known_codes(
    classes: Labels, y: Labels | None, source: str
) -> tuple[Integers, list[int | str | bool]]:
    """Return the same as `encode_with`; unseen labels raise a warning, or an error if all are."""
    codes, unseen = encode_with(classes, y, source)
    if unseen:
        found = listed(unseen)
        if codes.max() < 0:
            raise DataError(
                f"labels of {source} must be among {listed(classes.tolist())}, found none of them "
                f"but {found}; give their `label_column`, or a model of them"
            )
        message = "%s has labels that the model does not know: %s; they count as errors"
        logger.warning(message, source, found)
    return codes, unseen


def tidy_labels(y: Any, source: str) -> Labels:
    """Return labels as a flat array (n,) of numbers, strings or objects; masked ones become None.

    Raises
    ------
    DataError
        If there are none, or several per row, or they are neither numbers nor strings.
    """
    if y is None:
        raise DataError(
            f"{source} has no labels: give y, an array or file beside X; of a text or parquet file "
            "give the label_column"
        )
    try:
        labels: Labels = np.asarray(y)
    except ValueError:  # lists of several lengths
        labels = np.asarray(y, dtype=object)
    if isinstance(y, np.ma.MaskedArray):
        labels = labels.astype(object)
        labels[np.ma.getmaskarray(y)] = None
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in f"{REAL_KINDS}SUTO":
        raise DataError(
            f"labels must be integers or strings, one for each row; those of {source} are "
            f"{labels.dtype} of shape {labels.shape}"
        )
    if labels.dtype.kind == "S":
        try:
            return np.char.decode(labels, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"labels of {source} must be text in UTF-8: {error}") from None
    return np.array(labels.tolist(), np.str_) if labels.dtype.kind == "T" else labels


def labels_from_text(texts: Sequence[str], source: str) -> Labels:
    """Convert text labels to integers if all are whole numbers, else to floats, else to strings.

    Whole numbers that do not fit into 64 bits stay strings: as doubles, some could coincide. So do
    codes with leading zeros, which would lose them.
    """
    numbers = [_number(text) for text in texts]
    if None in numbers:
        return short_strings(texts, source)
    values = np.array(numbers, np.float64)
    if not np.all(np.isfinite(values) & (values == np.rint(values))):
        return values
    if np.any(np.abs(values) >= TOO_LARGE) or any(map(CODE.match, texts)):
        return short_strings(texts, source)
    return np.array([int(Decimal(text)) for text in texts], dtype=np.int64)


def _number(text: str) -> float | None:
    """Return the number that a text is, or None: for Python, 1_1 and digits of all scripts are."""
    with suppress(ValueError):
        return float(text) if text.isascii() and "_" not in text else None
    return None


def _plain_number(text: str) -> str:
    """Return a whole number without zeros before or after it, and any other text as it is."""
    number = _number(text)
    return text if number is None or not number.is_integer() else str(int(Decimal(text)))


def plain_text(label: Any) -> str:
    """Return a label as text; a whole number gives the same text as an integer and as a float."""
    whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label) if whole else label)


def _unique(y: Labels | None, source: str, remedy: str) -> tuple[Labels, Integers]:
    """Return the distinct labels, sorted, and for each row the index of its label.

    All have the same type: 64-bit integers, bools or strings.
    """
    labels = tidy_labels(y, source)
    if labels.dtype.kind == "O" or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        labels = _one_type(labels.tolist(), source)
    if labels.dtype.kind == "f":
        labels = labels.astype(np.result_type(labels, np.float64))
        if np.all((labels == np.rint(labels)) & (np.abs(labels) < EXACT)):
            labels = labels.astype(np.int64)
    found, places = np.unique(labels, return_inverse=True)
    if found.dtype.kind == "f" or (found.dtype.kind == "u" and found[-1] >= TOO_LARGE):
        raise DataError(
            f"classes must be names or whole numbers of 64 bits (below 2**53 as floats); {source} "
            f"has {found[0]} to {found[-1]}; {remedy}"
        )
    found = short_strings(found, source) if found.dtype.kind == "U" else found
    return found.astype(np.int64) if found.dtype.kind in "iu" else found, places.astype(np.int64)


def refuse_missing(values: Sequence[Any], source: str, what: str = "label") -> None:
    """Raise a `DataError` if one of these objects, labels or as `what` says, is missing."""
    for row, value in enumerate(values):
        nan = isinstance(value, float) and math.isnan(value)
        if value is None or nan or type(value).__name__ in {"NAType", "NaTType"}:
            raise DataError(
                f"every row needs a {what}; row {row} of {source} has {value} (rows counted from 0)"
            )


def refuse_several(values: Sequence[Any], source: str, what: str) -> None:
    """Raise a `DataError` if a value is a collection, such as a list, instead of `what`."""
    for row, value in enumerate(values):
        if isinstance(value, np.ndarray | list | tuple | dict | set):
            raise DataError(
                f"{what}s must be integers or strings, one for each row; {source} has a "
                f"{type(value).__name__} in row {row} (rows counted from 0)"
            )


def _one_type(values: list[Any], source: str) -> Labels:
    """Convert objects (n,) to bools or numbers if that is what all of them are, else to strings."""
    refuse_missing(values, source)
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    refuse_several(values, source, "label")
    kinds = {type(value) for value in values}
    if kinds == {bool} or kinds <= {int, float}:
        labels = np.array(values)
        if labels.dtype.kind in REAL_KINDS:
            return labels
    decode = partial(str, encoding="utf-8", errors="surrogateescape")  # surrogates are refused
    texts = [decode(value) if isinstance(value, bytes) else str(value) for value in values]
    return short_strings(texts, source)


def short_strings(texts: Any, source: str) -> Labels:
    """Return strings as an array (n,); raise a `DataError` if one is too long or not Unicode."""
    try:
        longest = max(len(text.encode()) for text in texts)
    except (SystemError, ValueError):  # not Unicode
        longest = LONGEST + 1
    if longest > LONGEST or any(text.endswith("\0") for text in texts):
        raise DataError(
            f"labels of {source} must be text, in UTF-8 of at most {LONGEST} bytes, without NUL at "
            "the end"
        )
    return np.array(texts, dtype=np.str_)
