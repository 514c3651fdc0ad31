"""What a contestant is: a kind of classifier that can be fitted, and asked for probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sparsegp.data import Dataset, Table, table_from_arrays
from sparsegp.registry import Registry
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.toml import Section
from sparsegp.training import Progress
from sparsegp.types import Doubles, Integers, Labels


@dataclass(frozen=True)
class Fitted:
    """A classifier after its fit.

    Parameters
    ----------
    classes : Labels (K,)
    log_probabilities : callable or None
        Of inputs (n, p), as read; (n, K). None for a classifier without.
    codes : callable
        Most probable classes of inputs (n, p), as read; (n,).
    settings : str
        What it was fitted with, in words.
    details : dict
        What happened, plain JSON.
    stages : mapping
        Processor seconds of the stages of the fit, where it has some.
    certainty : callable or None
        Of inputs (n, p), as read; (n,). Rows with the least of it are rejected first. None where
        that is the greatest probability.
    """

    classes: Labels
    log_probabilities: Callable[[Any], Doubles] | None
    codes: Callable[[Any], Integers]
    settings: str
    details: dict[str, Any]
    stages: Mapping[str, float] = field(default_factory=dict)
    certainty: Callable[[Any], Doubles] | None = None


class Contestant(ABC):
    """A kind of classifier.

    Attributes
    ----------
    title : str
        Name in tables.
    settings_used : collection of str or None
        Fields of `TrainSettings` that it depends on, None for all.
    takes_all_rows : bool
        Nothing in it is of the size `n_active`.
    """

    title: ClassVar[str]
    settings_used: ClassVar[Collection[str] | None]
    takes_all_rows: ClassVar[bool] = True

    @abstractmethod
    def read(self, section: Section) -> dict[str, Any]:
        """Take its own parameters from a variant of a pipeline."""

    @abstractmethod
    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Return what fits it on rows that are in memory; only that call is timed."""


CONTESTANTS: Registry[Contestant] = Registry("model of a benchmark")


def in_memory(dataset: Dataset) -> Dataset:
    """Return the data set with its inputs read."""
    train, test = dataset.train, dataset.test
    return Dataset(_read(train), None if test is None else _read(test))


def _read(table: Table) -> Table:
    X: Any = table.X
    return table_from_arrays(X.compute(scheduler="synchronous"), table.y, table.source)
