"""What a reader is, how one is registered and found, and what several formats share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sparsegp.data.storage import is_file, is_url, opened
from sparsegp.data.table import Dataset, Table
from sparsegp.errors import DataError
from sparsegp.registry import Registry

LabelColumn: TypeAlias = str | int | None
"""A column's name, its number counted from 0 (negative: from the end), or None for the last."""

ReadFunction: TypeAlias = Callable[[str, LabelColumn, int | None], Dataset]
"""From the name of a file, the label column and the number of columns that a model takes.

A `DataError` says in one line what is wrong with a file, and where.
"""


@dataclass(frozen=True)
class Reader:
    """One file format.

    Parameters
    ----------
    read : callable
    magic : bytes
        How its files begin; empty where nothing is certain.
    columns : bool
        Labels are one of the columns.
    """

    read: ReadFunction
    magic: bytes = b""
    columns: bool = False


READERS: Registry[Reader] = Registry("format")
"""Readers by the ends of the names of their files."""


def reader(*endings: str, **about: bytes | bool) -> Callable[[ReadFunction], ReadFunction]:
    """Register the decorated function for files whose names end so; `about` is for `Reader`."""

    def add(read: ReadFunction) -> ReadFunction:
        for ending in endings:
            READERS.register(ending)(Reader(read, **about))  # type: ignore[arg-type]
        return read

    return add


def find_reader(name: str) -> Reader:
    """Choose the reader of a file or directory by its name, else by its first bytes.

    Raises
    ------
    DataError
        If neither is known.
    """
    first = name.split(",", maxsplit=1)[0].rstrip("/").lower().removesuffix(".gz")
    for ending in READERS:
        if first.endswith(ending):
            return READERS[ending]
    if is_file(name):
        with opened(name) as file:
            start = file.read(16)
        for each in map(READERS.__getitem__, READERS):
            if each.magic and start.startswith(each.magic):
                return each
    elif is_url(name) or any((Path(name) / key).exists() for key in ("zarr.json", ".zgroup")):
        return READERS[".zarr"]
    raise DataError(
        f"the format of {name!r} is not known; names must end in one of: {', '.join(READERS)} "
        f"(text and IDX files may be compressed, with .gz at the end)"
    )


ARRAYS = ("X", "y", "X_train", "y_train", "X_test", "y_test")


def dataset_of_arrays(
    names: Iterable[str], table: Callable[[str, str | None], Table], source: str
) -> Dataset:
    """Make a data set of the arrays `X[, y]` or `X_train, y_train[, X_test, y_test]` of a file.

    Parameters
    ----------
    names : iterable of str
        The arrays that there are.
    table : callable
        Makes a table of the arrays with these two names (the second may be None).
    source : str
        The file, for messages.

    Raises
    ------
    DataError
        If the arrays have other names, or rows have no labels though there is a test split.
    """
    present = sorted(names)
    if "X_train" not in present and "X" in present:
        return Dataset(table("X", "y" if "y" in present else None))
    needed = {"X_train", "y_train"} | ({"y_test"} if "X_test" in present else set())
    if not needed <= set(present):
        raise DataError(
            f"{source} must hold X and y, or X_train, y_train and perhaps X_test, y_test; "
            f"found: {_listed(present)}"
        )
    test = table("X_test", "y_test") if "X_test" in present else None
    return Dataset(table("X_train", "y_train"), test)


def label_place(
    wanted: LabelColumn,
    n_features: int | None,
    width: int,
    names: Sequence[str] | None,
    source: str,
) -> int | None:
    """Return the place of the label column, counted from 0, or None when there are no labels.

    A file with just the columns that a model takes has none, unless a label column is asked for.

    Parameters
    ----------
    wanted : str, int or None
    n_features : int or None
        Columns that a model takes.
    width : int
        Columns of the file.
    names : sequence of str, or None
        Their names, where they have any.
    source : str
        The file, for messages.

    Raises
    ------
    DataError
        If there is no such column, or the number of columns does not fit the model.
    """
    if n_features == width and wanted is None:
        return None
    if n_features is not None and width != n_features + 1:
        raise DataError(
            f"the model takes {n_features} columns; {source} has {width}, which is neither "
            f"{n_features} nor, with labels, {n_features + 1}"
        )
    if width < 2:
        raise DataError(f"{source} has {width} column; numbers and labels are needed")
    if names is not None and wanted in names:
        return list(names).index(str(wanted))
    try:
        place = width - 1 if wanted is None else int(wanted)
    except ValueError:
        place = width
    if not -width <= place < width:
        listed = "it has no header" if names is None else f"its columns: {_listed(names)}"
        raise DataError(
            f"{source} has no label column {wanted!r}; {listed}; give a name of its header, or a "
            f"number from 0 to {width - 1}, or from -{width} to -1"
        )
    return place % width


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > 20 else ""
    return (", ".join(name[:40] for name in names[:20]) or "nothing") + more
