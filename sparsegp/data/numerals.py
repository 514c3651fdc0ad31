"""Numbers as people write them: $1,234.50, 77.1 % or 57 kg."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sparsegp.data.frames import is_number

MINUS = "\N{MINUS SIGN}"
"""Minus sign of typography, which numbers may have."""

NUMERAL = re.compile(
    r"(?P<open>\()?(?P<sign>[+-]?)"
    r"(?P<before>[A-Z]{0,3}[$€£¥₹]|(?:USD|EUR|GBP|CHF|CAD|AUD|INR|Rs\.?)(?= ?\d))? ?(?P<inner>-?)"
    r"(?P<whole>[1-9]\d{0,2}(?:(?P<mark>[,' ])\d{3})(?:(?P=mark)\d{3})*|\d*)(?P<part>\.\d*)?"
    r" ?(?P<after>(?:[^\W\d_]|[%‰°µ$€£¥₹])[^\d,()+-]{0,11})?(?P<close>\))?",
    re.ASCII,
)
DECIMAL_COMMA, MARK = re.compile(r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$"), re.compile(r"[.,](?=\d)")
MONEY = re.compile("[$€£¥₹]|[A-Z]{3}#|Rs")
SEVERAL = 5
"""Number of small whole numbers beside which a comma before three digits separates thousands."""


@dataclass(frozen=True)
class Numeral:
    """A number in words, whose decimal mark is a point.

    Attributes
    ----------
    value : float
    style : str
        What stands before and after it, as in "$#" and "#kg"; a plural as its singular.
    whole, part : str
        What stands before the point, with marks between thousands; the point and what follows.
    is_enclosed : bool
        Whether it is negative as it stands in parentheses.
    """

    value: float
    style: str
    whole: str
    part: str
    is_enclosed: bool

    @classmethod
    def of(cls, word: str) -> Self | None:
        """Read a word; return None if it is no number."""
        found = NUMERAL.fullmatch(word.replace(MINUS, "-"))
        if found is None or bool(found["open"]) != bool(found["close"]):
            return None
        whole, part, is_enclosed = found["whole"], found["part"] or "", bool(found["open"])
        signs = found["sign"] + found["inner"] + "-" * is_enclosed
        if len(signs) > 1 or not (whole or part.strip(".")):
            return None
        value = float(re.sub(r"\D", "", whole) + part)
        after = (found["after"] or "").strip()
        after = after.removesuffix("s") if len(after) > 2 else after
        style = f"{(found['before'] or '').strip()}#{after}"
        return cls(-value if "-" in signs else value, style, whole, part, is_enclosed)

    @property
    def is_small(self) -> bool:
        """Whether it is a whole number of at most three digits."""
        return not self.part and len(self.whole) <= 3


def style_of(words: Sequence[str]) -> str:
    """Return the style of numbers in words, see `Numeral`; "" if they are all plain numbers.

    So it is if a word is no number, or of another style (a zero may be bare), if a comma may be a
    decimal mark or a point not, or if all stand in parentheses, which may mean anything.
    """
    numerals, styles = list[Numeral](), set[str]()
    for word in words:
        numeral = Numeral.of(word)
        if numeral is None or len(styles) > 1:
            return ""
        numerals.append(numeral)
        styles |= {numeral.style} if word.strip("0") else set()
    are_plain = all(map(is_number, words))
    if len(styles) != 1 or are_plain or all(each.is_enclosed for each in numerals):
        return ""
    (style,) = styles
    is_clear = MONEY.search(style) or not _may_have_decimal_commas(numerals)
    return style if is_clear and not _may_have_grouping_points(numerals) else ""


def _may_have_decimal_commas(numerals: Sequence[Numeral]) -> bool:
    """Return whether three digits follow every comma, without what shows that it is no decimal."""
    grouped = [each for each in numerals if "," in each.whole]
    if not grouped or any(each.part or each.whole.count(",") > 1 for each in grouped):
        return False
    others = [each for each in numerals if "," not in each.whole]
    return len(others) < SEVERAL or not all(each.is_small for each in others)


def _may_have_grouping_points(numerals: Sequence[Numeral]) -> bool:
    """Return whether three digits follow every point, beside small numbers without one."""
    pointed = [f"{each.whole}{each.part}" for each in numerals if each.part]
    others = [each for each in numerals if not each.part and each.value]
    are_alike = all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", each) for each in pointed)
    return bool(pointed and others and are_alike and all(each.is_small for each in others))


def value_of(word: str, style: str) -> float:
    """Return the value of a number in a style, or of a bare one; NaN if the word is none."""
    numeral = Numeral.of(word)
    return math.nan if numeral is None or numeral.style not in {style, "#"} else numeral.value


def swapped(word: str) -> str:
    """Return a word with commas in place of points before digits, and the other way round."""
    return MARK.sub(lambda mark: "," if mark[0] == "." else ".", word)


def with_points(words: Sequence[str | None]) -> list[str | None]:
    """Return words in which numbers with a decimal comma have a point instead, as in `Numeral`.

    Points between thousands become commas, unless there are plain numbers with a point, which may
    be either. Numbers that do not have the marks of the others become unreadable.
    """
    has_points = any(word and "." in word and is_number(word) for word in words)

    def convert(word: str | None) -> str | None:
        if not word or is_number(word):
            return word
        plain = DECIMAL_COMMA.sub(r"\1.\2", word)
        other = swapped(word)
        is_other = Numeral.of(word) or (Numeral.of(other) and not has_points)
        return other if plain == word and is_other else plain

    return [*map(convert, words)]
