"""Reader of parquet files. A group of rows is read inside the task that needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function
from sparsegp.data.labels import REAL_KINDS, tidy_labels
from sparsegp.data.readers.base import LabelColumn, label_place
from sparsegp.data.storage import opened
from sparsegp.data.table import Dataset, Table, column_names
from sparsegp.errors import DataError


def read_parquet(name: str, label_column: LabelColumn, n_features: int | None) -> Dataset:
    """Read columns of numbers and one of labels; missing numbers become NaN."""
    with _parquet(name) as file:
        kinds = {field.name: field.type for field in file.schema_arrow}
        columns = [column for column in kinds if not column.startswith("__index_level_")]
        label = label_place(label_column, n_features, len(columns), columns, name)
        features = [column for place, column in enumerate(columns) if place != label]
        dtypes = [_dtype(kinds[column]) for column in features]
        for column, dtype in zip(features, dtypes, strict=True):
            if dtype.kind not in REAL_KINDS:
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
    dtype = np.result_type(np.float32, *dtypes)  # floats, as some may be missing
    X = from_function(partial(_group, name, features, dtype), sizes, len(features), dtype, name)
    return Dataset(Table(X, y, name, names=column_names(features)))


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the dtype of a type of columns; that of objects if it has none."""
    try:
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    except NotImplementedError:
        return np.dtype(object)
    return dtype


def _group(
    name: str, columns: list[str], dtype: np.dtype[Any], group: int, rows: slice
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
