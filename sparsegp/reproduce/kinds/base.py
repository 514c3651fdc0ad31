"""What a kind of pipeline is."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from sparsegp.data import Dataset
from sparsegp.execution import Runtime, open_runtime
from sparsegp.interrupt import StopRequest
from sparsegp.registry import Registry
from sparsegp.report import Progress
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.toml import Section

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
    runtime : Runtime, optional
        Where runs have their row blocks; each opens threads of its own if left out.
    """

    pipeline: Path
    folder: Path | None
    runs: Path
    progress: Progress
    stop: StopRequest
    total: int
    done: int = 0
    runtime: Runtime | None = None
    started: bool = field(default=False, init=False)
    _last: tuple[Any, Dataset] | None = field(default=None, init=False)

    def dataset(self, cell: Cell) -> Dataset:
        """Return the data of a cell; those of the last cell are kept for the next one."""
        key = (cell.source, cell.data_seed)
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = (key, cell.source.load(self.folder, cell.data_seed))
        return self._last[1]

    @contextmanager
    def opened_runtime(self) -> Iterator[Runtime]:
        """Yield the runtime in use, or threads for as long as this lasts."""
        if self.runtime is not None:
            yield self.runtime
            return
        with open_runtime() as runtime:
            yield runtime


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
    moves : bool
        Its cells can be run on a cluster; otherwise they measure, or need, the threads of this
        process.
    has_summary : bool
        A table with a line for each variant says more than one with a line for each figure.
    compares : bool
        A variant may be a classifier of a library, a `model` of `CONTESTANTS` (`run_rival`).
    """

    figures: ClassVar[Sequence[str]]
    default_figures: ClassVar[Sequence[str]]
    has_curves: ClassVar[bool]
    moves: ClassVar[bool] = False
    has_summary: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take from a variant what is no setting, as plain JSON; nothing unless overridden.

        Raises
        ------
        SettingsError
            If something is missing, unknown or of the wrong type.
        """
        del section
        return {}

    def settings_used(self, options: Mapping[str, Any]) -> Collection[str] | None:
        """Return the names of the settings that a variant depends on, None for all of them."""
        del options
        return None

    def check(self, file: Section, cells: Sequence[Cell]) -> None:
        """Check what the cells say of each other.

        Raises
        ------
        SettingsError
            If they do not fit together.
        """
        del file, cells

    def complete(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the results with those figures that depend on several of them."""
        del cells
        return results

    def describe(self, cell: Cell, result: Mapping[str, Any]) -> dict[str, str]:
        """Return what stands before the figures of a variant in the summary."""
        del result
        return {"variant": cell.variant}

    def draw(self, cell: Cell, result: Mapping[str, Any], out: Path) -> None:
        """Write tables and pictures of a finished cell; none unless overridden.

        Raises
        ------
        SettingsError, StoreError
            If a picture cannot be drawn or written.
        """
        del cell, result, out

    def draw_together(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]], out: Path
    ) -> None:
        """Write pictures of all finished cells; none unless overridden. Raises as `draw` does."""
        del cells, results, out

    def task_of(self, cell: Cell) -> str | None:
        """Return the name of the task that a cell is a part of, where one thread is enough for it.

        Tasks may be done side by side, and the cells of one of them are run in their order. None,
        unless overridden: the cell is for the whole runtime.
        """
        del cell
        return None

    def perform(self, cell: Cell, bench: Bench) -> Result:
        """Run a cell, or fit the classifier of a library that it names."""
        if self.compares and "model" in cell.options:
            return self.run_rival(cell, bench)
        return self.run(cell, bench)

    def run_rival(self, cell: Cell, bench: Bench) -> Result:
        """Fit the classifier of a library that a cell names, where the kind `compares`."""
        raise NotImplementedError

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
