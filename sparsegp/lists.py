"""Words in one text, with commas between them; one that has a comma itself is in double quotes."""

import csv
from collections.abc import Sequence


def words_in(text: str) -> list[str]:
    """Return the words of a text such as ``a,"b, c",d``."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])]


def in_quotes(word: str) -> str:
    """Return a word as a list holds it."""
    if "," not in word and not word.startswith('"'):
        return word
    return '"' + word.replace('"', '""') + '"'


def first_of(texts: Sequence[str], most: int) -> str:
    """Return the first of some texts with commas between them, and how many were left out."""
    rest = len(texts) - most
    return ", ".join([*texts[:most], *([f"... ({rest} more)"] if rest > 0 else [])])
