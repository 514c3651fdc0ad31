"""What several formats share: files beside each other, names of arrays, the label column."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from sparsegp.data.storage import size_of
from sparsegp.data.table import Dataset, Table
from sparsegp.errors import DataError

LabelColumn: TypeAlias = str | int | None
"""A column's name, its number counted from 0 (negative: from the end), or None for the last."""

ARRAYS = ("X", "y", "X_train", "y_train", "X_test", "y_test")


def beside(name: str, *replaced: tuple[str, str], ends: Sequence[str] = ("",)) -> str | None:
    """Return the file in the same folder with another name, None where there is none.

    Parameters
    ----------
    name : str
    *replaced : pair of str
        Patterns, and what the name of the other file has in their place.
    ends : sequence of str
        What either name may end in besides, such as .gz.
    """
    folder, slash, last = name.rpartition("/")
    for end in ends:
        last = last.removesuffix(end)
    other = last
    for pattern, text in replaced:
        other = re.sub(pattern, text, other)
    found = (folder + slash + other + end for end in ends)
    return next((each for each in found if other != last and size_of(each) is not None), None)


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
    present = set(names)
    if "X_train" not in present and "X" in present:
        return Dataset(table("X", "y" if "y" in present else None))
    tested = "X_test" in present
    if not present >= {"X_train", "y_train"} | ({"y_test"} if tested else set()):
        raise DataError(
            f"{source} must hold X and y, or X_train, y_train and perhaps X_test, y_test; "
            f"found: {_listed(sorted(present))}"
        )
    test = table("X_test", "y_test") if tested else None
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
