"""Reader of svmlight and libsvm files. The rows stay sparse until a chunk is needed."""

import io
from typing import Any

from sparsegp.data.labels import labels_from_text
from sparsegp.data.readers.base import Request, open_bytes, reader
from sparsegp.data.storage import reading
from sparsegp.data.table import Dataset, table_from_arrays
from sparsegp.errors import DataError


@reader(".svm", ".svmlight", ".libsvm")
def read_svmlight(name: str, request: Request) -> Dataset:
    """Read lines of `label column:value column:value ...`.

    Columns after the last one that occurs are not in the file: a model's number of columns
    (`n_features`) lets its test rows match.

    Raises
    ------
    DataError
        If the file is damaged or empty, or a line cannot be read.
    """
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    with reading(name):
        try:
            X, y = load_svmlight_file(name, n_features=request.n_features)
        except (IndexError, OverflowError, ValueError) as error:
            _find_fault(name, load_svmlight_file)
            raise DataError(f"cannot read {name}: {error}") from None
    labels = labels_from_text([repr(float(label)) for label in y])
    return Dataset(table_from_arrays(X, labels, name))


def _find_fault(name: str, load: Any) -> None:
    """Raise an error with the number of the first line that cannot be read."""
    with open_bytes(name) as file:
        for number, line in enumerate(file, start=1):
            try:
                load(io.BytesIO(line), n_features=1 << 30)
            except (IndexError, OverflowError, ValueError) as error:
                raise DataError(
                    f"{name}, line {number}: {error}; 'label column:value ...' is expected, found "
                    f"{line.decode(errors='replace').strip()[:60]!r}"
                ) from None
