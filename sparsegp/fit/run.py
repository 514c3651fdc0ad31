"""What every fit shares: where it runs, when it is saved, how it stops and is taken up again."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Table
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.fit.prepare import Prepared, prepare
from sparsegp.interrupt import StopRequest
from sparsegp.ivm.rows import TILE
from sparsegp.model import Model
from sparsegp.progress import Progress, Quiet, Recorded
from sparsegp.runtime import Runtime
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.store import RunDirectory, Stored, require_same_rows

SHARE = 0.02
"""Of the time of a run: what checkpoints may take, unless their number is given."""
EXPECTED_SECONDS = 0.1
"""That the first checkpoint takes."""

Content = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]
"""Plain JSON, and arrays."""


@dataclass(eq=False)
class Run(ABC):
    """A fit under way, as a context manager: `fit`, or the stages of a subclass one by one.

    Parameters
    ----------
    rows : Table or Prepared
        Training rows.
    settings : TrainSettings or DenseSettings
    held_out : Table, optional
        Labelled rows that follow the fit without taking part in it.
    runtime : Runtime
        Where it runs; closed by its owner.
    store : RunDirectory, optional
        Where checkpoints and the model go.
    resume : bool
        Go on from the newest checkpoint in the store, if there is one.
    checkpoint_every : int, optional
        Inclusions, or other steps, between two checkpoints. If left out they are written as often
        as takes a share `SHARE` of the time.
    progress : Progress, optional
    stop : StopRequest, optional

    Attributes
    ----------
    data : Prepared
    """

    rows: InitVar[Table | Prepared]
    settings: TrainSettings | DenseSettings
    held_out: InitVar[Table | None] = None
    _: KW_ONLY
    runtime: Runtime
    store: RunDirectory | None = None
    resume: bool = False
    checkpoint_every: int | None = None
    progress: Progress = field(default_factory=Quiet)
    stop: StopRequest = field(default_factory=StopRequest)

    data: Prepared = field(init=False)
    digests: NDArray[np.uint64] = field(init=False)
    _stack: ExitStack = field(init=False, default_factory=ExitStack)
    _former_seconds: float = field(init=False, default=0.0)
    _saved_at: int = field(init=False, default=0)
    _save_seconds: float = field(init=False, default=EXPECTED_SECONDS)

    def __post_init__(self, rows: Table | Prepared, held_out: Table | None) -> None:
        if self.checkpoint_every is not None and self.checkpoint_every < 1:
            raise SettingsError(f"checkpoint_every must be at least 1, got {self.checkpoint_every}")
        if isinstance(rows, Table):
            room = partial(self.require_room, rows, held_out)
            rows = prepare(rows, held_out, self.settings, self.runtime, room)
        self.data = rows
        self._began = self._saved = time.monotonic()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(single_threaded_blas())  # the driver's products: same bits anywhere
            if self.store is not None:
                stack.callback(self.store.close)
                run = {"settings": self.settings.to_json(), "data": self.data.to_json()}
                self.store.open(run, self.resume)
                self.progress = Recorded(self.progress, self.store.write_progress)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def fit(self) -> Model:
        """Return the fitted model, which is saved where there is a store.

        Raises
        ------
        Interrupted
            If a stop was requested; what was reached is in a checkpoint.
        """
        with self:
            if self.store is not None and self.resume and self.store.is_finished():
                self.progress.message(f"the run in {self.store.folder} is finished; nothing to do")
                return Model.load(self.store.model_path)
            self.build()
            return self.make_model()

    # -- what a method says ------------------------------------------------------------------------

    @abstractmethod
    def require_room(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Refuse rows that memory cannot hold, before they are read.

        Raises
        ------
        SettingsError
        """

    @abstractmethod
    def build(self) -> None:
        """Make all that the steps need, and go to the state of the newest checkpoint."""

    @abstractmethod
    def make_model(self) -> Model:
        """Take all steps that are left, and return the model."""

    @abstractmethod
    def content(self) -> Content:
        """Return what a checkpoint holds."""

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self, done: int, where: str, due: bool = False) -> None:
        """Write a checkpoint if one is due, and end here if a stop was requested.

        Parameters
        ----------
        done : int
            Inclusions and other steps so far.
        where : str
            How far that is, in words: "in round 3".
        due : bool
            Whether one is due whatever was written before.

        Raises
        ------
        Interrupted
        """
        reason = self.stop.requested
        kept = (due or bool(reason) or self._is_due(done)) and self.save(done)
        if not reason:
            return
        how = "go on by --resume" if kept else "the checkpoint could not be written"
        if self.store is None:
            how = "nothing was kept, as there is no --out"
        raise Interrupted(f"stopped by {reason} {where}; {how}")

    def save(self, done: int) -> bool:
        """Write a checkpoint; return whether there is one now."""
        if self.store is None:
            return False
        began = time.monotonic()
        meta, arrays = self.content()
        meta, arrays = {**meta, "seconds": self.seconds()}, {**arrays, "digests": self.digests}
        kept = self.store.save(done, meta, arrays)
        self._saved, self._saved_at = time.monotonic(), done
        self._save_seconds = self._saved - began
        return kept

    def _is_due(self, done: int) -> bool:
        if self.checkpoint_every is None:
            return time.monotonic() - self._saved >= self._save_seconds / SHARE
        before = self._saved_at if self._saved_at <= done else 0  # else of an earlier step
        return done // self.checkpoint_every > before // self.checkpoint_every

    def restored(self) -> Stored | None:
        """Return the newest checkpoint, if this run is to go on from one.

        Raises
        ------
        SettingsError
            If it is of other rows.
        """
        found = self.store.load() if self.store is not None and self.resume else None
        if found is None:
            return None
        _, stored = found
        require_same_rows(stored.arrays["digests"], self.digests, TILE)
        self._former_seconds = float(stored.meta["seconds"])
        return stored

    def seconds(self) -> float:
        """Return the time of the run so far, without what a resume took to get there."""
        return self._former_seconds + time.monotonic() - self._began

    def begin(self) -> None:
        """Count the time from now on."""
        self._began = self._saved = time.monotonic()

    def keep(self, model: Model) -> None:
        """Write the model where there is a store."""
        if self.store is not None:
            model.save(self.store.model_path)


def below(start: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin so, by the rest of their names."""
    return {k.removeprefix(start): arrays[k] for k in arrays if k.startswith(start)}
