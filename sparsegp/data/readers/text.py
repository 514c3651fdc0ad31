"""Reader of delimited text, with or without a header, plain or .gz; it is read into memory.

The C parser of numpy reads the whole file at once. Only when it stumbles, the file is read again
line by line, slowly, to say where the fault is.
"""

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from sparsegp.data.labels import labels_from_text
from sparsegp.data.readers.base import Request, reader
from sparsegp.data.readers.columns import label_index
from sparsegp.data.storage import reading
from sparsegp.data.table import Dataset, table_from_arrays
from sparsegp.errors import DataError
from sparsegp.types import Doubles

ENCODING = "utf-8-sig"
SNIFFED_LINES = 20


@dataclass(frozen=True)
class Layout:
    """How the text is laid out.

    Parameters
    ----------
    delimiter : str or None
        None for white space.
    width : int
        Fields of a line.
    names : tuple of str, or None
        The header.
    skip : int
        Lines before the first row.
    label : int or None
        Which field is the label.
    """

    delimiter: str | None
    width: int
    names: tuple[str, ...] | None
    skip: int
    label: int | None

    def field(self, place: int) -> str:
        """Say which field, counted from 1, with its name if there is one."""
        named = f" ({self.names[place][:40]!r})" if self.names else ""
        return f"field {place + 1}{named}"


@dataclass
class LabelCodes:
    """Collects the texts of labels; the parser sees their codes.

    Calling it with a text returns its code, or raises ValueError for an empty text.
    """

    codes: dict[str, float]

    def __call__(self, text: str) -> float:
        """Return the code of a label."""
        text = text.strip().strip('"')
        if not text:
            raise ValueError("empty label")
        return self.codes.setdefault(text, float(len(self.codes)))


@reader(".csv", ".data", ".txt", ".tsv", columns=True)
def read_text(name: str, request: Request) -> Dataset:
    """Read rows of numbers with a label.

    The delimiter is one of `;`, tab, `,`, else white space. The first line is a header when it
    has a field that is no number, apart from the label. Labels that are all whole numbers become
    integers, other labels are kept as strings.

    Raises
    ------
    DataError
        If the file is empty or damaged, has lines of different lengths, has something that is no
        number or nothing at all where a number should be, or lacks the label column.
    """
    with reading(name):
        layout = inspect(name, request)
        labels = LabelCodes({})
        try:
            values = _parse_fast(name, layout, labels)
        except ValueError:
            labels = LabelCodes({})
            values = _parse_with_care(name, layout, labels)
    if layout.label is None:
        return Dataset(table_from_arrays(values, None, name))
    y = labels_from_text(list(labels.codes))[values[:, layout.label].astype(np.int64)]
    return Dataset(table_from_arrays(np.delete(values, layout.label, axis=1), y, name))


def inspect(name: str, request: Request) -> Layout:
    """Tell the layout from the first lines.

    Raises
    ------
    DataError
        If there are no rows, or no such label column.
    """
    with _open_text(name) as file:
        lines = [
            (number, line)
            for number, line in enumerate(islice(file, 100 * SNIFFED_LINES), start=1)
            if line.strip()
        ][:SNIFFED_LINES]
    if not lines:
        raise DataError(f"{name} is empty")
    delimiter = sniff([line for _, line in lines])
    number, first = lines[0]
    fields = _split(first, delimiter)
    names = tuple(fields) if _is_header(fields, request, name) else None
    label = label_index(request, len(fields), names, name)
    if names is not None and len(lines) == 1:
        raise DataError(f"{name} has no rows under its header, {first.strip()[:60]!r}")
    return Layout(delimiter, len(fields), names, number if names else number - 1, label)


def _is_header(fields: list[str], request: Request, name: str) -> bool:
    """Tell whether the first line names the columns: a field, not the label, is no number."""
    wanted = request.label_column
    if isinstance(wanted, str) and not re.fullmatch(r"-?\d+", wanted):
        return wanted in fields or not all(map(is_number, fields))
    by_number = replace(request, label_column=None if wanted is None else int(wanted))
    shown = None if all(map(is_number, fields)) else fields
    label = label_index(by_number, len(fields), shown, name)
    return not all(is_number(field) for place, field in enumerate(fields) if place != label)


def sniff(lines: list[str]) -> str | None:
    """Return the delimiter that occurs in every line, None for white space."""
    for delimiter in (";", "\t", ","):
        if all(delimiter in line for line in lines):
            return delimiter
    return next((mark for mark in (";", "\t", ",") if mark in lines[0]), None)


def is_number(text: str) -> bool:
    """Tell whether the text reads as a number (NaN and infinity are numbers here)."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _parse_fast(name: str, layout: Layout, labels: LabelCodes) -> Doubles:
    """Parse all fields, (n, width); the label column holds codes.

    Raises
    ------
    ValueError
        If anything is wrong, without saying where.
    """
    converters: Any = None if layout.label is None else {layout.label: labels}
    values: Doubles = np.loadtxt(
        name,
        delimiter=layout.delimiter,
        skiprows=layout.skip,
        comments=None,
        quotechar='"',
        ndmin=2,
        converters=converters,
        encoding=ENCODING,
    )
    if values.shape[1] != layout.width:
        raise ValueError
    return values


def _parse_with_care(name: str, layout: Layout, labels: LabelCodes) -> Doubles:
    """Parse the same line by line, and say where it fails."""
    rows = []
    for number, fields in _lines(name, layout):
        where = f"{name}, line {number}"
        if len(fields) != layout.width:
            raise DataError(
                f"{where} has {len(fields)} fields; {layout.width} are expected, "
                f"as in the first line"
            )
        rows.append(
            [_value(place, text, layout, labels, where) for place, text in enumerate(fields)]
        )
    return np.array(rows)


def _value(place: int, text: str, layout: Layout, labels: LabelCodes, where: str) -> float:
    if not text:
        raise DataError(f"{where}: {layout.field(place)} is empty; every field needs a value")
    if place == layout.label:
        return labels(text)
    if not is_number(text):
        raise DataError(
            f"{where}: {layout.field(place)} is {text[:40]!r}, where a number is expected"
        )
    return float(text)


def _lines(name: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    with _open_text(name) as file:
        for number, line in enumerate(file, start=1):
            if number > layout.skip and line.strip():
                yield number, _split(line, layout.delimiter)


def _split(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return [field.strip('"') for field in line.split()]
    row = csv.reader([line.rstrip("\r\n")], delimiter=delimiter, skipinitialspace=True)
    try:
        fields = next(row)
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return [field.strip() for field in fields]


def _open_text(name: str) -> IO[str]:
    if name.lower().endswith(".gz"):
        return gzip.open(name, "rt", encoding=ENCODING)
    return Path(name).open(encoding=ENCODING)
