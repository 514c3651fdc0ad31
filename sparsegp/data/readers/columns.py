"""Readers of files whose columns have names, one of them the labels: delimited text and parquet."""

import csv
import io
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function, from_memory
from sparsegp.data.frames import UNNAMED, column_names, column_places, listed
from sparsegp.data.labels import LONGEST, labels_from_text, tidy_labels
from sparsegp.data.storage import Lines, opened, require_memory
from sparsegp.data.table import Dataset, Table
from sparsegp.errors import DataError

LabelColumn: TypeAlias = str | int | None
"""A column's name, its number counted from 0 (negative: from the end), or None for the last."""

Names: TypeAlias = tuple[str, ...] | None
"""Of the columns of a model, where it knows them."""

SNIFFED_LINES = 20

PER_LABEL = 128
"""Bytes that a distinct label takes beside its text."""

NUMERIC = r"bool|u?int\d+|halffloat|float|double"
"""Types of parquet columns that hold real numbers."""


class Layout(NamedTuple):
    """How the text is laid out: delimiter (None for white space), fields, header, places."""

    delimiter: str | None
    width: int
    names: Names
    inputs: list[int]
    label: int | None


def read_text(
    name: str,
    label_column: LabelColumn,
    n_features: int | None,
    wanted: Names = None,
    labels: bool = True,
    known: str | None = None,
) -> Dataset:
    """Read rows of numbers with a label.

    The delimiter is one of `;`, tab, `,`, else white space. The first line is a header when most
    of its fields, apart from the label, are not numbers. Labels that are all whole numbers become
    integers, other labels are kept as strings.
    """
    layout = _layout(name, label_column, n_features, wanted, known)
    layout = layout if labels else layout._replace(label=None)
    delimiter, width, names, inputs, label = layout
    values, places, codes = array("d"), array("q"), dict[str, int]()
    texts = longest = 0  # bytes of all distinct labels; characters of the longest
    with _lines(name) as lines:
        rows = _rows(lines, delimiter, name)
        if names is not None:
            next(rows)
        for fields in rows:
            try:
                if len(fields) != width:
                    raise ValueError
                values.extend(_numbers([fields[place] for place in inputs]))
                if label is not None:
                    text = _label(fields[label])
                    if text not in codes:
                        texts += sys.getsizeof(text) + PER_LABEL
                        longest = max(longest, len(text))
                    places.append(codes.setdefault(text, len(codes)))
            except ValueError:
                raise DataError(f"{name}, line {lines.number}{_fault(fields, layout)}") from None
            size = 8 * len(values) + (8 + 4 * longest) * len(places) + texts
            require_memory(size, name)
    if not values:
        raise DataError(f"{name} has no rows under its header, {listed(names or ())}")
    y = None
    if label is not None:
        y = labels_from_text(list(codes), name)[np.frombuffer(places, np.int64)]
    X = np.frombuffer(values).reshape(-1, len(inputs))
    taken = names and tuple(names[place] for place in inputs)
    column = None if label is None else names[label] if names else str(label)
    return Dataset(Table(from_memory(X, name), y, name, names=taken, label=column))


def read_parquet(
    name: str,
    label_column: LabelColumn,
    n_features: int | None,
    wanted: Names = None,
    labels: bool = True,
    known: str | None = None,
) -> Dataset:
    """Read columns of numbers and one of labels; missing numbers become NaN."""
    with _parquet(name) as file:
        _require_distinct(file.schema_arrow.names, name)
        kinds = {field.name: field.type for field in file.schema_arrow}
        columns = [column for column in kinds if not column.startswith("__index_level_")]
        label_column = _default(label_column, known, n_features, wanted, columns)
        inputs, label = _places(label_column, n_features, wanted, columns, name)
        features = [columns[place] for place in inputs]
        for column in features:
            if not re.fullmatch(NUMERIC, str(kinds[column])):
                raise DataError(
                    f"columns must hold numbers; {column!r} of {name} holds {kinds[column]}. Drop "
                    f"it, or name it as the label column"
                )
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        y = None
        if labels and label is not None:
            values = file.read(columns=[columns[label]]).column(0).to_pylist()
            y = tidy_labels(np.array(values, dtype=object), name)
    if not sizes:
        raise DataError(f"{name} has no rows")
    dtypes = (kinds[column].to_pandas_dtype() for column in features)
    dtype = np.result_type(np.float32, *dtypes)  # floats, as some may be missing
    X = from_function(partial(_group, name, features, dtype), sizes, len(features), dtype, name)
    column = None if label is None else columns[label]
    return Dataset(Table(X, y, name, names=column_names(features), label=column))


def _require_distinct(names: Sequence[str], source: str) -> None:
    """Raise a `DataError` if a name stands for two columns."""
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise DataError(
                f"every column needs a name of its own; {source} has {count} columns "
                f"{name[:40]!r}: rename or drop all but one"
            )


def _default(
    label_column: LabelColumn,
    known: str | None,
    n_features: int | None,
    wanted: Names,
    names: Sequence[str],
) -> LabelColumn:
    """Return the label column: where none is given, that of a model if there is one here.

    It is known by its name, or by its number where the columns of the model have no names.
    """
    if label_column is not None or known is None:
        return label_column
    numbered = wanted is None and known.isdecimal() and len(names) - 1 == n_features
    return known if known in names or numbered else None


def _places(
    label_column: LabelColumn,
    n_features: int | None,
    wanted: Names,
    names: Sequence[str],
    source: str,
    named: bool = True,
) -> tuple[list[int], int | None]:
    """Return the places of the inputs and of the labels, see `_label_place`.

    Where columns have names, a model takes the wanted ones, whatever else there is. Their labels
    are then in the label column, if one is given, or in the only other column that has a name.
    """
    if wanted is None or not named:
        label = _label_place(label_column, n_features, names, source, named)
        return [place for place in range(len(names)) if place != label], label
    inputs = column_places(wanted, names, source)
    if label_column is not None:
        return inputs, _label_place(label_column, None, names, source)
    others = list({*range(len(names))} - {*inputs})
    others = [place for place in others if not names[place].startswith(UNNAMED)] or others
    return inputs, others[0] if len(others) == 1 else None


def _label_place(
    wanted: LabelColumn,
    n_features: int | None,
    names: Sequence[str],
    source: str,
    named: bool = True,
) -> int | None:
    """Return the place of the label column, counted from 0, or None when there are no labels.

    A file with just the columns that a model takes has none, unless a label column is given.
    Columns have these names, or none if not `named`.
    """
    width = len(names)
    if n_features == width and wanted is None:
        return None
    if width < 2:
        raise DataError(f"{source} has {width} column; numbers and labels are needed")
    if named and wanted in names:
        return names.index(str(wanted))
    try:
        place = width - 1 if wanted is None else int(wanted)
    except ValueError:
        place = width
    if not -width <= place < width:
        alike = [name for name in names if name.casefold() == str(wanted).casefold()]
        near = f" (did you mean {alike[0][:40]!r}?)" if named and alike else ""
        found = f"its columns: {listed(names)}{near}" if named else "it has no header"
        raise DataError(
            f"{source} has no label column {wanted!r}; {found}; give a name of its header, or a "
            f"number from 0 to {width - 1}, or from -{width} to -1"
        )
    return place % width


def _layout(
    name: str,
    label_column: LabelColumn,
    n_features: int | None,
    wanted: Names,
    known: str | None = None,
) -> Layout:
    """Return the layout that the first lines have.

    A row with a fault is no header: that has names for most columns, and for the label, or all
    that are wanted.
    """
    with _lines(name) as lines:
        start = list(islice(lines, SNIFFED_LINES))
    if not start:
        raise DataError(f"{name} is empty")
    common = [mark for mark in ";\t," if all(mark in line for line in start)]
    delimiter = next(iter(common or [mark for mark in ";\t," if mark in start[0]]), None)
    fields = [field.strip() for field in next(_rows(start, delimiter, name))]
    label_column = _default(label_column, known, n_features, wanted, fields)
    numeric = [_is_number(field) for field in fields]
    named = isinstance(label_column, str) and not label_column.removeprefix("-").isdecimal()
    is_header = not all(numeric) or (named and label_column in fields)
    names = column_names(fields) or ()
    if is_header and not named and not (wanted and {*wanted} <= {*names}):
        label = _label_place(label_column, n_features, fields, name)
        numbers = [number for place, number in enumerate(numeric) if place != label]
        is_header = 2 * sum(numbers) < len(numbers) and (label is None or not numeric[label])
    if is_header:
        _require_distinct(names, name)
    inputs, label = _places(label_column, n_features, wanted, names, name, is_header)
    return Layout(delimiter, len(fields), names if is_header else None, inputs, label)


def _numbers(fields: list[str]) -> Iterator[float]:
    """Return fields as numbers (NaN and infinity are numbers here); a ValueError if one is not."""
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
    inputs = {*layout.inputs}
    place, text = next(
        (place, text)
        for place, text in enumerate(fields)
        if (place == layout.label and not 0 < len(text.strip()) <= LONGEST)
        or (place in inputs and not _is_number(text))
    )
    field = f": field {place + 1}" + (f" ({layout.names[place][:40]!r})" if layout.names else "")
    if not text.strip():
        return f"{field} is empty; every field needs a value"
    if place == layout.label:
        return f"{field} has {len(text)} characters, and is a label"
    column = layout.names[place][:40] if layout.names else place
    return (
        f"{field} is {text[:40]!r}, where a number is expected; if it is the label, give "
        f"label_column={column!r}; text must be encoded or left out, "
        "missing values filled in"
    )


def _rows(lines: Iterable[str], delimiter: str | None, name: str) -> Iterator[list[str]]:
    """Yield the fields of each line; of one that white space delimits, too."""
    if delimiter is None:
        lines = (" ".join(line.split()) for line in lines)
    rows = csv.reader(lines, delimiter=delimiter or " ", skipinitialspace=True)
    try:
        yield from rows
    except csv.Error as error:
        raise DataError(f"{name}, line {rows.line_num}: {error}") from None


@contextmanager
def _lines(name: str) -> Iterator[Lines]:
    with opened(name) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig") as file:
        yield Lines(file, name)


def _group(
    name: str, columns: list[str], dtype: np.dtype[Any], group: int, rows: slice
) -> NDArray[Any]:
    """Read one group of rows, (rows, p)."""
    with _parquet(name) as file:
        table = file.read_row_group(group, columns=columns)
        X = np.empty((table.num_rows, len(columns)), dtype)
        for place, column in enumerate(columns):
            X[:, place] = table.column(column).to_numpy()
        return X


@contextmanager
def _parquet(name: str) -> Iterator[Any]:
    with opened(name) as source:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - an extra

        with ParquetFile(source) as file:
            yield file
