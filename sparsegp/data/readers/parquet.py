"""Reader of parquet, whose rows stay where they are until they are needed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function
from sparsegp.data.frames import Frame, require_distinct
from sparsegp.data.readers.columns import Columns, places_of, table_of
from sparsegp.data.storage import opened, require_memory
from sparsegp.data.table import Dataset
from sparsegp.errors import DataError

NUMERIC = r"bool|u?int\d+|halffloat|float|double"
"""Types that hold real numbers."""


def read_parquet(name: str, columns: Columns) -> Dataset:
    """Read columns of numbers without gaps as an array, others as a data frame; both lazily."""
    with _parquet(name) as file:
        schema = file.schema_arrow
        names = tuple(each for each in schema.names if not each.startswith("__index_level_"))
        require_distinct(names, name)
        places = places_of(columns, names, name)
        features = [names[place] for place in places.inputs]
        others = [names[place] for place in places.others]
        require_memory(8 * file.metadata.num_rows * len(others), name)
        beside = dict(_pandas(file.read(columns=others))) if others else {}
        empty = schema.empty_table().select(features)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    sizes = [group.num_rows for group in groups]
    if not sum(sizes):
        raise DataError(f"{name} has no rows")
    numeric = all(re.fullmatch(NUMERIC, str(field.type)) for field in empty.schema)
    if numeric and not places.kinds and all(_is_whole(group, {*features}) for group in groups):
        dtypes = (field.type.to_pandas_dtype() for field in empty.schema)
        dtype = np.result_type(np.float32, *dtypes)
        read: Any = partial(_group, name, features, dtype)
        X: Any = from_function(read, sizes, len(features), dtype, name)
    else:
        from dask.delayed import delayed  # noqa: PLC0415 - slow to import

        part: Any = delayed(_frame, pure=True)
        rows = [part(name, features, group) for group, size in enumerate(sizes) if size]
        X = Frame(_pandas(empty), rows, [size for size in sizes if size])
    return Dataset(table_of(X, beside, names, places, name))


def _is_whole(group: Any, columns: set[str]) -> bool:
    """Return whether a group of rows is known to have no gaps in these columns."""
    each = (group.column(number) for number in range(group.num_columns))
    return all(
        part.statistics is not None and part.statistics.null_count == 0
        for part in each
        if part.path_in_schema in columns
    )


def _pandas(table: Any) -> Any:
    """Return a table of pyarrow as a data frame, whose dtypes do not depend on the values."""
    import pandas as pd  # noqa: PLC0415 - slow to import
    import pyarrow as pa  # noqa: PLC0415 - an extra

    def dtype(kind: Any) -> Any:
        if pa.types.is_boolean(kind):
            return pd.BooleanDtype()
        whole = pa.types.is_integer(kind)
        return pd.api.types.pandas_dtype(str(kind).title().replace("Ui", "UI")) if whole else None

    return table.to_pandas(types_mapper=dtype, ignore_metadata=True)


def _group(
    name: str, columns: list[str], dtype: np.dtype[Any], group: int, rows: slice
) -> NDArray[Any]:
    """Read one group of rows, (rows, p)."""
    return np.asarray(_frame(name, columns, group).to_numpy(dtype))


def _frame(name: str, columns: list[str], group: int) -> Any:
    """Read one group of rows as a data frame."""
    with _parquet(name) as file:
        return _pandas(file.read_row_group(group, columns=columns))


@contextmanager
def _parquet(name: str) -> Iterator[Any]:
    with opened(name) as source:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - an extra

        with ParquetFile(source) as file:
            yield file
