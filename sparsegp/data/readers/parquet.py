"""Reader of parquet files. A group of rows is read inside the task that needs it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import from_function
from sparsegp.data.readers.base import Request, reader
from sparsegp.data.readers.columns import label_index
from sparsegp.data.storage import is_url, open_plain, reading, version
from sparsegp.data.table import Dataset, Table, check_table, tidy_labels
from sparsegp.errors import DataError


@reader(".parquet", magic=b"PAR1", columns=True, urls=True)
def read_parquet(name: str, request: Request) -> Dataset:
    """Read columns of numbers and one of labels; missing numbers become NaN.

    Raises
    ------
    DataError
        If the file is damaged, a column other than the label holds no numbers, the label column
        is not there, or pyarrow is not installed.
    """
    stamp = version(name).stamp
    with _opened(name) as file:
        columns = [
            column for column in file.schema_arrow.names if not column.startswith("__index_level_")
        ]
        label = label_index(request, len(columns), columns, name)
        features = [column for place, column in enumerate(columns) if place != label]
        dtype = _dtype(file.schema_arrow, features, name)
        groups = range(file.metadata.num_row_groups)
        sizes = [file.metadata.row_group(group).num_rows for group in groups]
        y = None
        if label is not None:
            values = file.read(columns=[columns[label]]).column(0).to_pylist()
            y = tidy_labels(np.array(values, dtype=object), name)
    if not sizes:
        raise DataError(f"{name} has no rows")
    given = [(name, stamp, group, tuple(features), dtype) for group in groups]
    X = from_function(read_rows, given, sizes, len(features), dtype, name)
    return Dataset(check_table(Table(X, y, name)))


def read_rows(
    name: str, stamp: str, group: int, columns: tuple[str, ...], dtype: str
) -> NDArray[Any]:
    """Read one group of rows (rows, p); `stamp` tells versions of the file apart."""
    with _opened(name) as file:
        table = file.read_row_group(group, columns=list(columns))
        X = np.empty((table.num_rows, len(columns)), dtype)
        for place, column in enumerate(columns):
            X[:, place] = table.column(column).to_numpy()
        return X


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    """Open a file with pyarrow, whose errors all become those of `reading`."""
    parquet = _pyarrow_parquet()
    from pyarrow import ArrowException  # noqa: PLC0415

    with reading(name), ExitStack() as stack:
        source = stack.enter_context(open_plain(name)) if is_url(name) else name
        try:
            yield stack.enter_context(parquet.ParquetFile(source))
        except ArrowException as error:
            raise ValueError(str(error)) from None


def _dtype(schema: Any, columns: list[str], name: str) -> str:
    """Return a type of floats that holds all columns, and NaN where a value is missing."""
    import pyarrow  # noqa: PLC0415

    kinds = [schema.field(column).type for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        real = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
        if not (real or pyarrow.types.is_boolean(kind)):
            raise DataError(
                f"columns must hold numbers; {column!r} of {name} holds {kind}. Drop it, or name "
                f"it as the label column"
            )
    small = {"bool", "int8", "uint8", "int16", "uint16", "halffloat", "float"}
    return "float32" if all(str(kind) in small for kind in kinds) else "float64"


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise DataError(
            'parquet files need pyarrow; install it by pip install "sparsegp[parquet]"'
        ) from None
    return pyarrow.parquet
