"""The learning curve of a run: records of figures, a record need not have all of them."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sparsegp.store import file_of
from sparsegp.types import Doubles

Records = Sequence[Mapping[str, float]]
"""For instance ``[{"n_active": 100, "seconds": 3.2, "heldout_error": 0.05}]``."""


def names_of(records: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names of all figures in the order in which they were first seen."""
    return list(dict.fromkeys(name for record in records for name in record))


def curve(records: Records, name: str) -> tuple[Doubles, Doubles]:
    """Return numbers of active rows (m,) and values of a figure (m,), where there are both."""
    pairs = [
        (record["n_active"], record[name]) for record in records if {"n_active", name} <= {*record}
    ]
    x, y = np.array(pairs, np.float64).reshape(-1, 2).T
    return x, y


def write_history(records: Records, path: str | os.PathLike[str]) -> None:
    """Write a table with a line of names; missing values are empty, numbers exact.

    Parameters
    ----------
    records : sequence of mapping
    path : path or URL
        A file of that name is replaced whole or not at all.

    Raises
    ------
    StoreError
        If the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, names_of(records), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    folder, name = file_of(path, "history.csv")
    with folder.writing(name, sync=False) as file:
        file.write(text.getvalue().encode())
