"""Words and JSON for standard output."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

LEAST_WIDTH = 12
"""Of the names before values."""


def visible(text: str) -> str:
    """Return text with escapes in place of what could steer a terminal; lines stay."""
    return "".join(
        mark if mark.isprintable() or mark == "\n" else mark.encode("unicode_escape").decode()
        for mark in text
    )


def show(lines: Iterable[str], err: bool = False) -> None:
    """Write lines to standard output, or to standard error, all at a time."""
    click.echo(visible("\n".join(lines)), err=err)


def json_line(record: Mapping[str, Any]) -> str:
    """Return one object on one line."""
    return json.dumps(record, allow_nan=False)


def pairs(named: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of names and values, the values in one column."""
    named = list(named)
    width = max(LEAST_WIDTH, *(len(name) for name, _ in named))
    return [f"{name:<{width}}  {value}".rstrip() for name, value in named]


def size(count: float) -> str:
    """Return a number of bytes in words."""
    units = iter(("bytes", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while count >= 999.5 and (larger := next(units, "")):
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}" if count < 100 else f"{count:.0f} {unit}"


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


def seconds_of(stages: Mapping[str, float]) -> str:
    """Return the seconds of stages in words."""
    return ", ".join(f"{name} {value:.1f} s" for name, value in stages.items())
