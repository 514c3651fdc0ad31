"""Reader of svmlight and libsvm files. The rows stay sparse until a chunk is needed."""

from typing import Any

from sparsegp.data.readers.columns import Columns
from sparsegp.data.storage import Lines, opened
from sparsegp.data.table import Dataset, table_from_arrays
from sparsegp.errors import DataError

WEIGHT = 4
"""Bytes of memory that a character of text takes at most, about: a row of `1:1 2:1 3:1`."""


def read_svmlight(name: str, columns: Columns) -> Dataset:
    """Read lines of `label column:value column:value ...`.

    Columns after the last one that occurs are not in the file: a model's number of columns
    (`columns.n_features`) lets its test rows match.
    """
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    with opened(name) as file:
        lines: Any = Lines(file, name, WEIGHT)
        try:
            X, y = load_svmlight_file(lines, n_features=columns.n_features)
        except DataError:
            raise
        except Exception as error:
            last = lines.last.decode(errors="replace").strip()[:60]
            place = f"{name}, line {lines.number}, {last!r}" if last else name
            raise DataError(
                f"cannot read {place}: {error}; 'label column:value ...' is expected"
            ) from None
    return Dataset(table_from_arrays(X, y, name))
