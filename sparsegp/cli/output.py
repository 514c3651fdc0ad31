"""Words and JSON for standard output."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
LEAST_WIDTH = 12
"""Of the names before values."""


def print_json(record: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    click.echo(json.dumps(record, allow_nan=False))


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, a line each, the values in one column."""
    pairs = list(pairs)
    width = max(LEAST_WIDTH, *(len(name) for name, _ in pairs))
    for name, value in pairs:
        click.echo(f"{name:<{width}}  {value}".rstrip())


def size(count: float) -> str:
    """Return a number of bytes in words."""
    power = 0
    while count >= 999.5 and power < len(UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.3g} {UNITS[power]}" if count < 100 else f"{count:.0f} {UNITS[power]}"


def percent(share: float) -> str:
    """Return a share of one in percent."""
    return f"{100 * share:.2f} %"


def plural(count: int, noun: str) -> str:
    """Return "1 row" or "5 rows"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def listed(values: Iterable[Any], most: int = 12) -> str:
    """Return values in a line, and how many were left out."""
    texts = [str(value) for value in values]
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f", ... ({rest} more)" if rest > 0 else "")
