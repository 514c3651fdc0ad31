"""Reader of delimited text, with pandas."""

import csv
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from sparsegp.data.column import NUMBERS, UNTYPED
from sparsegp.data.frames import Frame, listed
from sparsegp.data.labels import labels_from_text, short_strings
from sparsegp.data.numerals import MINUS
from sparsegp.data.readers.columns import Columns, Places, places_of, require_each, table_from_file
from sparsegp.data.readers.layout import (
    COMPARED,
    DASHES,
    MISSING,
    SPACE,
    Layout,
    head_of,
    layout_of,
    number,
    rows_of,
    text_of,
)
from sparsegp.data.readers.marks import Marks
from sparsegp.data.storage import require_memory
from sparsegp.data.table import Dataset
from sparsegp.errors import DataError, quoted
from sparsegp.lists import plural

CHUNK_VALUES = 1 << 20
"""Number of fields that pandas reads at a time."""


def read_text(name: str, columns: Columns) -> Dataset:
    """Read a text file with columns, one of which is the label.

    Its layout is detected as far as it is not given, see `layout_of`. pandas converts columns of
    numbers; others stay text, whose kinds are found when an encoding is learnt. Labels become
    integers if all are whole numbers, floats if all are numbers, else strings.
    """
    layout = columns.layout or layout_of(name, columns)
    if columns.layout is not None:
        head_of(name, layout.encoding)  # raises an error if it is not text
    names = layout.names
    places = places_of(columns, names, name, layout.header is not None)
    text = Text(name, columns, layout, places)
    values, others = text.values()
    if not any(columns.before):
        text.marks.warn(values, places)
    frame = Frame.of(values[[*places.inputs]].rename(columns=places.inputs), name)
    beside = {
        names[place]: text.labels(place, texts, place == places.id)
        for place, texts in others.items()
    }
    where = replace(text).where  # without its marks, as it may be sent to workers
    table = table_from_file(replace(frame, where=where), beside, places, name)
    return Dataset(replace(table, missing=columns.markers))


@dataclass(frozen=True)
class Text:
    """A text file of known layout."""

    name: str
    columns: Columns
    layout: Layout
    places: Places

    @property
    def above(self) -> tuple[bool, bool]:
        """Whether a line that names the delimiter, and a header, are above its values."""
        is_start, layout = not any(self.columns.before), self.layout
        return is_start and layout.marked, is_start and layout.header is not None

    def values(self, n_rows: int | None = None) -> tuple[Any, dict[int, Any]]:
        """Return the values of the columns by index, and the texts of those that are not inputs.

        An id may be an input too. pandas converts columns of numbers. If one turns out to have
        words, the file is read again, with this column as text; and without blank rows at its end,
        as spreadsheets write them, if labels are read.
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        places, last = self.places, self.layout.width - 1
        inputs, kinds = {*places.inputs}, places.kinds
        numeric = {n for n, name in places.inputs.items() if kinds.get(name, "number") in NUMBERS}
        numeric -= {*places.others}
        parts, words = list[Any](), {*inputs}
        while words:
            parts, words = [], set[int]()
            for part in self._parts(numeric, n_rows):
                words |= {place for place in numeric if part[place].dtype.kind not in "iuf"}
                if words and not parts:
                    break  # the first part shows most of them
                parts.append(part[sorted({*inputs, *places.others, last})])
            numeric -= words
        if not parts:
            named = listed(self.layout.names)
            raise DataError(f"{self.name} has no rows under its header, {named}")
        if self.layout.width == 1:
            self._require_no_blank_line()
        whole = pd.concat(parts, ignore_index=True)
        if (whole[last].isna() | (whole[last] == "")).any():  # with which pandas fills short rows
            n_filled = self._require_width()
            if n_filled < len(whole) and places.label is not None:
                return self.values(n_filled)
        texts = {place: whole[place] for place in places.others}
        for place in inputs - numeric:
            whole[place] = self._words(whole[place], kinds.get(places.inputs[place]))
        return whole, texts

    def where(self, row: int, column: Any) -> str:
        """Describe where a value is, for messages."""
        place = f"row {self.columns.before[1] + row}"
        with suppress(DataError):  # a worker may not reach the file
            place = f"line {next(islice(self._rows(), row, None))[0]} ({place})"
        names = {name: self.layout.names[each] for each, name in self.places.inputs.items()}
        return f"{place}, column {quoted(names.get(column, column))}"

    @cached_property
    def marks(self) -> Marks:
        """Points and commas in its numbers."""
        head = [row for _, row in islice(self._rows(), COMPARED)]
        return Marks(self.columns, self.layout, head)

    def _words(self, texts: Any, kind: str | None) -> Any:
        """Return texts stripped, None where a value is missing; or numbers, if all are numbers.

        Numbers among words get a hyphen as minus sign, and a decimal point unless the column is to
        have a form (numerals.py), or has one in a model, as in "number:$#".
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        codes, found = pd.factorize(texts)
        kind, _, form = (kind or "").partition(":")
        missing, decimal = {*MISSING, *self.columns.markers}, self.layout.decimal
        words = [None if (word := str(each).strip()) in missing else word for each in found]
        is_number = number(decimal).fullmatch
        words = [word.replace(MINUS, "-") if word and is_number(word) else word for word in words]
        if form:
            words = self.marks.as_in_training(words, texts.name, form)
        else:
            known = self.columns.n_features is not None  # by a model, whose columns are numbers
            if decimal == "," and kind in {*NUMBERS, *([""] if known else [])}:
                self._require_no_point(texts, codes, words)
            words = self.marks.without_thousands(words, texts.name, kind)
            is_text = kind in {"category", "date", UNTYPED}
            if not is_text and all(word is None or is_number(word) for word in words):
                values = [float((word or "nan").replace(",", ".")) for word in words]
                return pd.Series(np.array([*values, np.nan])[codes])
            words = self.marks.with_points(words, kind)
        return pd.Series(np.array([*words, None], dtype=object)[codes], dtype=object)

    def _require_no_point(self, texts: Any, codes: Any, words: Sequence[str | None]) -> None:
        """Raise a `DataError` if a number has a point where the decimal mark is a comma."""
        is_number = number(".").fullmatch
        for code, word in enumerate(words):
            if word and "." in word and is_number(word):
                where = self.where(int((codes == code).argmax()), self.layout.names[texts.name])
                raise DataError(
                    f"{self.name}, {where}: {quoted(word)} has a point, but the decimal mark is a "
                    "comma; write a comma instead, or nothing if it separates thousands"
                )

    def _parts(self, numeric: Collection[int], n_rows: int | None) -> Iterator[Any]:
        """Yield data frames of consecutive rows, with numbered columns."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        layout, marks = self.layout, [*MISSING, *self.columns.markers]
        is_marked, has_names = self.above
        older = [*map(int, pd.__version__.split(".")[:2])] < [3, 1]
        exact = {"float_precision": "round_trip"} if older else {}
        options: dict[str, Any] = {
            "sep": r"\s+" if layout.delimiter == SPACE else layout.delimiter,
            "header": 0 if has_names else None,
            "skiprows": int(is_marked),
            "names": range(layout.width),
            "dtype": {place: "str" for place in range(layout.width) if place not in numeric},
            "na_values": dict.fromkeys(numeric, marks),
            "keep_default_na": False,
            "skipinitialspace": True,
            "decimal": layout.decimal,
            "chunksize": max(1, CHUNK_VALUES // layout.width),
            "low_memory": False,
            "nrows": n_rows,
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
        """Yield line number and fields of each row again, for messages."""
        with text_of(self.name, self.layout.encoding) as file:
            rows = rows_of(file, self.layout.delimiter, self.name)
            for line, row in islice(rows, sum(self.above), None):
                yield line + self.columns.before[0], row

    def _require_width(self) -> int:
        """Return the number of rows, all as wide as the first, without blank ones at the end."""
        width, filled = self.layout.width, 0
        for row, (line, fields) in enumerate(self._rows(), 1):
            if len(fields) != width:
                raise DataError(
                    f"{self.name}, line {line} has {plural(len(fields), 'field')}; {width} are "
                    "expected, as in the first line"
                )
            filled = row if any(map(str.strip, fields)) else filled
        return filled

    def _require_no_blank_line(self) -> None:
        """Raise a `DataError` if a blank line, which is no row for pandas, is above a value."""
        blank, above = 0, sum(self.above)
        with text_of(self.name, self.layout.encoding) as file, suppress(csv.Error):
            for row in (reader := csv.reader(file)):
                if not row or (row[0] and not "".join(row).strip()):  # "" is a missing value
                    blank = blank or (0 if above else reader.line_num + self.columns.before[0])
                elif above:
                    above -= 1
                elif blank:
                    raise DataError(
                        f"{self.name}, line {blank} is blank, in a file of one column: remove it "
                        'or, if it stands for a missing value, write "" or NA'
                    )

    def labels(self, place: int, texts: Any, is_id: bool) -> Any:
        """Return labels, of one type, or ids as strings; raise a `DataError` if one is missing."""
        codes, found = texts.astype(str).str.strip().factorize()
        marks = [*(MISSING - DASHES), *self.columns.markers]  # "-" is a class next to "+"
        gaps = np.isin(codes, np.flatnonzero(found.isin(marks)))
        role = "id" if is_id else "label"
        word = found[codes[gaps.argmax()]] if gaps.any() else ""
        require_each(gaps, self.layout.names[place], role, self.where, self.name, word)
        found, decimal = [*map(str, found)], self.layout.decimal
        if is_id:
            return short_strings(found, self.name)[codes]
        if not all(map(number(".").fullmatch, {*self.columns.known_labels} - {"True", "False"})):
            return short_strings(found, self.name)[codes]  # like the classes; bools may be 0 and 1
        is_number = number(decimal).fullmatch
        swaps = str.maketrans({decimal: ".", MINUS: "-"})
        plain = [word.translate(swaps) if is_number(word) else word for word in found]
        labels = labels_from_text(plain, self.name)
        if labels.dtype.kind == "U":  # words and codes, which keep their marks in training
            return short_strings(plain if self.columns.known_labels else found, self.name)[codes]
        if decimal == ",":
            self._require_no_point(texts, codes, found)
        return labels[codes]
