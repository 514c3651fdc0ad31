"""Figures along a run, one record after another."""

import csv
import io
import math
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Self, TypeAlias

import numpy as np

from sparsegp.checkpoint import StorePath, place_of
from sparsegp.errors import DataError, StoreError
from sparsegp.types import Doubles

Record: TypeAlias = dict[str, int | float]
"""Plain numbers by name: ``{"n_active": 100, "seconds": 3.2, "heldout_error": 0.05}``."""


class History:
    """Records of numbers; a record need not have all of them."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, object]]) -> Self:
        """Make a history of records, for instance those read from JSON.

        Raises
        ------
        DataError
            If a value is neither a number nor None.
        """
        history = cls()
        for record in records:
            history.append(**record)
        return history

    def append(self, **figures: object) -> None:
        """Add a record; None stands for a missing value.

        Raises
        ------
        DataError
            If a value is neither a number nor None.
        """
        self._records.append(
            {name: _number(name, value) for name, value in figures.items() if value is not None}
        )

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return (dict(record) for record in self._records)

    def __getitem__(self, index: int) -> Record:
        return dict(self._records[index])

    @property
    def columns(self) -> list[str]:
        """Names of all figures in the order in which they were first seen."""
        return list(dict.fromkeys(name for record in self._records for name in record))

    def column(self, name: str) -> Doubles:
        """Values of one figure, (records,), NaN where it is missing."""
        return np.array([record.get(name, math.nan) for record in self._records], dtype=np.float64)

    def curve(self, name: str, against: str = "n_active") -> tuple[Doubles, Doubles]:
        """Pairs of `against` and `name`, from the records that have both."""
        x, y = self.column(against), self.column(name)
        both = ~(np.isnan(x) | np.isnan(y))
        return x[both], y[both]

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a table with a line of names; missing values are empty, numbers exact.

        A file of that name is replaced whole or not at all; `path` may be the URL of an object.

        Raises
        ------
        StoreError
            If the file cannot be written.
        """
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._records)
        path = place_of(path)
        if isinstance(path, StorePath):
            path.write_bytes(text.getvalue().encode())
            return
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            beside.write_text(text.getvalue(), encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            raise StoreError(
                f"cannot write the history to {path}: {error.strerror or error}"
            ) from error
        finally:
            beside.unlink(missing_ok=True)


def _number(name: str, value: object) -> int | float:
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise DataError(f"figures of a history must be numbers; {name} is {value!r}")
