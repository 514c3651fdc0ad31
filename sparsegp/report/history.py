"""The learning curve of a run: records of figures, a record need not have all of them."""

import csv
import io
import os
from collections.abc import Mapping, Sequence

from sparsegp.store import file_of

Records = Sequence[Mapping[str, float]]
"""For instance ``[{"n_active": 100, "seconds": 3.2, "heldout_error": 0.05}]``."""


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
    text, names = io.StringIO(), dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    folder, name = file_of(path, "history.csv")
    with folder.writing(name, sync=False) as file:
        file.write(text.getvalue().encode())
