"""Data frames of pandas, polars, pyarrow and dask, in parts of known length."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, compress, pairwise
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.data.blocks import compute_each, row_blocks
from sparsegp.errors import DataError, quoted
from sparsegp.lists import join_first, quote_if_needed
from sparsegp.types import DaskArray, Integers

MAX_NAMES, MAX_FAULTS = 20, 8
"""Maximum number of names, and of unusable columns, listed in a message."""
Where: TypeAlias = Callable[[int, Any], str]
"""Describes where a value is, given its row and column name, for messages."""
UNNAMED = "unnamed "
"""Start of the name given to a column without one; its position follows."""


def by_row(row: int, column: Any) -> str:
    """Describe where a value is, by its row number."""
    return f"row {row}, column {quoted(column)}"


COMMA = "give `decimal` ',' or, if a comma is the delimiter, write a point instead"
DECIMALS = f"numbers with a decimal comma: {COMMA}"
THOUSANDS = "numbers with separators of thousands: remove these"
EITHER = f"numbers with a decimal comma or separators of thousands: remove these, or {COMMA}"
PLAIN = "plain numbers with one decimal mark, and nothing between thousands"
LIKE = {
    "numbers with a point: write a comma if it is the decimal mark, or nothing between thousands; "
    "in a parquet file store numbers": r"(?i:[+-]?\d*\.\d+(e[+-]?\d+)?)",
    "dates that can be read in more than one way: write them as 2024-12-31": (
        r"\d\d?(/\d\d?/|-\d\d?-|\.\d\d\.|\.\d\d?\.(?=\d{4}))(\d\d){1,2}([T ].*)?"
    ),
    "durations: convert them to numbers, such as days": (
        r"\d+:\d\d(:\d\d)?|"
        r"-?\d+ days?,? [+-]?\d\d?:\d\d(:\d\d(\.\d+)?)?|P(\d+D)?T(\d+(\.\d+)?[HMS])+"
    ),
    THOUSANDS: r"[+-]?\d{1,3}([,.' _]\d{3})+([,.]\d+)?",
    DECIMALS: r"[+-]?\d*,\d+",
    f"percentages: write {PLAIN}, all of one scale": r"[+-]?[\d.,]+ ?%",
    f"amounts of money: write {PLAIN}, all in one currency": (
        r"[+-]?([$€£¥] ?[\d.,]+|[\d.,]+ ?[$€£¥])"
    ),
    f"numbers with a unit: write {PLAIN}, all in one unit": (
        r"[+-]?[\d.,]+ ?([kmcdnµ]?(g|m|l|s|W|V|A|Hz)|lbs?|oz|ft|in|mi|km/h|mph|k?Wh|°?[CF]|[kMGT]B|"
        r"m[²³23]|min|h|hrs?|days?|years?|yrs?)|"
        r"[+-]?\d+[.,]\d+ ?([kM]|[bB]n|Mi?o\.?|Mrd\.?|pcs|pts|pp)( ?[$€£¥])?"
    ),
    "numbers after an apostrophe, as spreadsheets write text: remove it": r"'[+-]?[\d.,]+",
    "hexadecimal numbers: convert them": r"(?i:0x[\da-f]+)",
    "negative numbers in parentheses: write a minus sign instead": r"\([\d.,]+\)",
    "negative numbers with a minus at the end: write it in front": r"-?[\d.,]+ ?-",
}
OF_RARE = {
    "pairs of numbers: make two columns of them": r"(?!\d\d?/\d{4}$)[\d.]+ ?[/x\xd7] ?[\d.]+",
    f"numbers with words behind them: write {PLAIN}, all in one unit": (
        r"[+-]?\d+[.,]\d+ ?(?![eE]\S|[aApP]\.?[mM]\b)[^\W\d_][^,;:()<>+#]{0,30}"
    ),
}
"""What words that are read as categories may be instead, with remedies, and their patterns. A few
words of the second kind that repeat may be names, such as those of sizes."""


def likeness(words: Sequence[str], are_rare: bool = True) -> str:
    """Return what most words look like and what to do about it, quoting the first word.

    The result is "" if they match nothing in `LIKE` (or, if rare, in `OF_RARE`), and are not mostly
    numbers.
    """
    numbers = [word for word in words if is_number(word) and math.isfinite(float(word))]
    known, n = {*numbers}, len(words)
    others = [word for word in words if word not in known]
    for what, pattern in (LIKE | OF_RARE if are_rare else LIKE).items():
        alike = [*filter(re.compile(pattern).fullmatch, others or words)]
        if 2 * len(alike) > len(others or words) and 2 * len({*alike, *numbers}) > n:
            is_mixed = bool(others) and (words[0] in numbers or 2 * len(alike) <= n)
            beside = f"numbers or, as {quoted(alike[0])}, " if is_mixed else ""
            advice = _of_commas(words) if what == THOUSANDS else what
            return _most(words, alike + numbers, beside + advice)
    if 0 < 2 * len(others) < n:
        what = f"numbers: give words such as {quoted(others[0])} as `missing` if they stand for "
        return _most(words, numbers, f"{what}missing values")
    return ""


def _of_commas(words: Sequence[str]) -> str:
    """Return which message applies: decimal commas, separators of thousands, or either."""
    if any(map(re.compile(r"[+-]?(0?,\d+|\d+,(\d\d?|\d{4,})|\d{4,},\d+)").fullmatch, words)):
        return DECIMALS
    grouped = re.compile(r"[+-]?\d+(,\d{3}\D.*|[^\d,]\d{3}.*)")
    return THOUSANDS if any(map(grouped.fullmatch, words)) else EITHER


def _most(words: Sequence[str], alike: Sequence[str], what: str) -> str:
    first = quoted(words[0])
    lead = first if words[0] in alike else f"{first} differs, but {quoted(alike[0])}"
    return f"{lead} and most others look like {what}"


def unlikeness(words: Sequence[str]) -> str:
    """Return what words that differ in nearly every row seem to be, and what to do about it."""
    if found := likeness(words):
        return found
    if all(map(is_number, words)):
        return f"{quoted(words[0])} and all others are numbers as text: store them as numbers"
    such = f"values such as {quoted(words[0])} differ in nearly every row"
    return f"{such}: `drop` it, or give it as `id_column`"


def is_number(value: Any) -> bool:
    """Return whether a value can be converted to a number."""
    with suppress(OverflowError, TypeError, ValueError):
        float(value)
        return True
    return False


def is_clock(form: str) -> bool:
    """Return whether a format of dates is that of a time of day alone."""
    return form.startswith(("%H", "%I")) and "%d" not in form


def given_as(name: str, kind: str) -> str:
    """Return how the kind of a column is given, for messages."""
    return f"`kinds` {shlex.quote(quote_if_needed(f'{name}={kind}'))}"


def unreadable(place: str, kind: str, value: Any, name: str = "") -> str:
    """Return the message that a value cannot be read; `name` is the column, while kinds are learnt.

    The kind may have a form, as in "number:$#".
    """
    kind, _, form = kind.partition(":")
    number, date = "number", "date that can be read in one way, such as 2024-12-31"
    if not name:
        number += f", bare or in the form {form} of the training rows" if form else ""
        date = "date in the form of the training rows, nor like 2024-12-31"
    if is_clock(form):
        date = "time of day, such as 14:35, as others are (durations must be plain numbers)"
    expected = {"truth": "boolean (true, false, yes or no)", "date": date}.get(
        kind, "finite number" if isinstance(value, Number) else number
    )
    remedy = ", or give it as `missing`" if isinstance(value, str) else ""
    if not name and not isinstance(value, str | Number):
        remedy = ", or train again with such values"
    if remedy and name and kind == "number":
        remedy += f", or have its column read as words by {given_as(name, 'category')}"
    return f"{place}: {quoted(value)} is not a {expected}: correct it{remedy}"


IN_PANDAS = {
    "give it as `missing`": "replace it by NaN",
    "give (words such as .*) as `missing` if": r"replace \1 by NaN if",
    "numbers with a point: .*": "numbers as text: convert them, in pandas by astype(float)",
    "store them as numbers": "convert them, in pandas by astype(float)",
    "give `decimal` .*": "write a point instead",
    "give it as `id_column`": "make it the index by set_index",
    "`drop` it": "leave it out, in pandas by drop(columns=...)",
    "give `kinds` .*=date'?": "convert them, in pandas by to_datetime(..., format='%Y%m%d')",
    " by `kinds` .*": ", in pandas by astype('category')",
}
"""Remedies for a data frame, by the patterns of remedies for a file."""


def with_remedies(faults: Sequence[str], of_file: bool) -> Sequence[str]:
    """Return messages about columns, with remedies for a file or for a data frame."""
    for option, words in () if of_file else IN_PANDAS.items():
        faults = [re.sub(option, words, fault, flags=re.DOTALL) for fault in faults]
    return faults


def refuse(faults: Sequence[str], source: str, of_file: bool = False) -> None:
    """Raise a `DataError` that lists faults of columns, if there are any; see `with_remedies`."""
    if faults:
        count = f"{len(faults)} columns" if len(faults) > 1 else "a column"
        raise DataError(
            f"{source} has {count} that cannot be used (rows counted from 0): "
            + "; ".join(with_remedies(faults[:MAX_FAULTS], of_file))
        )


def column_names(found: Iterable[Any]) -> tuple[str, ...] | None:
    """Return column names as texts, by position where one is empty; None if they are 0, 1, ..."""
    given = list(found)
    if given == list(range(len(given))):
        return None
    return tuple(str(name) or f"{UNNAMED}{place}" for place, name in enumerate(given))


def listed(names: Sequence[object]) -> str:
    """Return a list of the first names, for messages."""
    return join_first([quote_if_needed(str(name)[:40]) for name in names], MAX_NAMES)


def column_places(wanted: Sequence[str], found: Sequence[str], source: str) -> list[int]:
    """Return the positions of the wanted columns among those found.

    Parameters
    ----------
    wanted, found : sequence of str
        Column names.
    source : str
        Where the columns come from, for messages.

    Raises
    ------
    DataError
        If columns are missing (they are named), or two columns share a name.
    """
    places = {name: place for place, name in enumerate(found)}
    if missing := [name for name in wanted if name not in places]:
        raise DataError(
            f"{source} must have the columns that were trained on; missing: "
            f"{listed(missing)}; found: {listed(found)}"
        )
    require_distinct(found, source)
    return [places[name] for name in wanted]


def require_distinct(names: Sequence[str], source: str) -> None:
    """Raise a `DataError` if two columns share a name."""
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise DataError(
                f"every column needs a name of its own; {source} has {count} columns "
                f"{name[:40]!r}: rename all but one"
            )


def real_numbers(X: Any, source: str, where: Where = by_row) -> NDArray[Any]:
    """Convert an array, matrix or frame to an array of real numbers; masked values become NaN.

    Raises
    ------
    DataError
        If some values are not numbers; the first one is named.
    """
    X = X.toarray() if hasattr(X, "toarray") else X
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    try:
        found: NDArray[Any] = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{source} is not a table of numbers: {error}") from None
    if found.ndim != 2 or found.dtype.kind not in "OUS":
        return found
    if found.dtype.kind == "O":
        with suppress(OverflowError, TypeError, ValueError):
            return found.astype(np.float64)
    names = frame_names(X) if is_frame(X) else range(found.shape[1])
    for (row, column), value in np.ndenumerate(found):
        if found.dtype.kind != "O" or not is_number(value):
            raise DataError(
                f"X must hold real numbers; {source} has {str(value)[:60]!r} in "
                f"{where(row, names[column])}"
            )
    raise DataError(f"X must hold real numbers; {source} holds {found.dtype}")


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of pandas, polars or dask, or a table of pyarrow."""
    if hasattr(X, "collect_schema") and not hasattr(X, "to_pandas"):
        raise DataError(f"a data frame must hold its rows, got a {type(X).__name__}; collect it")
    converts = hasattr(X, "to_pandas") and hasattr(X, "columns")
    return converts or (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "iloc"))


def as_pandas(X: Any) -> Any:
    """Convert a data frame to pandas, unless it is one of dask."""
    return X.to_pandas() if hasattr(X, "to_pandas") else X


def frame_names(X: Any) -> list[str]:
    """Return the column names of a frame; a column without one is named by its position."""
    return [str(name) or f"{UNNAMED}{place}" for place, name in enumerate(X.columns)]


@dataclass(frozen=True, eq=False)
class Frame:
    """A data frame of pandas, split into parts, which may be delayed."""

    empty: Any  # columns and their dtypes, without rows
    parts: Sequence[Any]
    lengths: Sequence[int]  # numbers of rows of the parts; none is empty
    where: Where = by_row
    of_file: bool = False  # whether it was read from a file, rather than given by the caller

    @classmethod
    def of(cls, X: Any, source: str, scheduler: Any = None) -> "Frame":
        """Split a frame into parts; those of a dask data frame are read once to count rows.

        Raises
        ------
        DataError
            If two columns share a name.
        """
        X = as_pandas(X)
        if isinstance(X, Frame):
            return X
        names = frame_names(X)
        require_distinct(names, source)
        if not hasattr(X, "dask"):
            lengths = row_blocks(len(X), len(names), source) if len(X) else []
            ends = pairwise(accumulate(lengths, initial=0))
            return cls(X.iloc[:0], [X.iloc[start:stop] for start, stop in ends], lengths)
        parts = X.to_delayed()
        lengths = compute_each(len, parts, scheduler=scheduler)
        return cls(X._meta, [*compress(parts, lengths)], [*filter(None, lengths)])

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(self.lengths)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(frame_names(self.empty))

    def select(self, places: Sequence[int]) -> "Frame":
        """Return the frame with the columns at these positions, in this order."""
        empty, *parts = (part.iloc[:, places] for part in (self.empty, *self.parts))
        return replace(self, empty=empty, parts=parts)

    def take(self, rows: Integers) -> "Frame":
        """Return the frame with some of its rows, whose numbers ascend and may repeat."""
        each = np.split(rows, np.searchsorted(rows, self.starts[1:]))
        found = zip(self.parts, self.starts, each, strict=True)
        parts = [part.iloc[some - start] for part, start, some in found if len(some)]
        lengths = [*filter(None, map(len, each))]
        return replace(self, parts=parts, lengths=lengths, where=_of_some(self.where, rows))

    def numbers(self, source: str) -> DaskArray:
        """Return the values of all columns as numbers, (n, p); NaN where one is missing.

        Raises
        ------
        DataError
            When the array is computed, if some values are not numbers.
        """
        dtype = real_numbers(self.empty, source).dtype
        dtype = dtype if dtype.kind in "biuf" else np.dtype(np.float64)
        return self.rows(partial(_numbers, source=source, dtype=dtype), len(self.names), dtype)

    @property
    def starts(self) -> list[int]:
        """Index of the first row of each part."""
        return list(accumulate(self.lengths, initial=0))[:-1]

    def rows(
        self, function: Callable[..., Any], p: int, dtype: DTypeLike, beside: Integers | None = None
    ) -> DaskArray:
        """Return the array (n, p) that a function makes of each part and its `Where`.

        The function also gets the values `beside` the rows of the part, (n,), if there are any.
        """
        import dask.array as da  # noqa: PLC0415 - slow to import
        from dask.delayed import delayed  # noqa: PLC0415

        task, blocks = delayed(function, pure=False), []
        for part, start, length in zip(self.parts, self.starts, self.lengths, strict=True):
            where = _of_some(self.where, range(start, start + length))
            more = () if beside is None else (beside[start : start + length],)
            values = task(part, where, *more)
            blocks.append(da.from_delayed(values, (length, p), dtype, np.empty((0, 0), dtype)))
        return da.concatenate(blocks) if blocks else da.empty((0, p), dtype)


def _of_some(where: Where, rows: Any) -> Where:
    """Return the `Where` of a selection of rows, without the numbers of all others."""
    if isinstance(where, partial) and where.func is _among:
        where, earlier = where.args
        rows = earlier[rows]
    return partial(_among, where, rows)


def _among(where: Where, rows: Any, row: int, column: Any) -> str:
    """Describe where a value is, given its row in a selection of rows."""
    return where(int(rows[row]), column)


def _numbers(part: Any, where: Where, source: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    return real_numbers(part, source, where).astype(dtype, copy=False)
