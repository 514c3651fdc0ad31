"""Text and JSON for standard output."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import click

from sparsegp.errors import masked, visible
from sparsegp.lists import join_first, quote_if_needed

if TYPE_CHECKING:
    from sparsegp.report import TerminalProgress

MIN_WIDTH = 12
"""Minimum width of the names before values."""
WIDTH = 64
"""Characters for a list after its name, on a terminal 80 characters wide."""


def show(lines: Iterable[str], err: bool = False) -> None:
    """Write lines to standard output, or to standard error, at once, with credentials masked.

    A log that cannot be written does not end the work: its OSError is ignored.
    """
    with suppress(OSError) if err else nullcontext():
        click.echo("\n".join(visible(masked(line)) for line in lines), err=err)


@contextmanager
def working(sources: str, quiet: bool) -> "Iterator[TerminalProgress]":
    """Print what is read, before slow imports, and yield a progress display."""
    if not quiet:
        show([f"reading {sources}"], err=True)
    from sparsegp.report import TerminalProgress

    with TerminalProgress(quiet=quiet) as progress:
        yield progress
        progress.begin("")


def on_terminal(wanted: bool) -> "TerminalProgress":
    """Return a progress display that is quiet unless it is wanted and there is a terminal."""
    from sparsegp.report import TerminalProgress

    return TerminalProgress(quiet=not (wanted and sys.stderr is not None and sys.stderr.isatty()))


def json_line(record: Mapping[str, Any]) -> str:
    """Return a record as JSON on one line, in characters that a terminal can show."""
    return json.dumps(record, allow_nan=False).replace("\x7f", "\\u007f")


def pairs(named: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> list[str]:
    """Return lines of names and aligned values, leaving out names without a value."""
    found = {name: value for name, value in dict(named).items() if value}
    width = max(MIN_WIDTH, *map(len, found))
    return [f"{name:<{width}}  {value}" for name, value in found.items()]


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table with column names; text is aligned left, numbers right."""
    rows = list(rows)
    if not (names and rows):
        return []
    columns = []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        cells = [name, *(f"{v:.5g}" if isinstance(v, float) else str(v) for v in values)]
        align = str.ljust if all(isinstance(v, str) for v in values) else str.rjust
        columns.append([align(cell, max(map(len, cells))) for cell in cells])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def records_table(records: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """Return a table of records, leaving out columns without any value."""
    known = [name for name in names if any(record.get(name) is not None for record in records)]
    cells = ([record.get(name) for name in known] for record in records)
    return table(known, (["" if cell is None else cell for cell in row] for row in cells))


def percent(share: float) -> str:
    """Return a fraction in percent."""
    return f"{100 * share:.2f} %"


def listed(values: Iterable[Any]) -> str:
    """Return values on one line of about `WIDTH` characters, and the number of those left out."""
    texts = [quote_if_needed(str(value)) for value in values]
    if len(line := ", ".join(texts)) <= WIDTH:
        return line
    ends = accumulate(len(text) + 2 for text in texts)
    most = max(sum(end <= WIDTH - len(", ... (1000 more)") for end in ends), 1)
    return join_first(texts, most)


def seconds_of(stages: Mapping[str, float]) -> str:
    """Return the seconds of stages, in words."""
    return ", ".join(f"{name} {value:.1f} s" for name, value in stages.items())
