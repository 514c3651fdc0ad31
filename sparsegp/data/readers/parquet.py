"""Reader of Parquet files, whose rows are read lazily."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sparsegp.data.frames import Frame, is_number, require_distinct
from sparsegp.data.readers.columns import Columns, places_of, table_from_file
from sparsegp.data.storage import absolute, opened, require_memory
from sparsegp.data.table import Dataset


def read_parquet(name: str, columns: Columns) -> Dataset:
    """Read a Parquet file as a data frame; each row group is read when it is needed."""
    from dask.delayed import delayed  # noqa: PLC0415 - slow to import

    with _parquet(name) as file:
        schema = file.schema_arrow
        index = _index_columns(schema)
        rest = [name for name in schema.names if name not in index]
        names = (*(name for name in index if name in columns.named), *rest)  # the label stays last
        require_distinct(names, name)
        places = places_of(columns, names, name)
        features = [names[place] for place in places.inputs]
        others = [names[place] for place in places.others]
        require_memory(8 * file.metadata.num_rows * len(others), name)
        beside = dict(_without(_pandas(file.read(columns=others)), columns.markers))
        empty = _pandas(schema.empty_table().select(features))
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    part: Any = delayed(_frame, pure=True)
    groups = [group for group, size in enumerate(sizes) if size]
    parts = [part(absolute(name), features, group, columns.markers) for group in groups]
    frame = Frame(empty, parts, [*filter(None, sizes)])
    table = table_from_file(frame, beside, places, name)
    return Dataset(replace(table, missing=columns.markers))


def _index_columns(schema: Any) -> list[str]:
    """Return the names of columns that hold the index of a pandas data frame."""
    found: Any = ()
    with suppress(LookupError, TypeError, ValueError):  # not metadata of pandas
        found = [name for name in schema.pandas_metadata["index_columns"] if name in schema.names]
    return [name for name in schema.names if name in found or name.startswith("__index_level_")]


def _pandas(table: Any) -> Any:
    """Convert a table of pyarrow to a data frame whose dtypes do not depend on the values."""
    import pandas as pd  # noqa: PLC0415 - slow to import
    import pyarrow as pa  # noqa: PLC0415 - an extra

    def dtype(kind: Any) -> Any:
        if pa.types.is_boolean(kind):
            return pd.BooleanDtype()
        whole = pa.types.is_integer(kind)
        return pd.api.types.pandas_dtype(str(kind).title().replace("Ui", "UI")) if whole else None

    return table.to_pandas(types_mapper=dtype, ignore_metadata=True)


def _frame(name: str, columns: list[str], group: int, markers: Sequence[str]) -> Any:
    """Read one row group as a data frame."""
    with _parquet(name) as file:
        return _without(_pandas(file.read_row_group(group, columns=columns)), markers)


def _without(frame: Any, markers: Sequence[str]) -> Any:
    """Return a data frame in which markers, words or numbers, are missing values."""
    values = [*markers, *map(float, filter(is_number, markers))]
    return frame.mask(frame.isin(values)) if markers else frame


@contextmanager
def _parquet(name: str) -> Iterator[Any]:
    with opened(name) as source:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - an extra

        with ParquetFile(source) as file:
            yield file
