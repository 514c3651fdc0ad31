"""Base of all fits: where they run, when they are saved, how they are interrupted and resumed."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from functools import cached_property, partial
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Table
from sparsegp.errors import Interrupted, NumericalError, SettingsError, SparseGPError, StoreError
from sparsegp.fields import Setting, declared
from sparsegp.fit.prepare import Prepared, columns_of, prepare
from sparsegp.free_memory import require_memory
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model
from sparsegp.progress import Progress, Recorded
from sparsegp.report import progress_for
from sparsegp.runtime import Runtime, Where, open_runtime
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.state import MAX_MAGNITUDE, require_numbers, to_arrays
from sparsegp.store import RunDirectory, Stored

R = TypeVar("R")
M = TypeVar("M", bound=Model)

SHARE = 0.02
"""Fraction of the run time that checkpoints may take, unless their interval is given."""
EXPECTED_SECONDS = 0.1
"""Expected duration of the first checkpoint."""
STATE = "state."
"""Prefix of the names of the arrays of `Run.state` in a checkpoint."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Arguments of `sparsegp.train`, where they are described."""

    out: str | os.PathLike[str] | None = None
    resume: bool = False
    overwrite: bool = False
    checkpoint_every: int | None = None
    keep_last: int = 2
    runtime: Where = None
    tls: str | os.PathLike[str] | None = None
    client: Any = None
    progress: Progress | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        for name in ("resume", "overwrite"):
            Setting(name, bool, False, optional=False).checked(getattr(self, name))

    @classmethod
    def among(cls, named: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Create the options from the arguments that are such; also return the other arguments."""
        own = {each.name for each in fields(cls)} & named.keys()
        others = {name: value for name, value in named.items() if name not in own}
        for name in sorted({"threads", "workers"} & others.keys()):
            raise SettingsError(f'give runtime="{name}={others[name]}" instead of {name}')
        return cls(**{name: named[name] for name in own}), others

    @cached_property
    def shown(self) -> Progress:
        """The progress to show; raises SettingsError if it is invalid, or given with `verbose`."""
        return progress_for(self.progress, self.verbose)

    def folder(self) -> RunDirectory | None:
        """Return the folder of the run, or None without `out`.

        Raises
        ------
        SettingsError
            If options contradict each other.
        StoreError
            If the folder holds an unfinished run that is neither resumed nor overwritten.
        """
        if self.out is None:
            if self.resume:
                raise SettingsError("resume needs the directory of the run: give out")
            return None
        store = RunDirectory(self.out, self.keep_last, self.shown.message, self.overwrite)
        store.require_no_unfinished_run(self.resume)
        return store

    @contextmanager
    def opened(self) -> Iterator[dict[str, Any]]:
        """Open the runtime, and yield the arguments of `Run` except the folder."""
        if self.runtime is not None and self.client is not None:
            raise SettingsError("give only one of `runtime` and `client`")
        shown, where = self.shown, self.client if self.runtime is None else self.runtime
        try:
            with StopRequest() as stop, open_runtime(where, tls=self.tls) as runtime:
                yield {
                    "stop": stop,
                    "runtime": runtime,
                    "resume": self.resume,
                    "checkpoint_every": self.checkpoint_every,
                    "progress": shown,
                }
        finally:
            shown.finish()


@dataclass(eq=False)
class Run(ABC, Generic[R]):
    """A fit, as a context manager: call `fit`, or the stages of a subclass one by one."""

    rows: InitVar[Table | Prepared]  # to train on
    settings: TrainSettings | DenseSettings
    held_out: InitVar[Table | None] = None  # labelled test rows, which do not influence the fit
    _: KW_ONLY
    runtime: Runtime  # where it runs; to be closed by the caller
    store: RunDirectory | None = None  # where checkpoints and the model are written
    resume: bool = False  # this and the next two as in `sparsegp.train`
    checkpoint_every: int | None = None
    progress: Progress = field(default_factory=Progress)
    stop: StopRequest = field(default_factory=StopRequest)

    def __post_init__(self, rows: Table | Prepared, held_out: Table | None) -> None:
        every = Setting("checkpoint_every", int, None, optional=True, least=1)
        self.checkpoint_every = every.checked(self.checkpoint_every)
        if isinstance(rows, Table):
            check = partial(self.require_memory, rows, held_out)
            rows = prepare(rows, held_out, self.settings, self.runtime.scheduler(), check)
        self.data = rows
        self.settings = self.settings.for_columns(columns_of(rows.train))
        self.progress = self._recorded = Recorded(self.progress)
        # what the method or the posterior reported last, for checkpoints (`sparsegp.state`), and
        # the arrays of it in the checkpoint from which the run was resumed
        self.state: Any = None
        self.former: Mapping[str, NDArray[Any]] = {}
        self._has_restored = False
        self._stack, self._saved_at, self._save_seconds = ExitStack(), 0, EXPECTED_SECONDS
        self.start_clock()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(single_threaded_blas())  # for the same bits on all machines
            stack.enter_context(np.errstate(under="ignore"))
            if self.store is not None:
                stack.push(self._close_store)
                known = declared(type(self.settings))
                defaults = {name: each.default for name, each in known.items()}
                self.store.open(self.identity(), self.resume, defaults)
                self._recorded.record = self.store.write_progress
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)

    def _close_store(self, _: Any, error: Any, __: Any) -> None:
        if self.store is not None:
            self.store.close(failed=isinstance(error, Exception))

    def fit(self) -> R:
        """Run the fit and return its result, which is saved if there is a store.

        If the run in the store is finished, its result is returned.

        Raises
        ------
        Interrupted
            If a stop was requested; the progress is in a checkpoint.
        StoreError
            If the run cannot continue from the content of its newest checkpoint.
        """
        with self:
            if self.store is not None and self.store.is_finished():
                self.progress.message(f"the run in {self.store.folder} is finished; nothing to do")
                return cast(R, Model.load(self.store.model_path))
            try:
                self.build()
                return self.complete()
            except (LookupError, TypeError, ValueError) as error:
                if isinstance(error, SparseGPError) or not self._has_restored or not self.store:
                    raise
                raise StoreError(
                    f"the newest checkpoint in {self.store.folder} must hold the state of a run of "
                    f"this version, but does not ({type(error).__name__}: {error}); start again in "
                    "another `out`"
                ) from error

    def require_memory(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Raise SettingsError if the run would not fit into memory."""
        require_memory(rows, held_out, n_classes, self.settings, self.runtime)

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return settings and identity of the data, which must be the same to resume the run."""
        data = self.data.identity(self.runtime.scheduler())
        return {"settings": self.settings.to_json(), "data": data}

    def save(self, model: M) -> M:
        """Return the model of the fit; it is saved if there is a store.

        Raises
        ------
        NumericalError
            If it holds numbers that are not finite or too large, which a reader would refuse.
        """
        try:
            require_numbers(to_arrays(model))
        except ValueError as error:
            raise NumericalError(
                f"the numbers of a model must be finite and below {MAX_MAGNITUDE:g}, but {error}; "
                "give less extreme parameters of kernels and likelihood, or another scaling"
            ) from None
        if self.store is not None:
            model.save(self.store.model_path)
        return model

    @abstractmethod
    def build(self) -> None:
        """Set up the fit, and restore the state of the newest checkpoint."""

    @abstractmethod
    def complete(self) -> R:
        """Carry out the remaining steps; save and return the result."""

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the content of a checkpoint besides `state`: plain JSON, and arrays."""
        return {}, {}

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self, done: int, due: bool = False) -> None:
        """Write a checkpoint if one is due, and stop if that was requested.

        Parameters
        ----------
        done : int
            Number of inclusions and other steps so far.
        due : bool
            Whether one is due regardless of the last one.

        Raises
        ------
        Interrupted
            If a stop was requested.
        """
        reason = self.stop.requested
        kept = (due or bool(reason) or self._is_due(done)) and self._save(done)
        if not reason:
            return
        how = "continue with `resume=True`" if kept else "the checkpoint could not be written"
        if self.store is None:
            how = "nothing was kept, as there is no `out`"
        raise Interrupted(f"stopped by {reason} {self._recorded.extent}; {how}")

    def _is_due(self, done: int) -> bool:
        if self.checkpoint_every is None:
            return time.monotonic() - self._saved >= self._save_seconds / SHARE
        before = self._saved_at if self._saved_at <= done else 0  # else from an earlier major step
        return done // self.checkpoint_every > before // self.checkpoint_every

    def _save(self, done: int) -> bool:
        """Write a checkpoint; return whether it was written."""
        if self.store is None:
            return False
        began = time.monotonic()
        meta, arrays = self.content()
        state = self.former if self.state is None else to_arrays(self.state)
        arrays |= {STATE + name: state[name] for name in state}
        kept = self.store.save(done, meta | {"seconds": self.seconds()}, arrays)
        self.store.write_progress(self._recorded.known, due=True)  # never behind the checkpoint
        self._saved, self._saved_at = time.monotonic(), done
        self._save_seconds = self._saved - began
        return kept

    def restored(self) -> Stored | None:
        """Load the newest checkpoint, if the run is resumed, and restore the common state."""
        if (stored := self.newest()) is not None:
            self._has_restored = True
            arrays = stored.arrays
            self.former = {k.removeprefix(STATE): arrays[k] for k in arrays if k.startswith(STATE)}
            self.start_clock(float(stored.meta["seconds"]))
        return stored

    def newest(self) -> Stored | None:
        """Load the newest checkpoint, if the run is resumed."""
        found = self.store.load() if self.store is not None and self.resume else None
        return None if found is None else found[1]

    def start_clock(self, seconds: float = 0.0) -> None:
        """Start the clock, at the number of seconds that earlier sessions took."""
        self._saved = time.monotonic()
        self._origin = self._saved - seconds

    def seconds(self) -> float:
        """Return the duration of the run so far in seconds, without the time of a restore."""
        return time.monotonic() - self._origin
