"""Comma-separated lists, with double quotes around items that contain commas; plurals."""

import csv
from collections.abc import Sequence

from sparsegp.errors import SettingsError, quoted


def words_in(text: str) -> list[str]:
    """Split a text such as ``a,"b, c",d`` into its items.

    Raises
    ------
    SettingsError
        If a quote is not closed, or there is a line break outside quotes.
    """
    try:
        words, _ = csv.reader([text, ""], skipinitialspace=True)  # an unclosed quote joins the two
    except (csv.Error, ValueError):
        raise SettingsError(
            "a list must be on one line, with commas between its items, and double quotes around "
            f"items with a comma, got {quoted(text)}"
        ) from None
    return [word.strip() for word in words]


def pairs_in(text: str) -> dict[str, str]:
    """Split a text such as `a=1,b=2` into its pairs.

    Raises
    ------
    SettingsError
        As for `words_in`, or if a name occurs twice.
    """
    found = dict[str, str]()
    for word in words_in(text):
        name, _, value = (part.strip() for part in word.rpartition("="))
        if name and name in found:
            raise SettingsError(f"each name may be given once, got {quoted(name)} twice in {text}")
        found[name] = value
    return found


def quote_if_needed(word: str) -> str:
    """Return a list item, in double quotes if it needs them."""
    if "," not in word and not word.startswith('"'):
        return word
    return '"' + word.replace('"', '""') + '"'


def join_first(texts: Sequence[str], most: int) -> str:
    """Join the first `most` texts with commas, and add the number of those left out."""
    rest = len(texts) - most
    return ", ".join([*texts[:most], *([f"... ({rest} more)"] if rest > 0 else [])])


def plural(count: int, noun: str) -> str:
    """Return "1 row" or "5 rows"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"
