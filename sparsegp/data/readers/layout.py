"""Layout of a text file: encoding, delimiter, decimal mark and header, from its first rows."""

import codecs
import csv
import io
import logging
import math
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import dropwhile, islice, pairwise
from typing import NamedTuple, TextIO

from sparsegp.data.column import NUMBERS
from sparsegp.data.frames import column_names, listed, require_distinct
from sparsegp.data.numerals import MINUS, is_numeral
from sparsegp.data.readers.columns import Columns
from sparsegp.data.storage import opened
from sparsegp.errors import DataError, quoted

CHANCE = 0.01
"""Probability below which a coincidence is ruled out."""
HEAD, SNIFFED, COMPARED = 1 << 20, 20, 1000
"""Numbers of characters examined, of rows for the delimiter, and of rows for all else."""
DELIMITERS, SPACE = ";\t,|", " "
DELIMITER_NAMES = {"\\t": "\t", "tab": "\t", "space": SPACE}
"""Delimiters that are detected, in order of preference, before white space; names for some."""
MIN_STEPS = 10
"""Minimum number of columns of a scale whose steps, such as wavelengths, are column names."""
MIN_NUMBERED = 3
"""Minimum number of columns whose names may be their numbers, if no other field is a name."""
DASHES = frozenset(("-", "--", "---", "\N{EN DASH}", "\N{EM DASH}"))
MISSING = DASHES.union(
    ("", "NA", "N/A", "n/a", "n.a.", "#N/A", "<NA>", "nan", "NaN", "NAN", "null", "NULL", "None"),
    ("?", "\\N", "NaT", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?", "#NULL!"),
)
"""Words that stand for a missing value in every column; dashes do so only in inputs."""
COMMENT = "#"
"""Start of first lines that may be neither a header nor values."""
DELIMITER_MARK = re.compile(r'(?i:("?)sep=([^\r\n"])\2*\1)[ \t]*(\r\n?|\n)')
"""Pattern of a first line that names the delimiter for spreadsheets."""
WHOLE = re.compile(r"[+-]?\d*")
"""Pattern of whole numbers, and of missing ones."""
DATE = re.compile(r"\d+([./-])\d+\1\d+([T ].*)?")
"""Pattern of words that look like a date."""

logger = logging.getLogger(__name__)

UTF_8, WINDOWS, LAST_RESORT = "utf-8-sig", "cp1252", "latin-1"


class Layout(NamedTuple):
    """Layout of a text file; the header has the column names, if there is one.

    `marked` says whether the first line names the delimiter.
    """

    encoding: str
    delimiter: str
    decimal: str
    width: int
    header: tuple[str, ...] | None
    marked: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, or numbers if there is no header."""
        return self.header or tuple(map(str, range(self.width)))


@contextmanager
def text_of(name: str, encoding: str) -> Iterator[TextIO]:
    """Open a file as text; raise a `DataError` if it cannot be decoded."""
    with opened(name) as binary:
        try:
            with io.TextIOWrapper(binary, encoding, newline="") as file:
                yield file
        except (LookupError, UnicodeError) as error:
            raise DataError(
                f"{name} is not {encoding} text ({getattr(error, 'reason', error)}); give its "
                "`encoding`, such as utf-8"
            ) from None


def _encoding(name: str, columns: Columns) -> str:
    """Return the given encoding, that of a byte order mark, UTF-8, or else that of Windows."""
    if columns.encoding is not None:
        return UTF_8 if columns.encoding.lower() in {"utf-8", "utf8"} else columns.encoding
    with opened(name) as file:
        start = file.read(2)
        if start in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
            return "utf-16"
    found = next(filter(partial(_decodes, name), (UTF_8, WINDOWS)), LAST_RESORT)
    if found != UTF_8:
        message = "%s is not UTF-8 text and is read as %s; give `encoding` if wrong"
        logger.warning(message, columns.called, found)
    return found


def _decodes(name: str, encoding: str) -> bool:
    """Return whether a file is text of an encoding."""
    with opened(name) as file, suppress(UnicodeError):
        deque(codecs.iterdecode(iter(partial(file.read, HEAD), b""), encoding), maxlen=0)
        return True
    return False


def layout_of(name: str, columns: Columns) -> Layout:
    """Detect the layout of a text file, as far as it is not given.

    The delimiter is that of a first line like "sep=;", else the first of `;`, tab, `,` and `|` that
    splits the first rows into equal numbers of fields, else white space. The decimal mark is a
    comma if numbers have one and none has a point. The first row is a header if its fields are
    unlike those of the rows below.
    """
    encoding = _encoding(name, columns)
    head, cut = head_of(name, encoding)
    mark = DELIMITER_MARK.match(head)
    head, marked = (head[mark.end() :], mark[2]) if mark else (head, None)
    if head.startswith(COMMENT):
        where = f"{columns.called}, line {1 + bool(mark)}"
        _refuse_comment(head, cut, columns.delimiter or marked, where)
    has_one_name = columns.named_in([head.split("\n", maxsplit=1)[0].strip()])
    is_one = columns.n_features == 1 and not {*columns.known_kinds.values()} <= {*NUMBERS}
    delimiter = columns.delimiter or marked or _delimiter(head, cut, name, has_one_name, is_one)
    delimiter = DELIMITER_NAMES.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise DataError(f"`delimiter` must be one character, got {quoted(delimiter)}")
    rows = _head_rows(head, cut, delimiter, name, COMPARED)
    if not rows:
        raise DataError(f"{name} is empty")
    fields, rest = [field.strip() for field in rows[0]], rows[1:]
    is_known = columns.delimiter or marked or columns.named_in(fields)
    if columns.n_features == 1 and not (is_known or columns.labels):
        _refuse_pairs(rows, delimiter, columns.known_labels, name)
    decimal = columns.decimal or _decimal(rest, delimiter)
    if decimal not in {".", ","} or decimal == delimiter:
        raise DataError(f"`decimal` must be . or , and not the delimiter; got {quoted(decimal)}")
    has_header = columns.header
    is_short = {len(row) - len(fields) for row in rest} == {1} and delimiter in {SPACE, "\t"}
    is_full = any(row[-1].strip() for row in rest)  # or rows just end in a delimiter
    are_words = not any(map(number(decimal).fullmatch, fields))
    if has_header is not False and is_short and is_full and are_words:
        fields, has_header = ["", *fields], True  # as R's write.table writes it
    if has_header is None:
        may_count = columns.n_features is None and columns.names is None
        has_header = columns.named_in(fields) or _is_header(
            fields, rest, decimal, columns.called, may_count
        )
    header = column_names(fields) if has_header else None
    is_given = columns.header or columns.named_in(fields)
    if header and not is_given and len(fields) > 1 and fields[0] and not any(fields[1:]):
        raise DataError(
            f"{name}, line {1 + bool(mark)}: {quoted(fields[0])} looks like a title; remove the "
            "lines above the column names, or give `header` if it is one"
        )
    require_distinct(header or (), name)
    return Layout(encoding, delimiter, decimal, len(fields), header, bool(mark))


def head_of(name: str, encoding: str) -> tuple[str, bool]:
    """Return the first lines of a text file, and whether there are more.

    Raises
    ------
    DataError
        If they are not text.
    """
    with text_of(name, encoding) as file:
        head = file.read(HEAD)
        head += "" if head.count("\n") > 1 else file.readline() + file.readline()
        cut = bool(file.read(1))
    if "\0" in head:
        raise DataError(
            f"{name} is not text, as it has NUL characters; save a spreadsheet as CSV, name a "
            "packed file .csv.gz or .csv.zip, or give an `encoding` such as utf-16-le"
        )
    return head, cut


def _refuse_comment(head: str, cut: bool, delimiter: str | None, where: str) -> None:
    """Raise a `DataError` if line 1, a comment, has more or fewer fields than the first other line.

    If they do not, line 1 may hold the column names after a "#".
    """
    first, *lines = islice(io.StringIO(head, newline=None), COMPARED)
    rest = "".join(dropwhile(lambda line: line.startswith(COMMENT), lines))
    mark = DELIMITER_NAMES.get(delimiter or "", delimiter) or _delimiter(rest, cut, where)
    rows = _head_rows(first + rest, False, mark, where, 2)
    if len({len(row) for row in rows}) == 2:
        raise DataError(
            f"{where}: {quoted(first.strip())} must be column names or values, and looks "
            "like a comment; remove such lines, or a # before names"
        )


def rows_of(lines: Iterable[str], delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number (of the last line) and fields of each row that is not blank."""
    if delimiter == SPACE:
        lines = (re.sub("[ \t]+", " ", line.strip(" \t\r\n")) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}") from None


def _head_rows(head: str, cut: bool, delimiter: str, name: str, most: int) -> list[list[str]]:
    """Return the first rows, without a last row that was cut off."""
    rows = rows_of(io.StringIO(head, newline=""), delimiter, name)
    found = [row for _, row in islice(rows, most)]
    return found[:-1] if cut and 1 < len(found) < most else found


def _delimiter(
    head: str, cut: bool, name: str, has_one_name: bool = False, is_one: bool = False
) -> str:
    """Return the delimiter of a file; a comma if it is one column of words without commas.

    It is one column if its first line is the name of one, and may be one if a model has a single
    column, not of plain numbers. The delimiter is then a mark that does not occur.
    """
    for mark in DELIMITERS:
        with suppress(DataError):  # fields are too long if it is not the delimiter
            widths = {len(row) for row in _head_rows(head, cut, mark, name, SNIFFED)}
            if len(widths) == 1 and (widths != {1} or (has_one_name and mark == ",")):
                return mark
    first = head.lstrip().split("\n", maxsplit=1)[0]
    if found := [mark for mark in DELIMITERS if mark in first]:
        return found[0]
    unused = [mark for mark in (",", *DELIMITERS) if mark not in head]
    return unused[0] if unused and (has_one_name or is_one) else SPACE


def _refuse_pairs(
    rows: Sequence[Sequence[str]], delimiter: str, labels: Collection[str], name: str
) -> None:
    """Raise a `DataError` if rows may be numbers with a comma, rather than a value and a label.

    Known labels show that they are pairs; digits do so only if decimals would hardly match them.
    """
    if delimiter != "," or any(len(row) != 2 for row in rows):
        return
    ends = [row[1].strip() for row in rows]
    are_labels = all(end in labels for end in ends)
    if are_labels and all(map(str.isdecimal, ends)):
        known = Counter(map(len, labels))
        are_labels = math.prod(known[len(end)] / 10.0 ** len(end) for end in ends) < CHANCE
    if not are_labels and all(is_numeral(",".join(row)) for row in rows):
        raise DataError(
            f"{name}: {','.join(rows[0])} may be one number or two; give its `delimiter`, which is "
            ", between two, and any other character beside decimal commas"
        )


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    fields = [field.strip() for row in rows for field in row]
    has_point, has_comma = (
        any(mark in field and number(mark).fullmatch(field) for field in fields) for mark in ".,"
    )
    return "," if has_comma and not has_point else "."


def number(decimal: str) -> re.Pattern[str]:
    """Return the pattern of numbers with a decimal mark."""
    mark = re.escape(decimal)
    digits = rf"(\d+{mark}?\d*|{mark}\d+)(e[+{MINUS}-]?\d+)?"
    return re.compile(rf"[+{MINUS}-]?({digits}|inf|infinity|nan)", re.ASCII | re.IGNORECASE)


def _is_header(
    first: Sequence[str], rest: Sequence[Sequence[str]], decimal: str, name: str, may_count: bool
) -> bool:
    """Return whether the first row is a header: its fields are unlike those below, or numbers.

    These are column numbers, or steps. If it `may_count`, they need no word beside them, as pandas
    writes an array, unless all rows are whole numbers. It is an error if some fields are unlike
    those below, but at least as many are like them.
    """
    tests = (number(decimal).fullmatch, DATE.fullmatch)
    if not rest:
        return not any(map(tests[0], first))
    alike, unlike, new, unsure = list[int](), list[int](), list[int](), list[int]()
    for place, (field, *below) in enumerate(zip(first, *rest, strict=False)):
        words = [word for word in map(str.strip, below) if word not in MISSING]
        if field in MISSING or not words:
            continue
        typed = [test for test in tests if sum(map(bool, map(test, words))) >= 0.9 * len(words)]
        if typed or field in words:
            (alike if field in words or typed[0](field) else unlike).append(place)
        elif len(words) >= SNIFFED and 2 * len({*words}) <= len(words):
            new.append(place)  # a new word above repeated ones
        else:
            unsure.append(place)
    odd = unlike + new + unsure
    numbered = bool(odd) and _are_steps(first, rest, odd, decimal)
    numbers = [field for place, field in enumerate(first) if field and place not in odd]
    n = len(numbers)
    if numbers and numbers in ([*map(str, range(n))], [*map(str, range(1, n + 1))]):
        numbered |= len(odd) == 1 and not unsure
        if may_count and not odd and n >= MIN_NUMBERED and len(rest) > 1:
            numbered |= not all(WHOLE.fullmatch(field.strip()) for row in rest for field in row)
    if 0 < len(unlike) <= len(alike) and not numbered:
        raise DataError(
            f"{name}, line 1: {listed([repr(first[place]) for place in unlike])} is unlike what is "
            f"below (column {listed(unlike)}, counted from 0), and other fields are not; correct "
            "it if it is a value, or give `header` or `no_header`"
        )
    header = numbered or bool(unlike) or not alike
    if numbered or header != bool(unlike + new):  # the words may be values, too
        logger.warning(
            "%s: line 1 (%s) is taken for %s; if that is wrong, give `header` or `no_header`",
            *(name, listed(first), "the header" if header else "values"),
        )
    return header


def _are_steps(
    first: Sequence[str], rest: Sequence[Sequence[str]], odd: Sequence[int], decimal: str
) -> bool:
    """Return whether the first row, but for `odd` fields, holds steps such as wavelengths.

    They are at least `MIN_STEPS` numbers that only rise or only fall, unlike most rows below.
    """

    def is_monotonic(row: Sequence[str]) -> bool:
        fields = [field.strip() for place, field in enumerate(row) if place not in odd]
        found = [float(x.replace(decimal, ".").replace(MINUS, "-")) for x in fields if is_number(x)]
        pairs = list(pairwise(found))
        is_complete = len(found) == len(fields) >= MIN_STEPS
        return is_complete and (all(a < b for a, b in pairs) or all(a > b for a, b in pairs))

    is_number = number(decimal).fullmatch
    return is_monotonic(first) and 2 * sum(map(is_monotonic, rest)) < len(rest)
