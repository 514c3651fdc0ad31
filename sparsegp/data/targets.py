"""Targets of a regression: numbers, perhaps in words, and their standardisation."""

import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.data.frames import is_number
from sparsegp.data.labels import CODE, FEW, REAL_KINDS, REMEDY, TOO_LARGE, encode, tidy_labels
from sparsegp.data.numerals import form_of, is_numeral, value_of
from sparsegp.errors import DataError, quoted
from sparsegp.state import MAX_MAGNITUDE
from sparsegp.types import Doubles, Labels

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Numbers:
    """Standardisation of the targets y of a regression: (y - offset) / scale.

    Offset and scale are mean and standard deviation in training; the scale is 1 if all are equal.
    """

    offset: float
    scale: float
    form: str | None = None  # of targets that were numbers in words; see `as_numbers`

    def __post_init__(self) -> None:
        least = 1 / MAX_MAGNITUDE
        if not (least <= self.scale <= MAX_MAGNITUDE and abs(self.offset) <= MAX_MAGNITUDE):
            raise DataError(
                f"labels of a regression must be at most {MAX_MAGNITUDE:g}, and their standard "
                f"deviation at least {least:g}, found mean {self.offset:g} and standard deviation "
                f"{self.scale:g}; multiply or divide them"
            )

    @classmethod
    def of(cls, y: Labels | None, source: str) -> "Numbers":
        """Compute the standardisation of the training targets; see `as_numbers`."""
        labels, form = _in_words(tidy_labels(y, source))
        values = as_numbers(labels, source, form)
        varies = bool((values != values[0]).any())
        return cls(float(values.mean()), float(values.std()) if varies else 1.0, form)

    def encode(self, y: Labels | None, source: str) -> Doubles:
        """Return standardised targets, (n,); see `as_numbers`."""
        return (as_numbers(y, source, self.form) - self.offset) / self.scale

    def decode(self, target: Doubles) -> Doubles:
        """Return standardised targets in their original units, (n,)."""
        return target * self.scale + self.offset


def as_numbers(y: Any, source: str, form: str | None = None) -> Doubles:
    """Return the targets of a regression as doubles, (n,), even if in words, as "$1,234.50".

    Parameters
    ----------
    y : array-like (n,)
    source : str
        Where they come from, for messages.
    form : str, optional
        Form of numbers in words (data/numerals.py); by default that of these targets.

    Raises
    ------
    DataError
        If there are none, or one is missing or not a finite number.
    """
    labels, _ = _in_words(tidy_labels(y, source), form)
    if labels.dtype.kind not in REAL_KINDS:
        found = labels.tolist()
        odd = [row for row, label in enumerate(found) if not is_number(label)]
        others = [row for row in odd if not is_numeral(str(found[row]))]
        row, why = (others or odd or [0])[0], "correct it, or give other labels"
        if odd and not others:
            why = "write plain numbers of one unit or currency, with one decimal mark"
        raise DataError(
            f"a regression needs numbers as labels; {source} has {quoted(found[row])} in row {row} "
            f"(rows counted from 0): {why}"
        )
    values = labels.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(
            f"labels must be finite: {len(bad)} of {source} are not, the first, "
            f"{values[bad[0]]}, in row {bad[0]} (rows counted from 0)"
        )
    return values


def _in_words(labels: Labels, form: str | None = None) -> tuple[Labels, str]:
    """Return targets (n,) with numbers in place of words of a form, and this form.

    Words of another form stay. So do texts of plain numbers, unless some are codes or too large for
    integers: only then are labels that were read from a file still text.
    """
    if labels.dtype.kind == "O" and all(isinstance(each, str) for each in labels.tolist()):
        labels = labels.astype(np.str_)
    if labels.dtype.kind != "U":
        return labels, form or ""
    with suppress(ValueError):
        numbers = labels.astype(np.float64)
        if any(map(CODE.match, labels.tolist())) or (np.abs(numbers) >= TOO_LARGE).any():
            return numbers, form or ""
    found, places = np.unique(labels, return_inverse=True)
    words = found.tolist()
    if not (form := form_of(words, asked=True) if form is None else form):
        return labels, ""
    values = [value_of(word, form) for word in words]
    if any(map(math.isnan, values)):
        values = [word if math.isnan(v) else v for v, word in zip(values, words, strict=True)]
        return np.array(values, dtype=object)[places], form
    return np.array(values)[places], form


def warn_of_numbers(y: Labels | None, source: str, is_regression: bool) -> None:
    """Warn if classes (n,) are many integers, or the labels of a regression only few numbers.

    Raises
    ------
    DataError
        As for `encode`, or `as_numbers`.
    """
    if is_regression:
        numbers = np.unique(as_numbers(y, source))
        if len(numbers) == 1:
            logger.warning("all labels of %s are %g; there is nothing to learn", source, numbers[0])
        elif len(numbers) <= FEW and (numbers == np.floor(numbers)).all():
            message = "%s has only %d numbers as labels, and this is a regression; %s"
            remedy = "classes need another likelihood or method"
            logger.warning(message, source, len(numbers), remedy)
        return
    n = len(classes := encode(y, source)[0])
    if n > FEW and classes.dtype.kind in "iu":
        logger.warning("%s has %d numbers as labels, each a class; %s", source, n, REMEDY)
