"""Reader of .npy pairs. Rows stay on disk: each task maps the file and copies its rows."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function, row_blocks
from sparsegp.data.readers.base import Request, reader, reading
from sparsegp.data.table import Dataset, Table, check_table, table_from_arrays, tidy_labels
from sparsegp.errors import DataError

LONE_X = re.compile(r"(?<![A-Za-z0-9])X(?![A-Za-z0-9])")
"""The X of X.npy, X_train.npy, foo_X.npy."""


@reader(".npy", magic=b"\x93NUMPY")
def read_npy(name: str, request: Request) -> Dataset:
    """Read "X.npy,y.npy", or X.npy with the y.npy beside it.

    The labels beside a file are those of the same name with y in place of X; there need not be
    any. Beside X_train.npy, X_test.npy and y_test.npy become the test table.

    Raises
    ------
    DataError
        If a file is missing, damaged, or holds Python objects.
    """
    if "," in name and not Path(name).exists():
        parts = [part.strip() for part in name.split(",")]
        for part in parts:
            if not Path(part).expanduser().is_file():
                raise DataError(f"no such file {part!r}; a pair of arrays is given as X.npy,y.npy")
        if len(parts) != 2 or not all(part.lower().endswith(".npy") for part in parts):
            raise DataError(f"a pair of arrays is given as X.npy,y.npy; found {name!r}")
        inputs, labels = (Path(part).expanduser() for part in parts)
        return Dataset(_table(inputs, labels))
    inputs = Path(name)
    labels = _renamed(inputs, LONE_X, "y")
    train = _table(inputs, labels if labels.is_file() and labels != inputs else None)
    inputs, labels = (_renamed(path, re.compile("train"), "test") for path in (inputs, labels))
    if labels == inputs or inputs == Path(name) or not (inputs.is_file() and labels.is_file()):
        return Dataset(train)
    return Dataset(train, _table(inputs, labels))


def read_rows(name: str, stamp: int, start: int, stop: int) -> NDArray[Any]:
    """Read rows start..stop-1 of a .npy file; `stamp` tells versions of the file apart."""
    with reading(name):
        return np.array(np.load(name, mmap_mode="r", allow_pickle=False)[start:stop])


def _table(inputs: Path, labels: Path | None) -> Table:
    name = str(inputs)
    y = None if labels is None else tidy_labels(np.array(_mapped(str(labels))), str(labels))
    X = _mapped(name)
    if X.ndim != 2 or X.dtype.kind == "U":
        return table_from_arrays(X, y, name)
    stamp = inputs.stat().st_mtime_ns
    blocks = row_blocks(*X.shape)
    given = [(name, stamp, start, stop) for start, stop in blocks]
    rows = from_function(read_rows, given, [b - a for a, b in blocks], X.shape[1], X.dtype)
    return check_table(Table(rows, y, name))


def _mapped(name: str) -> NDArray[Any]:
    with reading(name):
        try:
            array: Any = np.load(name, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "Python objects" not in str(error):
                raise
            raise DataError(
                f"{name} is an array of Python objects, which is not read because it could run "
                f"code; store numbers or strings, for example with .astype(float) or .astype(str)"
            ) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataError(f"{name} is an archive of arrays; call it .npz")
    return array


def _renamed(path: Path, pattern: re.Pattern[str], text: str) -> Path:
    return path.with_name(pattern.sub(text, path.stem) + path.suffix)
