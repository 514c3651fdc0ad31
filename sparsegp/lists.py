"""Words in one text, with commas between them; one that has a comma itself is in double quotes."""

import csv
from collections.abc import Iterable


def words_in(text: str) -> list[str]:
    """Return the words of a text such as ``a,"b, c",d``."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])]


def in_quotes(word: str) -> str:
    """Return a word as a list holds it."""
    if "," not in word and not word.startswith('"'):
        return word
    return '"' + word.replace('"', '""') + '"'


def as_text(words: Iterable[str]) -> str:
    """Return the text that `words_in` reads as these words."""
    return ",".join(map(in_quotes, words))
