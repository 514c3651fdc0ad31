"""Files of columns, one of which may hold the labels: which one, and what messages call it."""

from collections.abc import Sequence

from sparsegp.data.readers.base import LabelColumn, Request
from sparsegp.data.storage import printable
from sparsegp.errors import DataError


def label_index(
    request: Request, width: int, names: Sequence[str] | None, source: str
) -> int | None:
    """Return the place of the label column, counted from 0, or None when there are no labels.

    A file with just the columns that a model takes has none, unless a label column is asked for.

    Parameters
    ----------
    request : Request
        What the caller knows.
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
    wanted, expected = request.label_column, request.n_features
    if expected is not None and width == expected and wanted is None:
        return None
    if expected is not None and width != expected + 1:
        raise DataError(
            f"the model takes {expected} columns; {source} has {width}, which is neither "
            f"{expected} nor, with labels, {expected + 1}"
        )
    if width < 2:
        raise DataError(
            f"{source} has {width} column; at least one of numbers and one of labels are needed"
        )
    return _place(wanted, width, names, source)


def _place(wanted: LabelColumn, width: int, names: Sequence[str] | None, source: str) -> int:
    if wanted is None:
        return width - 1
    if isinstance(wanted, str) and names is not None and wanted in names:
        return list(names).index(wanted)
    try:
        place = int(wanted)
    except ValueError:
        listed = (
            f"its columns: {_listed(names)}"
            if names is not None
            else f"it has no header; give a number from 0 to {width - 1}"
        )
        raise DataError(f"{source} has no label column {wanted!r}; {listed}") from None
    if not -width <= place < width:
        listed = f" ({_listed(names)})" if names is not None else ""
        raise DataError(
            f"{source} has {width} columns{listed}; label column {place} is not one of "
            f"0..{width - 1} or -{width}..-1"
        )
    return place % width


def _listed(names: Sequence[str]) -> str:
    shown = printable(", ".join(names[:20]))
    return shown if len(names) <= 20 else f"{shown}, ... ({len(names)} in all)"
