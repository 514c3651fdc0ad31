"""Reader of parquet files. A group of rows is read inside the task that needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function
from sparsegp.data.labels import tidy_labels
from sparsegp.data.readers.base import LabelColumn, label_place, reader
from sparsegp.data.storage import opened
from sparsegp.data.table import Dataset, Table, column_names
from sparsegp.errors import DataError

SMALL = {"bool", "int8", "uint8", "int16", "uint16", "halffloat", "float"}
"""Types of columns whose values are floats of 32 bits, and NaN where they are missing."""

LARGE = SMALL | {"int32", "uint32", "int64", "uint64", "double"}


@reader(".parquet", magic=b"PAR1", columns=True)
def read_parquet(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read columns of numbers and one of labels; missing numbers become NaN."""
    with _parquet(name) as file:
        kinds = {field.name: str(field.type) for field in file.schema_arrow}
        columns = [column for column in kinds if not column.startswith("__index_level_")]
        label = label_place(label_column, n_features, len(columns), columns, name)
        features = [column for place, column in enumerate(columns) if place != label]
        for column in features:
            if kinds[column] not in LARGE:
                raise DataError(
                    f"columns must hold numbers; {column!r} of {name} holds {kinds[column]}. Drop "
                    f"it, or name it as the label column"
                )
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        y = None
        if label is not None:
            values = file.read(columns=[columns[label]]).column(0).to_pylist()
            y = tidy_labels(np.array(values, dtype=object), name)
    if not sizes:
        raise DataError(f"{name} has no rows")
    small = all(kinds[column] in SMALL for column in features)
    dtype = np.dtype("f4" if small else "f8")
    X = from_function(partial(_group, name, features), sizes, len(features), dtype, name)
    return Dataset(Table(X, y, name, names=column_names(features)))


def _group(
    name: str, columns: list[str], group: int, start: int, shape: Any, dtype: Any
) -> NDArray[Any]:
    """Read one group of rows, (rows, p)."""
    with _parquet(name) as file:
        table = file.read_row_group(group, columns=columns)
        X = np.empty((table.num_rows, len(columns)), dtype)
        for place, column in enumerate(columns):
            X[:, place] = table.column(column).to_numpy()
        return X


@contextmanager
def _parquet(name: str) -> Iterator[Any]:
    try:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415
    except ImportError:
        raise DataError(
            'parquet files need pyarrow; install it by pip install "sparsegp[parquet]"'
        ) from None
    with opened(name) as source, ParquetFile(source) as file:
        yield file
