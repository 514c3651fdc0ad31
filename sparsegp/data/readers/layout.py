"""How a text is laid out: encoding, delimiter, decimal mark and header, from its first rows."""

import codecs
import csv
import io
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TextIO

from sparsegp.data.frames import column_names, listed, require_distinct
from sparsegp.data.readers.columns import Columns
from sparsegp.data.readers.words import MISSING, as_number, looks_like
from sparsegp.data.storage import opened
from sparsegp.errors import DataError, quoted

HEAD, SNIFFED, COMPARED = 1 << 20, 20, 1000
"""Characters that are looked at; rows of them for the delimiter, and for the rest."""

DELIMITERS, SPACE = ";\t,|", " "
SPELT = {"\\t": "\t", "tab": "\t", "space": SPACE}
"""Delimiters that are found, in the order of preference before white space, and their names."""

logger = logging.getLogger(__name__)

MARKED = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
UTF_8, LAST_RESORT = "utf-8-sig", "latin-1"


class Layout(NamedTuple):
    """How a text is laid out; the names of the columns are in the header, if there is one."""

    encoding: str
    delimiter: str
    decimal: str
    width: int
    header: tuple[str, ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, or their numbers."""
        return self.header or tuple(map(str, range(self.width)))

    @property
    def given(self) -> dict[str, Any]:
        """What is to be given that other rows are read alike."""
        header = self.header is not None
        given = {"delimiter": self.delimiter, "decimal": self.decimal, "header": header}
        return given | ({"encoding": LAST_RESORT} if self.encoding == LAST_RESORT else {})


@contextmanager
def text_of(name: str, encoding: str) -> Iterator[TextIO]:
    """Open the text of a file; a `DataError` if it is none."""
    with opened(name) as binary, io.TextIOWrapper(binary, encoding, newline="") as file:
        try:
            yield file
        except UnicodeError as error:
            raise DataError(
                f"{name} is no text in {encoding} ({getattr(error, 'reason', error)}); give its "
                "`encoding`"
            ) from None


def _encoding(name: str, columns: Columns) -> str:
    """Return the encoding that is given or marked, or UTF-8, or Latin-1 for what is not that."""
    if columns.encoding is not None:
        try:
            found = codecs.lookup(columns.encoding).name
        except (LookupError, ValueError):
            raise DataError(
                f"`encoding` must be known, such as utf-8; got {quoted(columns.encoding)}"
            ) from None
        return UTF_8 if found == "utf-8" else found
    with opened(name) as file:
        start = file.read(2)
        if start in MARKED:
            return MARKED[start]
        pieces = chain([start], iter(partial(file.read, HEAD), b""))
        with suppress(UnicodeError):
            deque(codecs.iterdecode(pieces, UTF_8), maxlen=0)
            return UTF_8
    logger.warning(
        "%s is no text in UTF-8 and is read as Latin-1; give `encoding` if wrong",
        columns.called or name,
    )
    return LAST_RESORT


def layout_of(name: str, columns: Columns) -> Layout:
    """Find how a text is laid out, where it is not given.

    The delimiter is the first of `;`, tab, `,` and `|` that splits the first rows into fields of
    one number, else white space. The decimal mark is a comma where numbers have one, and none a
    point. The first row is a header if its fields are unlike those of the rows below.
    """
    encoding = _encoding(name, columns)
    with text_of(name, encoding) as file:
        head = file.read(HEAD)
        head += "" if head.count("\n") > 1 else file.readline() + file.readline()
        cut = bool(file.read(1))
    if "\0" in head:
        raise DataError(
            f"{name} is no text, as it has NUL characters; if it is of an encoding without a byte "
            "order mark, such as utf-16-le, give `encoding`"
        )
    delimiter = columns.delimiter or _delimiter(head, cut, name)
    delimiter = SPELT.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise DataError(f"`delimiter` must be one character, got {quoted(delimiter)}")
    rows = _head_rows(head, cut, delimiter, name, COMPARED)
    if not rows:
        raise DataError(f"{name} is empty")
    fields, rest = [field.strip() for field in rows[0]], rows[1:]
    decimal = columns.decimal or _decimal(rest, delimiter)
    if decimal not in {".", ","} or decimal == delimiter:
        raise DataError(f"`decimal` must be . or , and not the delimiter; got {quoted(decimal)}")
    header = columns.header
    if header is None:
        header = columns.named_in(fields) or _is_header(
            fields, rest, decimal, columns.called or name
        )
    if header:
        require_distinct(column_names(fields) or (), name)
    return Layout(
        encoding, delimiter, decimal, len(fields), column_names(fields) if header else None
    )


def rows_of(lines: Iterable[str], delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a text that are not blank, each after the number of its last line."""
    if delimiter == SPACE:
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}") from None


def _head_rows(head: str, cut: bool, delimiter: str, name: str, most: int) -> list[list[str]]:
    """Return the first rows, without one that was cut."""
    rows = rows_of(io.StringIO(head, newline=""), delimiter, name)
    found = [row for _, row in islice(rows, most)]
    return found[:-1] if cut and 1 < len(found) < most else found


def _delimiter(head: str, cut: bool, name: str) -> str:
    for mark in DELIMITERS:
        with suppress(DataError):  # fields that are too long, where it is not the delimiter
            widths = {len(row) for row in _head_rows(head, cut, mark, name, SNIFFED)}
            if len(widths) == 1 and widths != {1}:
                return mark
    first = head.lstrip().split("\n", maxsplit=1)[0]
    return next((mark for mark in DELIMITERS if mark in first), SPACE)


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    fields = [field.strip() for row in rows for field in row]
    point, comma = (re.compile(rf"[+-]?\d*{mark}\d+([eE][+-]?\d+)?") for mark in (r"\.", ","))
    found = any(map(comma.fullmatch, fields)) and not any(map(point.fullmatch, fields))
    return "," if found else "."


def _is_header(
    first: Sequence[str], rest: Sequence[Sequence[str]], decimal: str, name: str
) -> bool:
    """Return whether the first row is a header: its fields are unlike those below.

    Raises
    ------
    DataError
        If some fields are unlike those below, and as many are like them.
    """
    alike, unlike, new = list[int](), list[int](), list[int]()
    for place, (field, below) in enumerate(zip(first, zip(*rest, strict=False), strict=False)):
        words = [word for word in map(str.strip, below) if word not in MISSING]
        test = looks_like(words, decimal)
        if field in MISSING or not words:
            continue
        if test is not None or field in words:
            (alike if test is None or test(field) else unlike).append(place)
        elif len(words) >= SNIFFED and 2 * len({*words}) <= len(words):
            new.append(place)  # among words that are repeated
    if not rest:
        return all(as_number(field, decimal) is None for field in first)
    last, inputs = len(first) - 1, range(len(first) - 1)
    if unlike + new == [last] and any(
        [*first[:last]] == [str(place + start) for place in inputs] for start in (0, 1)
    ):
        # numbers of columns, and the name of the labels
        _warn(name, first, "the header")
        return True
    if unlike and len(unlike) <= len(alike):
        raise DataError(
            f"{name}, line 1: {listed([repr(first[place]) for place in unlike])} is unlike what is "
            f"below (column {listed([str(place) for place in unlike])}, counted from 0), and other "
            "fields are not; mend it if it is a value, or say by `header` or `no_header` what it is"
        )
    header = bool(unlike) or not alike
    if header != bool(unlike + new):  # nothing but words that might as well be values
        _warn(name, first, "the header" if header else "values")
    return header


def _warn(name: str, first: Sequence[str], taken: str) -> None:
    logger.warning(
        "%s: line 1 (%s) is taken for %s; if that is wrong, give `header` or `no_header`",
        *(name, listed(first), taken),
    )
