"""Reader of .npz archives. Members are compressed as a whole, so they are read into memory."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.readers.base import Request, reader, reading
from sparsegp.data.readers.members import dataset_from_members
from sparsegp.data.table import Dataset, Table, table_from_arrays
from sparsegp.errors import DataError


@reader(".npz", magic=b"PK\x03\x04")
def read_npz(name: str, request: Request) -> Dataset:
    """Read `X, y` or `X_train, y_train[, X_test, y_test]`; nothing is ever unpickled.

    Raises
    ------
    DataError
        If the archive is damaged, lacks arrays, or holds Python objects in place of numbers.
    """
    with reading(name), Path(name).open("rb") as file:
        archive: Any = np.load(file, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise DataError(f"{name} is a single array, no archive of arrays; call it .npy")
        with archive:

            def table(X: str, y: str | None) -> Table:
                labels = None if y is None else _member(archive, y, name)
                return table_from_arrays(_member(archive, X, name), labels, f"{name} ({X})")

            return dataset_from_members(archive.files, table, name)


def _member(archive: Any, member: str, name: str) -> NDArray[Any]:
    try:
        return np.asarray(archive[member])
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
    raise DataError(
        f"{member} in {name} is an array of Python objects, which is not read because it could "
        f"run code; store numbers or strings, for example {member}.astype(float) or .astype(str)"
    )
