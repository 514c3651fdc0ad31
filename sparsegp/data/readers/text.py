"""Reader of delimited text, with or without a header, plain or .gz; it is read into memory.

numpy parses it in chunks, and takes one line after the other. So the line that it took last is the
one at fault, if any, and is looked through field by field.
"""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from sparsegp.data.blocks import BLOCK_VALUES, from_memory
from sparsegp.data.labels import LONGEST, labels_from_text
from sparsegp.data.readers.base import LabelColumn, label_place, reader
from sparsegp.data.storage import Lines, opened, require_memory
from sparsegp.data.table import Dataset, Table, column_names
from sparsegp.errors import DataError
from sparsegp.types import Doubles

SNIFFED_LINES = 20

DELIMITERS = (";", "\t", ",")


class Layout(NamedTuple):
    """How the text is laid out: delimiter (None for white space), fields, header, label field."""

    delimiter: str | None
    width: int
    names: list[str] | None
    label: int | None


@reader(".csv", ".data", ".txt", ".tsv", columns=True)
def read_text(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read rows of numbers with a label.

    The delimiter is one of `;`, tab, `,`, else white space. The first line is a header when it
    has a field that is no number, apart from the label. Labels that are all whole numbers become
    integers, other labels are kept as strings.
    """
    import dask.array as da  # noqa: PLC0415 - slow to import

    layout = _layout(name, label_column, n_features)
    names, label, y = layout.names, layout.label, None
    codes, places, chunks = dict[str, float](), [], []
    for chunk in _chunks(name, layout, codes):
        if label is None:
            chunks.append(chunk)
        else:
            chunks.append(np.delete(chunk, label, axis=1))
            places.append(chunk[:, label].astype(np.int64))
        require_memory(sum(each.nbytes for each in chunks), name)
    if not chunks:
        raise DataError(f"{name} has no rows under its header, {names}")
    if label is not None:
        y = labels_from_text(list(codes), name)[np.concatenate(places)]
        names = names and names[:label] + names[label + 1 :]
    X: da.Array = da.concatenate([from_memory(chunk, name) for chunk in chunks])  # type: ignore[no-untyped-call]
    return Dataset(Table(X, y, name, names=column_names(names or ())))


def is_number(text: str) -> bool:
    """Tell whether the text reads as a number (NaN and infinity are numbers here)."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _layout(name: str, label_column: LabelColumn, n_features: int | None) -> Layout:
    """Tell the layout from the first lines."""
    with _lines(name) as lines:
        start = list(islice(lines, SNIFFED_LINES))
        if not start:
            raise DataError(f"{name} is empty")
        common = [mark for mark in DELIMITERS if all(mark in line for line in start)]
        delimiter = next(iter(common or [mark for mark in DELIMITERS if mark in start[0]]), None)
        fields = _split(start[0], delimiter)
    names = fields if _is_header(fields, label_column, n_features, name) else None
    label = label_place(label_column, n_features, len(fields), names, name)
    return Layout(delimiter, len(fields), names, label)


def _is_header(
    fields: list[str], label_column: LabelColumn, n_features: int | None, name: str
) -> bool:
    """Tell whether the first line names the columns: a field, not the label, is no number.

    A row with a fault must not be taken for a header: one has names for most columns.
    """
    numeric = list(map(is_number, fields))
    if isinstance(label_column, str):
        if not re.fullmatch(r"-?\d+", label_column):
            return label_column in fields or not all(numeric)
        label_column = int(label_column)
    shown = None if all(numeric) else fields
    label = label_place(label_column, n_features, len(fields), shown, name)
    inputs = [place for place in range(len(fields)) if place != label]
    strange = [place for place in inputs if not numeric[place]]
    if 0 < 2 * len(strange) <= len(inputs) or (strange and label is not None and numeric[label]):
        raise DataError(
            f"the first line of {name} is neither a header nor a row: {_field(strange[0], None)} "
            f"is {fields[strange[0]][:40]!r}, and there are numbers in it; mend the field, or name "
            f"all columns (and the label column by --label-column, if names are numbers)"
        )
    return bool(strange)


def _chunks(name: str, layout: Layout, codes: dict[str, float]) -> Iterator[Doubles]:
    """Parse all fields, (rows, width) at a time; of labels, `codes` gets the texts."""

    def code(text: str) -> float:
        text = text.strip().strip('"')
        if not 0 < len(text) <= LONGEST:
            raise ValueError
        return codes.setdefault(text, float(len(codes)))

    with _lines(name) as lines:
        if layout.names is not None:
            next(lines)
        for first in lines:
            try:
                if len(_split(first, layout.delimiter)) != layout.width:
                    raise ValueError
                yield np.loadtxt(
                    chain([first], lines),
                    delimiter=layout.delimiter,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                    converters=None if layout.label is None else {layout.label: code},
                    encoding="utf-8",
                    max_rows=max(1, BLOCK_VALUES // layout.width),
                )
            except DataError:
                raise
            except ValueError as error:
                fault = _fault(lines.last, layout, error)
                raise DataError(f"{name}, line {lines.number}{fault}") from None


def _fault(line: str, layout: Layout, error: Exception) -> str:
    """Say what is wrong with a line."""
    fields = _split(line, layout.delimiter)
    if len(fields) != layout.width:
        return f" has {len(fields)} fields; {layout.width} are expected, as in the first line"
    for place, text in enumerate(fields):
        if not text:
            return f": {_field(place, layout.names)} is empty; every field needs a value"
        if place == layout.label and len(text) > LONGEST:
            return f": {_field(place, layout.names)} has {len(text)} characters, and is a label"
        if place != layout.label and not is_number(text):
            return f": {_field(place, layout.names)} is {text[:40]!r}, where a number is expected"
    return f" cannot be read: {error}"


def _field(place: int, names: list[str] | None) -> str:
    """Say which field, counted from 1, with its name if there is one."""
    return f"field {place + 1}" + (f" ({names[place][:40]!r})" if names else "")


def _split(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return [field.strip('"') for field in line.split()]
    row = csv.reader([line.rstrip("\r\n")], delimiter=delimiter, skipinitialspace=True)
    return [field.strip() for field in next(row)]


@contextmanager
def _lines(name: str) -> Iterator[Lines]:
    with opened(name) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig") as file:
        yield Lines(file, name)
