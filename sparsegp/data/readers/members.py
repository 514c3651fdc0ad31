"""Files that hold named arrays: which of them are training and test rows."""

from collections.abc import Callable, Iterable

from sparsegp.data.storage import printable
from sparsegp.data.table import Dataset, Table
from sparsegp.errors import DataError


def dataset_from_members(
    names: Iterable[str], table: Callable[[str, str | None], Table], source: str
) -> Dataset:
    """Make a data set of `X[, y]` or of `X_train, y_train[, X_test, y_test]`.

    Parameters
    ----------
    names : iterable of str
        The arrays that there are.
    table : callable
        Makes a checked table of the arrays with these two names (the second may be None).
    source : str
        The file, for messages.

    Raises
    ------
    DataError
        If the arrays have other names, or rows have no labels though there is a test split.
    """
    present = sorted(names)
    if "X_train" not in present and "X" not in present:
        raise DataError(
            f"{source} must hold X and y, or X_train, y_train and perhaps X_test, y_test; "
            f"found: {_listed(present)}"
        )
    if "X_train" not in present:
        return Dataset(table("X", "y" if "y" in present else None))
    for part in ("train", "test"):
        if f"X_{part}" in present and f"y_{part}" not in present:
            raise DataError(f"{source} holds X_{part} but not y_{part}; found: {_listed(present)}")
    test = table("X_test", "y_test") if "X_test" in present else None
    return Dataset(table("X_train", "y_train"), test)


def _listed(names: list[str]) -> str:
    return printable(", ".join(names[:20])) or "nothing"
