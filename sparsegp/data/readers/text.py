"""Reader of delimited text, with or without a header, plain or .gz; it is read into memory."""

import csv
import io
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import numpy as np

from sparsegp.data.blocks import from_memory
from sparsegp.data.labels import LONGEST, labels_from_text
from sparsegp.data.readers.base import LabelColumn, label_place
from sparsegp.data.storage import Lines, opened, require_memory
from sparsegp.data.table import Dataset, Table, column_names
from sparsegp.errors import DataError

SNIFFED_LINES = 20


class Layout(NamedTuple):
    """How the text is laid out: delimiter (None for white space), fields, header, label field."""

    delimiter: str | None
    width: int
    names: list[str] | None
    label: int | None


def read_text(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read rows of numbers with a label.

    The delimiter is one of `;`, tab, `,`, else white space. The first line is a header when most
    of its fields are no numbers, apart from the label. Labels that are all whole numbers become
    integers, other labels are kept as strings.
    """
    delimiter, width, names, label = layout = _layout(name, label_column, n_features)
    values, places, codes = array("d"), array("q"), dict[str, int]()
    with _lines(name) as lines:
        rows = _rows(lines, delimiter)
        if names is not None:
            next(rows)
        for fields in rows:
            inputs = fields if label is None else fields[:label] + fields[label + 1 :]
            try:
                if len(fields) != width:
                    raise ValueError
                values.extend(_numbers(inputs))
                if label is not None:
                    places.append(codes.setdefault(_label(fields[label]), len(codes)))
            except ValueError:
                raise DataError(f"{name}, line {lines.number}{_fault(fields, layout)}") from None
            require_memory(values.itemsize * (len(values) + len(places)), name)
    if not values:
        raise DataError(f"{name} has no rows under its header, {names}")
    y = None
    if label is not None:
        y = labels_from_text(list(codes), name)[np.frombuffer(places, np.int64)]
        names = names and names[:label] + names[label + 1 :]
    X = np.frombuffer(values).reshape(-1, width - (label is not None))
    return Dataset(Table(from_memory(X, name), y, name, names=column_names(names or ())))


def _layout(name: str, label_column: LabelColumn, n_features: int | None) -> Layout:
    """Return the layout that the first lines have.

    A row with a fault is no header: that has names for most columns, and for the label.
    """
    with _lines(name) as lines:
        start = list(islice(lines, SNIFFED_LINES))
    if not start:
        raise DataError(f"{name} is empty")
    common = [mark for mark in ";\t," if all(mark in line for line in start)]
    delimiter = next(iter(common or [mark for mark in ";\t," if mark in start[0]]), None)
    fields = [field.strip() for field in next(_rows(start, delimiter))]
    numeric = [_is_number(field) for field in fields]
    if isinstance(label_column, str) and not label_column.removeprefix("-").isdecimal():
        is_header = label_column in fields or not all(numeric)
    else:
        names = None if all(numeric) else fields
        label = label_place(label_column, n_features, len(fields), names, name)
        n_numbers = sum(numeric) - (label is not None and numeric[label])
        n_inputs = len(fields) - (label is not None)
        is_header = 2 * n_numbers < n_inputs and not (label is not None and numeric[label])
    names = fields if is_header else None
    label = label_place(label_column, n_features, len(fields), names, name)
    return Layout(delimiter, len(fields), names, label)


def _numbers(fields: list[str]) -> Iterator[float]:
    """Return fields as numbers (NaN and infinity are numbers here); a ValueError if one is none."""
    text = "".join(fields)
    if "_" in text or not text.isascii():
        raise ValueError  # `float` takes 1_0, and digits of other scripts
    return map(float, fields)


def _is_number(field: str) -> bool:
    try:
        return bool(list(_numbers([field])))
    except ValueError:
        return False


def _label(field: str) -> str:
    """Return the text of a label; a ValueError if it is empty or too long."""
    text = field.strip()
    if not 0 < len(text) <= LONGEST:
        raise ValueError
    return text


def _fault(fields: list[str], layout: Layout) -> str:
    """Return what is wrong with a line."""
    if len(fields) != layout.width:
        return f" has {len(fields)} fields; {layout.width} are expected, as in the first line"
    place, text = next(
        (place, text)
        for place, text in enumerate(fields)
        if not (0 < len(text.strip()) <= LONGEST if place == layout.label else _is_number(text))
    )
    field = f": field {place + 1}" + (f" ({layout.names[place][:40]!r})" if layout.names else "")
    if not text.strip():
        return f"{field} is empty; every field needs a value"
    if place == layout.label:
        return f"{field} has {len(text)} characters, and is a label"
    return f"{field} is {text[:40]!r}, where a number is expected"


def _rows(lines: Iterable[str], delimiter: str | None) -> Iterator[list[str]]:
    """Return the fields of each line; of one that white space delimits, too."""
    if delimiter is None:
        lines = (" ".join(line.split()) for line in lines)
    return csv.reader(lines, delimiter=delimiter or " ", skipinitialspace=True)


@contextmanager
def _lines(name: str) -> Iterator[Lines]:
    with opened(name) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig") as file:
        yield Lines(file, name)
