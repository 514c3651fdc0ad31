"""What a kind of pipeline is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from sparsegp.data import Dataset
from sparsegp.interrupt import StopRequest
from sparsegp.registry import Registry
from sparsegp.report import Progress
from sparsegp.reproduce.cell import Cell

Result: TypeAlias = dict[str, Any]
"""What is kept of a cell: plain JSON; `curve`, a list of records, where there is one."""


@dataclass
class Bench:
    """Where cells are run.

    Parameters
    ----------
    pipeline : Path
        The file.
    folder : Path or None
        Of data files.
    runs : Path
        Directory for unfinished runs.
    progress : Progress
    stop : StopRequest
        To be looked at by whatever takes long.
    total : int
        Rows to include in all cells of this session.
    done : int
        Rows included in its finished cells.
    """

    pipeline: Path
    folder: Path | None
    runs: Path
    progress: Progress
    stop: StopRequest
    total: int
    done: int = 0
    started: bool = field(default=False, init=False)
    _last: tuple[Any, Dataset] | None = field(default=None, init=False)

    def dataset(self, cell: Cell) -> Dataset:
        """Return the data of a cell; those of the last cell are kept for the next one."""
        key = (cell.source, cell.data_seed)
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = (key, cell.source.load(self.folder, cell.data_seed))
        return self._last[1]


class Kind(ABC):
    """One way to run a cell, and the figures that come of it.

    Attributes
    ----------
    figures : sequence of str
        Names of the figures, in the order of tables.
    default_figures : sequence of str
        What is tabulated if the pipeline does not say.
    has_curves : bool
        There are figures before the last inclusion too.
    """

    figures: ClassVar[Sequence[str]]
    default_figures: ClassVar[Sequence[str]]
    has_curves: ClassVar[bool]

    @abstractmethod
    def run(self, cell: Cell, bench: Bench) -> Result:
        """Run a cell, or go on with what an interrupted run of it left.

        Raises
        ------
        Interrupted
            If a stop was requested.
        """

    @abstractmethod
    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Return a figure of a result after so many inclusions, None if it has none."""


KINDS: Registry[Kind] = Registry("kind of pipeline")
