"""Comma-separated lists in one text; items that contain commas are in double quotes."""

import csv
from collections.abc import Sequence


def words_in(text: str) -> list[str]:
    """Split a text such as ``a,"b, c",d`` into its items."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])]


def quote_if_needed(word: str) -> str:
    """Quote an item if necessary."""
    if "," not in word and not word.startswith('"'):
        return word
    return '"' + word.replace('"', '""') + '"'


def join_first(texts: Sequence[str], most: int) -> str:
    """Join the first `most` texts by commas, and add the number of those left out."""
    rest = len(texts) - most
    return ", ".join([*texts[:most], *([f"... ({rest} more)"] if rest > 0 else [])])
