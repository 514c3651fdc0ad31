"""Numbers as people write them: $1,234.50, 77,1 % or 57 kg.

A column of them has a form: what stands before and after each number, and the decimal mark, as in
"$#.#", "#,# %" and, without a mark, "#kg". Not only the units below count: one or two words after
every number of a column are a unit, too, if some numbers have decimals or there are many different
ones. Otherwise, or with leading zeros, they may be codes, such as 4WD or 012A.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sparsegp.data.frames import is_number

MINUS = "\N{MINUS SIGN}"
"""Typographic minus sign, which numbers may have."""

MONEY = r"[A-Z]{0,3}[$€£¥₹]|(?:USD|EUR|GBP|CHF|CAD|AUD|INR|Rs\.?)(?= ?\d)"
UNITS = (
    r"[%‰$€£¥₹]|USD|EUR|GBP|CHF|CAD|AUD|INR|°[CF]?|[kcmdnµμ]?[gml]|km/h|mph|m?s|[kMG]?Hz|k?Wh|kW|"
    r"m[AV]|[kMGT]B|lbs?|oz|ft|in|mi|yd|c?m[²³]|min|h|(?:hr|hour|day|week|month|yr|year)s?"
)
WORD = r"(?u:[^\W\d_])[^\s,;:()<>+#]{0,15}"
ANY_UNIT = rf"(?![eE][+-]?\d|[xX]\d|[aApP]\.?[mM]\b){WORD}(?: {WORD})?"
NUMERAL = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-]?)(?P<before>{MONEY})? ?(?P<inner>-?)"
    r"(?P<whole>[1-9]\d{0,2}(?:(?P<mark>[,' ])\d{3})(?:(?P=mark)\d{3})*|\d*)(?P<part>\.\d*)?"
    rf" ?(?P<after>{UNITS}|{ANY_UNIT})?(?P<close>\))?",
    re.ASCII,
)
OTHERS = f"{MINUS}\xa0\N{NARROW NO-BREAK SPACE}\N{RIGHT SINGLE QUOTATION MARK}"
PLURAL = re.compile(r"(lb|hr|yr|pc|(?=[^aeiou]*[aeiou])[A-Z]?[a-z]{2,})s")
"""Plurals of units, which are the same units; `ms`, `As` and `kbps` are no plurals."""
PLAIN, SWAPPED = str.maketrans(OTHERS, "-  '"), str.maketrans(".,", ",.")
MARKS = re.compile(r"\d[\d.,]*|[.,]\d+")
"""Digits with marks, but not the point of a unit such as "kr." after them."""
ENGLISH = re.compile(r"[$£₹]|USD|GBP|CAD|AUD|INR|Rs")
"""Currencies beside which a comma separates thousands."""
SEVERAL, MANY = 5, 20
"""Number of small whole numbers beside which a comma before three digits does so, too; number of
different whole numbers up to which a word after them may mean that they are codes."""


@dataclass(frozen=True)
class Numeral:
    """A number in words."""

    value: float
    style: tuple[str, str]  # what stands before and after it; a plural as its singular
    whole: str  # what stands before the decimal mark, with marks between thousands
    part: str  # a point, and the digits after it
    is_enclosed: bool  # whether it is in parentheses, and so negative

    @classmethod
    def of(cls, word: str, decimal: str) -> Self | None:
        """Read a word, given the decimal mark; return None if it is not a number."""
        word = " ".join(word.translate(PLAIN).split())
        found = NUMERAL.fullmatch(word if decimal == "." else swapped(word))
        if found is None or bool(found["open"]) != bool(found["close"]):
            return None
        whole, part, is_enclosed = found["whole"], found["part"] or "", bool(found["open"])
        signs = found["sign"] + found["inner"] + "-" * is_enclosed
        if len(signs) > 1 or not (whole or part.strip(".")):
            return None
        value = float(re.sub(r"\D", "", whole) + part)
        after = PLURAL.fullmatch(found["after"] or "")
        style = (found["before"] or "").strip(), after[1] if after else found["after"] or ""
        return cls(-value if "-" in signs else value, style, whole, part, is_enclosed)

    @property
    def is_marked(self) -> bool:
        """Whether it has a decimal mark or commas (or points) between thousands."""
        return bool(self.part) or "," in self.whole


def swapped(word: str) -> str:
    """Return a word whose numbers have points in place of commas, and the reverse."""
    return MARKS.sub(lambda digits: digits[0].translate(SWAPPED), word)


def is_numeral(word: str) -> bool:
    """Return whether a word is a number, perhaps with a currency or unit."""
    return any(Numeral.of(word, mark) for mark in ".,")


def form_of(words: Sequence[str], asked: bool = False) -> str:
    """Return the form of numbers in words; "" if they have none, or are all plain numbers.

    They have none if a word is not a number, or has another currency or unit than the rest (a zero
    may have neither), or if marks may be decimal or separate thousands.

    Parameters
    ----------
    words : sequence of str
        Distinct ones.
    asked : bool
        Whether they are known to be numbers, and not codes.
    """
    if all(map(is_number, words)):
        return ""
    found = {mark: read for mark in ".," if (read := _read(words, mark))}
    if not found:
        return ""
    (decimal, numerals), *_ = found.items()
    ((before, after),) = {each.style for each in numerals if each.value or any(each.style)}
    if not (asked or not after or re.fullmatch(UNITS, after) or _are_measures(numerals)):
        return ""
    marked = [each for each in numerals if each.is_marked]
    others = [each for each in numerals if not each.is_marked]
    if len(found) == 1 or not marked:
        decimal = decimal if marked else ""
    elif any(each.part for each in marked) or not (
        ENGLISH.search(before + after)
        or (len(others) >= SEVERAL and all(len(each.whole) <= 3 for each in others))
    ):
        return ""
    is_odd = all(each.is_enclosed for each in numerals) or not (before or after or marked)
    if is_odd and any(each.is_enclosed or " " in each.whole for each in numerals):
        return ""  # footnotes, telephone numbers
    return f"{before}#{decimal}#{after}" if decimal else f"{before}#{after}"


def _are_measures(numerals: Sequence[Numeral]) -> bool:
    """Return whether numbers before a word are measures in this unit; see the module docstring."""
    are_codes = any(each.whole.startswith("0") and each.whole != "0" for each in numerals)
    has_parts = any(each.part for each in numerals)
    return not are_codes and (has_parts or len({each.value for each in numerals}) > MANY)


def _read(words: Sequence[str], decimal: str) -> list[Numeral]:
    """Return all words as numbers with the same currency or unit; none if that is impossible."""
    numerals, styles = list[Numeral](), set[tuple[str, str]]()
    for word in words:
        numeral = Numeral.of(word, decimal)
        if numeral and (numeral.value or any(numeral.style)):
            styles.add(numeral.style)
        if numeral is None or len(styles) > 1:
            return []
        numerals.append(numeral)
    return numerals if styles else []


def value_of(word: str, form: str) -> float:
    """Return the number in a word, of a form or bare; NaN if it is no number, or ambiguous."""
    before, _, rest = form.partition("#")
    decimal, after = (rest[0], rest[2:]) if rest[1:2] == "#" else ("", rest)
    read = [Numeral.of(word, mark) for mark in decimal or ".,"]
    found = {each.value for each in read if each and each.style in {(before, after), ("", "")}}
    if is_number(word) and (before or after or not (decimal and found)):
        found.add(float(word))  # without the unit of the others it may be a plain number
    return found.pop() if len(found) == 1 else math.nan
