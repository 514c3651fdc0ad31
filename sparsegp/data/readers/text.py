"""Reader of delimited text, by pandas."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from sparsegp.data.frames import Frame, listed
from sparsegp.data.labels import LONGEST, labels_from_text
from sparsegp.data.readers.columns import Columns, Places, places_of, table_of
from sparsegp.data.readers.layout import (
    SPACE,
    Layout,
    layout_of,
    rows_of,
    text_of,
)
from sparsegp.data.readers.words import MISSING, Fault, typed
from sparsegp.data.storage import require_memory
from sparsegp.data.table import Dataset
from sparsegp.errors import DataError, short
from sparsegp.lists import as_text

CHUNK_VALUES = 1 << 18
"""Fields that pandas reads at a time."""

MOST_FAULTS = 8
"""Columns that a message names."""


def read_text(name: str, columns: Columns) -> Dataset:
    """Read rows of columns, one of them the labels.

    What is not given is found out, see `layout_of`. A text without a byte order mark that is not
    in UTF-8 is read as Latin-1. The types of columns are those that fit all of their values;
    labels that are all whole numbers become integers, other labels are kept as strings.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    layout = layout_of(name, columns)
    names, places = layout.names, places_of(columns, layout.names, name, layout.header is not None)
    values = Text(name, columns, layout, places).values()
    called = zip(places.called(names), places.inputs, strict=True)
    frame = pd.DataFrame({each: values[place] for each, place in called})
    beside = {names[place]: values[place] for place in places.others}
    return Dataset(table_of(Frame.of(frame, name), beside, names, places, name))


@dataclass(frozen=True)
class Text:
    """A text whose layout is known.

    Parameters
    ----------
    name : str
    columns : Columns
    layout : Layout
    places : Places
    """

    name: str
    columns: Columns
    layout: Layout
    places: Places

    def values(self) -> dict[int, Any]:
        """Return the values of the columns that are taken, by their places.

        Columns of numbers come typed from pandas. Where one turns out to have words, the text is
        read again, with the words of this column as they are.

        Raises
        ------
        DataError
            If values do not fit their columns; all of these are named.
        """
        places, last = self.places, self.layout.width - 1
        wanted = {*places.inputs, *places.others, last}
        numeric = {each for each in wanted if "number" in places.kinds.get(each, "number")}
        numeric -= {*places.others}
        parts = self._parts(wanted, numeric)
        if not parts:
            raise DataError(
                f"{self.name} has no rows under its header, {listed(self.layout.names)}"
            )
        import pandas as pd  # noqa: PLC0415 - slow to import

        found, faults = dict[int, Any](), dict[int, tuple[Fault, Any]]()
        for place in sorted(wanted):
            whole = pd.concat(parts.pop(place), ignore_index=True)
            if place == last:
                self._require_width(whole)
            if place in places.others:
                found[place] = self._labels(place, whole)
            elif place in numeric:
                found[place] = whole
            elif place in places.inputs:
                given = (places.kinds.get(place), self.columns.missing, self.layout.decimal)
                found[place], fault = typed(whole, *given)
                if fault is not None:
                    faults[place] = fault, whole
        if faults:
            raise DataError(self._message(faults))
        return found

    def _parts(self, wanted: Collection[int], numeric: set[int]) -> dict[int, list[Any]]:
        """Return columns in parts; those with words are taken from the numeric ones."""
        while True:
            parts, words = dict[int, list[Any]](), set[int]()
            for frame in self._chunks(numeric):
                words |= {place for place in numeric if frame[place].dtype.kind not in "iuf"}
                if words and not parts:
                    break  # most are found at once
                for place in wanted:
                    parts.setdefault(place, []).append(frame[place])
            if not words:
                return parts
            numeric -= words

    def _chunks(self, numeric: Collection[int]) -> Iterator[Any]:
        """Yield data frames of consecutive rows, whose columns are numbered."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        layout, marks = self.layout, [*MISSING, *self.columns.missing]
        older = [*map(int, pd.__version__.split(".")[:2])] < [3, 1]
        exact = {"float_precision": "round_trip"} if older else {}
        options: dict[str, Any] = {
            "sep": r"\s+" if layout.delimiter == SPACE else layout.delimiter,
            "header": 0 if layout.header else None,
            "names": range(layout.width),
            "dtype": {place: "str" for place in range(layout.width) if place not in numeric},
            "na_values": dict.fromkeys(numeric, marks),
            "keep_default_na": False,
            "skipinitialspace": True,
            "decimal": layout.decimal,
            "chunksize": max(1, CHUNK_VALUES // layout.width),
            "low_memory": False,
            **exact,
        }
        held = 0
        with text_of(self.name, layout.encoding) as file:
            try:
                for frame in pd.read_csv(file, engine="c", **options):
                    if not isinstance(frame.index, pd.RangeIndex):  # rows are too long
                        self._require_width()
                    held += int(frame.memory_usage(index=False, deep=True).sum())
                    require_memory(2 * held, self.name)  # when the parts are joined
                    if len(frame):
                        yield frame
            except pd.errors.ParserError as error:
                self._require_width()
                raise DataError(f"cannot read {self.name}: {error}") from None

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows again, for messages, after the numbers of their lines."""
        with text_of(self.name, self.layout.encoding) as file:
            rows = rows_of(file, self.layout.delimiter, self.name)
            for line, row in islice(rows, 1 if self.layout.header else 0, None):
                yield line + self.columns.before[0], row

    def _line(self, row: int) -> int:
        """Return the line of a row."""
        return next(islice(self._rows(), row, None))[0]

    def _require_width(self, last: Any = None) -> None:
        """Raise a `DataError` if a row has not as many fields as the first one.

        pandas fills up rows that are short: they are among those whose last field is empty.
        """
        empty = None if last is None else {*np.flatnonzero(last.isna() | (last == "")).tolist()}
        if empty is not None and not empty:
            return
        for row, (line, fields) in enumerate(self._rows()):
            if len(fields) != self.layout.width and (empty is None or row in empty):
                raise DataError(
                    f"{self.name}, line {line} has {len(fields)} fields; {self.layout.width} are "
                    "expected, as in the first line"
                )

    def _message(self, faults: Mapping[int, tuple[Fault, Any]]) -> str:
        """Return what is wrong with all columns at once, and what to do."""
        shown = dict(islice(faults.items(), MOST_FAULTS))
        said, kinds, marks = [], [], dict[str, None]()
        for place, (fault, words) in shown.items():
            row, column = int(fault.rows[0]), short(self.layout.names[place], 40)
            word, more = short(str(words[row]).strip(), 40), len(fault.rows) - 1
            others = f" and {more} more" if more else ""
            where = f"line {self._line(row)} (row {self.columns.before[1] + row}{others})"
            said.append(f"{where}, column {column!r}: {word!r} is no {fault.expected}")
            kinds.append(f"{column}=category")
            marks[word] = None
        if rest := len(faults) - len(shown):
            said.append(f"and {rest} more columns")
        remedy = f"mend them, or give `missing` {as_text(marks)} for marks of missing values"
        if self.columns.names is None:  # of a model, which takes its columns as they were
            remedy += f", `kinds` {shlex.quote(as_text(kinds))} for names of categories, or `drop` "
            remedy += "the columns"
        return f"{self.name} has values that do not fit their columns: {'; '.join(said)}; {remedy}"

    def _labels(self, place: int, texts: Any) -> Any:
        """Return labels, of one type, or ids, as strings; a `DataError` if one is missing."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        codes, found = pd.factorize(texts.str.strip())
        words, none = list(map(str, found)), {"", *self.columns.missing}
        option = "label_column" if place == self.places.label else "id_column"
        bad = np.array([word in none or len(word) > LONGEST for word in words])
        if len(rows := np.flatnonzero(bad[codes])):
            word, row = words[codes[rows[0]]], int(rows[0])
            fault = f"is {word!r}"
            if len(word) > LONGEST:
                fault = f"has {len(word)} characters, more than {LONGEST}"
            raise DataError(
                f"{self.name}, line {self._line(row)}: the {option[:-7]} in column "
                f"{short(self.layout.names[place], 40)!r} {fault if word else 'is empty'}; every "
                f"row needs one: give another {option}, or leave out such rows, "
                f"{len(rows)} of {len(codes)}"
            )
        is_id = option == "id_column"
        return (np.array(words) if is_id else labels_from_text(words, self.name))[codes]
