"""Meaning of the points and commas in the numbers of a text file.

A mark that is decimal in one file separates thousands in another. Numbers that can be read in one
way only prove the decimal mark of a file; without proof, marks are read as in the training rows, or
as decimal, and a warning says so.
"""

import logging
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparsegp.data.column import NUMBERS, UNTYPED
from sparsegp.data.frames import given_as
from sparsegp.data.numerals import MINUS, form_of, swapped
from sparsegp.data.readers.columns import Columns, Places
from sparsegp.data.readers.layout import MISSING, Layout, number

logger = logging.getLogger(__name__)

Words = list[str | None]
"""Distinct texts of a column; None is a missing value."""
MAY_BE_NUMBERS = ("", UNTYPED, *NUMBERS)
"""Kinds of columns whose words may be numbers."""
OTHER, NAMES = {".": ",", ",": "."}, {".": "points", ",": "commas"}
MEANINGS = {".": "separate thousands, as in training", ",": "are decimal, as in other columns"}
"""The other mark that may be decimal; names of marks; what they mean in new rows if unsure."""
DECIMAL_COMMA = re.compile(r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$")
THOUSANDS = re.compile(r"(?<![\d.,])([1-9]\d{0,2}(,\d{3})+)(?![\d.,])")
"""Patterns of a number with a decimal comma, and of one with commas between thousands in a text."""
POINT = re.compile(r"[+-]?(0?\.\d+|\d+\.(\d{0,2}|\d{4,})|\d{4,}\.\d*)")
"""Pattern of a number with a point that does not separate thousands."""
SMALL = re.compile(rf"[+{MINUS}-]?\d{{1,3}}")
CODE, SEVERAL = re.compile(r"0\d+"), 5
"""Patterns of small numbers, and of those with a zero in front; and how many of the latter make a
column suspicious."""


@dataclass(frozen=True)
class Marks:
    """Marks in the numbers of a text file."""

    columns: Columns
    layout: Layout
    head: Sequence[Sequence[str]]  # fields of its first rows, which are examined

    def _first_words(self, place: int) -> list[str]:
        """Return the words of a column in the first rows, without missing values."""
        words = [row[place].strip() for row in self.head if len(row) > place]
        missing = {*MISSING, *self.columns.markers}
        return [word for word in words if word not in missing]

    @cached_property
    def proven(self) -> set[str]:
        """Decimal marks that are proven by all numbers of a column."""
        found = set[str]()
        for words in map(self._first_words, range(self.layout.width)):
            form = form_of([*{*words}], asked=True)
            found |= {mark for mark in ".," if f"#{mark}#" in form}
            if all(map(number(".").fullmatch, words)) and any(map(POINT.fullmatch, words)):
                found.add(".")
        return found

    def warn(self, values: Any, places: Places) -> None:
        """Warn of decimal marks that may separate thousands, and of zeros in front of numbers.

        A mark is doubtful if three digits follow it in every number from 1000 on, and there are
        smaller numbers, too, or a column proves a decimal comma, or it is a comma in new rows.
        """
        by_model, decimal = self.columns.names is not None, self.layout.decimal
        label = [] if places.label is None else [places.label]
        thousands = re.compile(rf"[+{MINUS}-]?[1-9]\d{{0,2}}({re.escape(decimal)}\d{{3}})+")
        for place in [*(n for n in places.inputs if values[n].dtype.kind in "iuf"), *label]:
            words, name = self._first_words(place), self.layout.names[place]
            kind = places.kinds.get(places.inputs.get(place, ""))
            if by_model and kind == "number":  # which has decimals
                continue
            grouped = [word for word in words if thousands.fullmatch(word)]
            n_small = sum(map(bool, map(SMALL.fullmatch, words))) if len(grouped) > 1 else 0
            may_be = len(grouped) > 1 and n_small + len(grouped) == len(words)
            # training rows may have had commas of thousands
            is_doubtful = n_small or ("," in self.proven if decimal == "." else by_model)
            if may_be and is_doubtful:
                message = "%s: %s in the column %s may separate thousands; if so, remove them"
                logger.warning(message, self.columns.called, NAMES[decimal], shlex.quote(name))
            is_known = by_model or place == places.label or kind is not None
            are_whole = not is_known and all(map(str.isdecimal, words))
            if are_whole and sum(map(bool, map(CODE.fullmatch, words))) >= SEVERAL:
                message = "%s has zeros in front of numbers in the input %s; for codes give %s"
                named = given_as(name, "category")
                logger.warning(message, self.columns.called, shlex.quote(name), named)

    def without_thousands(self, words: Words, place: int, kind: str) -> Words:
        """Return numbers without commas, if these delimit fields and also separate thousands.

        They do unless another column has decimal commas. Numbers with a unit keep them, and get a
        point at the end, so that their form shows what the commas mean.
        """
        if kind not in MAY_BE_NUMBERS or self.layout.delimiter != ",":
            return words
        asked, pointed = kind in NUMBERS, [word and THOUSANDS.sub(r"\1.", word) for word in words]
        if pointed == words or form_of([*filter(None, words)], asked):
            return words
        if not form_of([*filter(None, pointed)], asked) or "," in self.proven:
            return words
        message = "%s: commas in the column %s are read as separators of thousands"
        logger.warning(message, self.columns.called, self.layout.names[place])
        bare = [word and word.replace(MINUS, "-").replace(",", "") for word in words]
        return bare if all(map(number(".").fullmatch, filter(None, bare))) else pointed

    def as_in_training(self, words: Words, place: int, form: str) -> Words:
        """Return numbers of a form (numerals.py), with the decimal mark of the training rows.

        Their own mark is another one if that is given, if they can only be read with it, or if it
        is a comma in other columns. Points that separated thousands in training still do.
        """
        mark = next((mark for mark in ".," if f"#{mark}#" in form), None)
        if mark is None or self.columns.decimal == mark:
            return words
        found, other, name = [*filter(None, words)], OTHER[mark], self.layout.names[place]
        is_known = self.columns.decimal is not None or self._are_proven(found, other)
        may_be = not is_known and other in self.proven and any(other in word for word in found)
        if may_be:
            message = "%s: %s in the column %s %s; if not, give %s"
            what = NAMES[other], shlex.quote(name), MEANINGS[other]
            logger.warning(message, self.columns.called, *what, "`decimal` '.'")
        elif not is_known:
            self._warn_of_decimal_commas(found, mark, shlex.quote(name))
        is_other = is_known or (may_be and other == ",")
        return [word and swapped(word) for word in words] if is_other else words

    def _are_proven(self, words: Sequence[str], mark: str) -> bool:
        """Return whether numbers can only be read with this decimal mark."""
        marked = [word for word in words if mark in word]
        pointed = map(swapped, marked) if mark == "," else marked
        return any(map(POINT.fullmatch, pointed)) or f"#{mark}#" in form_of(marked, asked=True)

    def _warn_of_decimal_commas(self, words: Sequence[str], mark: str, name: str) -> None:
        """Warn of commas that are read as decimal, as in training, but may separate thousands."""
        marked = [word for word in words if mark in word]
        may_be = mark == "," and (self.layout.delimiter == "," or "." in self.proven)
        if may_be and len(marked) > 1 and all(map(THOUSANDS.search, marked)):
            message = "%s: commas in the column %s are decimal, as in training; if not, remove them"
            logger.warning(message, self.columns.called, name)

    def with_points(self, words: Words, kind: str) -> Words:
        """Return numbers with points in place of decimal commas, unless the column has a form."""
        if self.layout.decimal != ",":
            return words
        if kind in MAY_BE_NUMBERS and form_of([*filter(None, words)], asked=kind in NUMBERS):
            return words
        return [word and DECIMAL_COMMA.sub(r"\1.\2", word) for word in words]
