"""Files with columns, one of which is the label: their description, and the columns used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparsegp.data.column import KINDS
from sparsegp.data.frames import UNNAMED, Frame, Where, by_row, column_places, listed
from sparsegp.data.labels import refuse_several
from sparsegp.data.table import Table, table_from_frame
from sparsegp.errors import DataError, quoted
from sparsegp.lists import pairs_in, plural, words_in
from sparsegp.types import Booleans, Labels

GIVEN = (
    *("label_column", "kinds", "drop", "id_column", "header", "delimiter", "decimal"),
    *("encoding", "missing"),
)
"""Fields of `Columns` that users give; models determine the others."""


@dataclass(frozen=True)
class Columns:
    """Description of the columns of a file; what is not given is detected.

    Parameters
    ----------
    label_column : str or int, optional
        The label column of a text or parquet file: a name, or a number counted from 0
        (from the end if negative). By default the last one.
    kinds : mapping of str to str, or str
        Kinds of columns, by name or number: number, truth, category or date, others raise a
        `DataError`; or as a string, "city=category,when=date".
    drop : sequence of str, or str
        Columns to leave out, by name or number; or as a string, "a,b". In such strings, names
        with a comma must be in double quotes.
    id_column : str or int, optional
        A column, given likewise, that is not an input but is kept for output: see `Table.beside`.
        Rows that share ids are held out together: see `Table.families`.
    header : bool, optional
        Whether the first row of a text file holds the column names.
    delimiter, decimal, encoding : str, optional
        Of a text file.
    missing : sequence of str, or str
        Additional markers of missing values in a text or parquet file.
    """

    label_column: str | int | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    id_column: str | int | None = None
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    labels: bool = True  # whether to read labels
    weight_column: str | None = None  # read as an input; see `Table.weight_column`

    # of a model, and of the rows that it was trained on
    n_features: int | None = None
    """Number of inputs. A file with exactly as many columns is read without labels."""
    names: tuple[str, ...] | None = None
    """Names of inputs. From a file with named columns only these are read, and the labels."""
    known: str | None = None  # label column, which the file may have too
    known_labels: Sequence[str] = ()
    known_id: str | None = None
    weight: str | None = None  # by name or number of an input: the file may have it beside them
    known_kinds: Mapping[str, str] = field(default_factory=dict)
    known_missing: Sequence[str] = ()

    # of a part of a stream
    layout: Any = None  # a `Layout`, if it is already known
    before: tuple[int, int] = (0, 0)  # numbers of preceding lines and rows
    called: str = ""  # name of the file in warnings; by default its own

    def __post_init__(self) -> None:
        for column, kind in self.kinds.items():
            if kind not in KINDS or not column:
                raise DataError(
                    f"`kinds` must say NAME=KIND of columns, KIND one of {', '.join(KINDS)}; got "
                    f"{quoted(f'{column}={kind}' if column else kind)}"
                )

    @classmethod
    def of(cls, **given: Any) -> "Columns":
        """Create a description; a string may list several columns or words."""
        for name in {"drop", "missing"} & given.keys():
            words = given[name] or ()
            words = words_in(words) if isinstance(words, str) else map(str, words)
            given[name] = tuple(word.strip() for word in words)
        kinds = given.pop("kinds", None) or {}
        if isinstance(kinds, str):
            kinds = pairs_in(kinds)
        kinds = {str(column).strip(): str(kind).strip() for column, kind in kinds.items()}
        return cls(kinds=kinds, **given)

    @property
    def markers(self) -> tuple[str, ...]:
        """Additional markers of missing values, those of the training file included."""
        return tuple(dict.fromkeys((*self.missing, *self.known_missing)))

    @property
    def asked(self) -> set[str]:
        """Names and numbers of columns that users give."""
        given = (self.label_column, self.id_column, self.weight_column, *self.drop, *self.kinds)
        return {str(each) for each in given if each is not None}

    @property
    def named(self) -> set[str]:
        """Names and numbers of all columns that are asked for."""
        known = (self.known, self.known_id, self.weight, *(self.names or ()))
        return self.asked.union(str(each) for each in known if each is not None)

    def named_in(self, fields: Sequence[str]) -> bool:
        """Return whether fields are a header, with a requested name or all names of a model."""
        asked = {each for each in self.asked if not each.removeprefix("-").isdecimal()}
        return bool(asked & {*fields}) or (bool(self.names) and {*(self.names or ())} <= {*fields})

    @property
    def widths(self) -> tuple[int | None, ...]:
        """Numbers of inputs that a file may have for a model; weights are read as one more."""
        n = self.n_features
        return (n,) if n is None or self.weight is None else (n, n + 1)

    @property
    def given(self) -> list[str]:
        """Names of the fields that were given and apply only to files with columns."""
        return [name for name in GIVEN if getattr(self, name) not in (None, (), {})]


class Places(NamedTuple):
    """The columns of a file that are used, by index, and what is known about them."""

    inputs: dict[int, str]  # their names; in a file without names, those of the model or x0, ...
    label: int | None
    id: int | None
    weight: int | None  # one of the inputs, if it was given as weights
    kinds: dict[str, str]  # of inputs by name, as far as they are given or known
    names: Sequence[str]  # of all columns; their numbers, if not `named`
    named: bool  # whether the columns of the file have names

    @property
    def others(self) -> list[int]:
        """Columns that are used but are not inputs."""
        return [place for place in (self.label, self.id) if place is not None]


def places_of(columns: Columns, names: Sequence[str], source: str, named: bool = True) -> Places:
    """Return the columns of a file that are used.

    If columns have names, a model uses its own and ignores others. Labels are then in the label
    column that is given or known; without one, in the only other column with a name. A file with
    exactly the input columns of a model has no labels, unless a label column is given.

    Parameters
    ----------
    columns : Columns
    names : sequence of str
        Column names of the file; their numbers, if not `named`.
    source : str
        For messages.
    named : bool
        Whether the columns of the file have names.

    Raises
    ------
    DataError
        If columns are missing.
    """
    place = partial(_place, names, named, source)
    known = columns.known_id if named and columns.known_id in names else None
    asked = known if columns.id_column is None else columns.id_column
    ids = None if asked is None else place(asked, "id column")
    wanted, label = columns.names if named else None, columns.label_column
    asked = columns.weight_column
    weighs = None if asked is None else place(asked, "weight column")
    weight = columns.weight if weighs is None else names[weighs]
    left = {place(each, "column to drop") for each in columns.drop}
    rest = [each for each in range(len(names)) if each not in {ids, *left}]
    label = _label(columns, names, rest, named) if label is None else place(label, "label column")
    if wanted is not None:
        if weight in wanted:
            raise DataError(
                f"`weight_column` must not be an input of the model, got {quoted(weight)}"
            )
        wanted = (*wanted, *(names[each] for each in rest if names[each] == weight))
        inputs = column_places(wanted, names, source)
        if needed := [names[each] for each in inputs if each in left]:
            raise DataError(f"the model needs {listed(needed)} of {source}; do not `drop` it")
    else:
        inputs = [each for each in rest if each != label]
    if not inputs:
        count = plural(len(names), "column")
        more = "; if it has more, give their `delimiter`" if len(names) == 1 else ""
        raise DataError(f"{source} has {count}, and none is left as an input{more}")
    called = [names[each] if named else f"x{each}" for each in inputs]
    if not named and len(columns.names or ()) == len(inputs):
        called = [*(columns.names or ())]
    found, known_kinds = dict(zip(inputs, called, strict=True)), columns.known_kinds
    kinds = {name: known_kinds[name] for name in called if name in known_kinds}
    given = {place(each, "column"): kind for each, kind in columns.kinds.items()}
    kinds.update((found[each], kind) for each, kind in given.items() if each in found)
    return Places(found, label if columns.labels else None, ids, weighs, kinds, names, named)


def _label(columns: Columns, names: Sequence[str], rest: Sequence[int], named: bool) -> int | None:
    """Return the index of the label column among the remaining ones, if none is given."""
    if not (named and columns.names):  # by position, as in a file without a header
        if (known := str(columns.known)) in map(str, rest) and len(rest) - 1 in columns.widths:
            return int(known)
        return rest[-1] if rest and columns.n_features != len(rest) else None
    if columns.known in names:
        return names.index(columns.known)
    if columns.known is not None:
        return None
    others = [each for each in rest if names[each] not in columns.names]
    others = [each for each in others if not names[each].startswith(UNNAMED)] or others
    return others[0] if len(others) == 1 else None


def _place(names: Sequence[str], named: bool, source: str, wanted: str | int, role: str) -> int:
    """Return the index of a column that is given by name or number; x3 is 3 without a header."""
    width = len(names)
    if named and wanted in names:
        return names.index(str(wanted))
    try:
        place = int(wanted if named else str(wanted).removeprefix("x"))
    except ValueError:
        place = width
    if not -width <= place < width:
        folded = {name.casefold(): name for name in names}
        alike = get_close_matches(str(wanted).casefold(), folded, 1, 0.8)
        near = f" (did you mean {folded[alike[0]][:40]!r}?)" if named and alike else ""
        found = f"its columns: {listed(names)}{near}" if named else "it has no header"
        raise DataError(
            f"{source} has no {role} {wanted!r}; {found}; give a name of its header, or a "
            f"number from 0 to {width - 1}, or from -{width} to -1"
        )
    return place % width


def table_from_file(frame: Frame, beside: Mapping[str, Any], places: Places, source: str) -> Table:
    """Create a table from a frame, which is encoded later.

    Parameters
    ----------
    frame : Frame
        Inputs.
    beside : mapping
        Labels and ids, by column name.
    places : Places
    source : str
        For messages.
    """
    each = (places.label, places.id)
    label, ids = (None if place is None else places.names[place] for place in each)
    y = None if label is None else beside[label]
    table = table_from_frame(replace(frame, of_file=True), y, source, places.kinds, label)
    if ids is not None:
        table = replace(table, beside={ids: _ids(beside[ids], ids, source)})
    if places.weight is not None:
        if places.weight not in places.inputs:
            name = quoted(places.names[places.weight])
            raise DataError(f"{source}: `weight_column` {name} must not be the label, nor left out")
        number = [*places.inputs].index(places.weight)
        weights = (table.names or ())[number] if places.named else str(number)
        table = replace(table, weight_column=weights)
    return table if places.named else replace(table, names=None)


def _ids(values: Any, name: str, source: str) -> Labels:
    """Return ids (n,): numbers unchanged, others as text, so that they can be written.

    Raises
    ------
    DataError
        If one is missing, or they are neither numbers nor text.
    """
    ids = np.asarray(values)
    if ids.dtype.kind in "biuU":
        return ids
    require_each(values.isna().to_numpy(bool), name, "id", by_row, source)
    refuse_several(ids.tolist(), f"column {quoted(name)} of {source}", "id")
    return ids if ids.dtype.kind == "f" else ids.astype(str)


def require_each(
    gaps: Booleans, name: str, role: str, where: Where, source: str, word: str = ""
) -> None:
    """Raise a `DataError` if a label or id is missing; `word` is how the first one is written."""
    if gaps.any():
        written = f" ({quoted(word)} stands for that: spell the {role} otherwise)" if word else ""
        rest = f"in {gaps.sum()} of {len(gaps)} rows: leave these rows out, or"
        raise DataError(
            f"{source}, {where(int(gaps.argmax()), name)}: the {role} is missing{written}; it is "
            f"missing {'in all rows:' if gaps.all() else rest} give another {role}_column"
        )
