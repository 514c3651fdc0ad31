"""Reader of svmlight and libsvm files. The rows stay sparse until a chunk is needed."""

from collections.abc import Iterator
from typing import IO, Any

from sparsegp.data.readers.columns import Columns
from sparsegp.data.storage import opened, require_memory
from sparsegp.data.table import Dataset, table_from_arrays
from sparsegp.errors import DataError

WEIGHT = 4
"""Bytes of memory that a character of text takes at most, about: a row of `1:1 2:1 3:1`."""
LONGEST = 1 << 26
"""Bytes of a line that are read at a time."""


class Lines:
    """The lines of a file, as scikit-learn reads one; of the last it keeps text and number."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name = file, name
        self.size, self.number, self.last = 0, 0, b""

    def __iter__(self) -> Iterator[bytes]:
        while line := self.read():
            yield line

    def read(self) -> bytes:
        """Return the next line; empty at the end."""
        self.last = self.file.readline(LONGEST)
        self.number, self.size = self.number + 1, self.size + len(self.last)
        require_memory(WEIGHT * self.size, self.name)
        return self.last


def read_svmlight(name: str, columns: Columns) -> Dataset:
    """Read lines of `label column:value column:value ...`.

    Columns after the last one that occurs are not in the file: a model's number of columns
    (`columns.n_features`) lets its test rows match.
    """
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    with opened(name) as file:
        lines: Any = Lines(file, name)
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
