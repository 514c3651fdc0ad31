"""One run, stage by stage: build row blocks, select, make the posterior.

The numbers are computed in ivm/ and posterior/, where the blocks live is execution/'s affair, and
what is kept on disk run_directory.py's; this file is the order in which they are called.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsegp.data import Table
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import Runtime
from sparsegp.interrupt import StopRequest
from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.rows import TILE
from sparsegp.model import SparseModel
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.posterior.refits import Refits
from sparsegp.run_directory import RunDirectory, require_same_rows
from sparsegp.settings import TrainSettings
from sparsegp.training.blocks import RunBlocks
from sparsegp.training.learning import Learnt, learn
from sparsegp.training.progress import Progress, Quiet
from sparsegp.training.rows import TrainingRows
from sparsegp.types import Doubles

SHOWN = ("train_error", "train_mse", "heldout_error", "heldout_mse")
"""Figures that progress shows."""


class Training(RunBlocks):
    """One run, as a context manager: `select`, then `finish`; or both by `train`.

    Parameters
    ----------
    train : Table
    settings : TrainSettings
    held_out : Table, optional
        Labelled rows that follow the training without taking part in it.
    runtime : Runtime
        Where the row blocks live; closed by its owner.
    directory : RunDirectory, optional
        Where checkpoints and the model go.
    resume : bool
        Go on from the newest checkpoint in the directory, if there is one.
    checkpoint_every : int
        Inclusions between two checkpoints.
    block_rows : int, optional
        Rows in a block, rounded up to whole tiles; two blocks a worker if left out. Results do
        not depend on it.
    scratch : str, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.
    progress : Progress, optional

    Attributes
    ----------
    active : ActiveSet
    history : list of dict
        The learning curve: n_active, seconds, train_error and, with held-out rows, heldout_error
        and heldout_nlpp. Without train_error where candidates have left (`stub_entries`).
    """

    def __init__(  # noqa: PLR0913 - what a run is, each by name
        self,
        train: Table,
        settings: TrainSettings,
        *,
        held_out: Table | None = None,
        runtime: Runtime,
        directory: RunDirectory | None = None,
        resume: bool = False,
        checkpoint_every: int = 100,
        block_rows: int | None = None,
        scratch: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        if checkpoint_every < 1:
            raise SettingsError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
        super().__init__(train, settings, held_out, runtime, block_rows, scratch)
        self.directory, self.resume = directory, resume
        self.checkpoint_every = checkpoint_every
        self.progress: Progress = progress or Quiet()
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self._started = time.perf_counter()
        self._stack = ExitStack()
        self._digests: NDArray[np.uint64] | None = None
        self.posterior_state: dict[str, NDArray[Any]] = {}
        self._coefficients: Doubles | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(threadpool_limits(1))  # the driver's products: same bits anywhere
            if self.directory is not None:
                stack.callback(self.directory.close)
                run = {"settings": self.settings.to_json(), "data": self.data.to_json()}
                self.directory.open(run, self.resume)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    # -- row blocks --------------------------------------------------------------------------------

    def build(self) -> None:
        """Build the row blocks, and bring them to the state of the newest checkpoint."""
        self.place()
        if self.directory is not None:
            self._digests = self.digests()
            if self.resume:
                self._restore()

    def _restore(self) -> None:
        assert self.directory is not None and self._digests is not None  # noqa: PT018
        found = self.directory.load()
        if found is None:
            return
        n_active, bundle = found
        require_same_rows(bundle.arrays["digests"], self._digests, TILE)
        self.learnt = Learnt.from_checkpoint(bundle.arrays, bundle.meta.get("learning", ()))
        if self.learnt.parameters is not None:
            self.restart(self.learnt.parameters)
        if "rows" not in bundle.arrays:
            return
        self.active = self.kind.active.from_arrays(bundle.arrays, self.settings.order.slots)
        self.history = list(bundle.meta["history"])
        self.posterior_state = {
            name.removeprefix("posterior_"): array
            for name, array in bundle.arrays.items()
            if name.startswith("posterior_")
        }
        self._coefficients = bundle.arrays.get("refit")
        self.seconds = float(bundle.meta["seconds"])
        self.progress.start(n_active, "rows", "restore")
        for method, args in self.active.recovery():
            self.runtime.map_blocks(method, *args)
            self.progress.update(args[0].stop)
        self.progress.finish()
        self._started = time.perf_counter()

    # -- stages ------------------------------------------------------------------------------------

    def learn(self, stop: StopRequest | None = None) -> None:
        """Learn kernels and likelihood, if the settings ask for that.

        Raises
        ------
        Interrupted
            If `stop` was requested; what was done is in a checkpoint.
        """
        if self.settings.learn != "none" and (self.learnt.under_way or not len(self.active)):
            learn(self, stop)

    def check(self, stop: StopRequest | None, what: str) -> None:
        """Raise if a stop was requested.

        Raises
        ------
        Interrupted
        """
        if stop is not None and stop.requested:
            kept = "; go on by --resume" if self.directory is not None else ""
            raise Interrupted(f"stopped by {stop.requested}: {what}{kept}")

    def select(self, stop: StopRequest | None = None) -> None:
        """Include rows until there are `n_active`, with reports and checkpoints on the way.

        Raises
        ------
        Interrupted
            If `stop` was requested; what was reached is in a checkpoint.
        """
        selection = self.selection()
        if isinstance(selection, Selection):
            self.refits = Refits(selection, TrainingRows(self, stop), self._coefficients)
        every, saved = self.settings.report_every, len(self.active)
        self.progress.start(self.n_active, "rows", "select")
        self.progress.update(len(self.active), **self._figures())
        while len(self.active) < self.n_active:
            report_at = min((len(self.active) // every + 1) * every, self.n_active)
            if self.refits is not None:
                self.refits.keep_up()
            if not selection.round(report_at, self.n_active):
                self.progress.message(
                    f"{len(self.active)} rows included: no other candidate has a site of precision "
                    f"above {self.settings.epsilon:g} and latent variance left in "
                    f"{self.settings.precision}"
                )
                self.n_active = report_at = len(self.active)
            if len(self.active) == report_at:
                self._report()
            self.progress.update(len(self.active), **self._figures())
            due = len(self.active) // self.checkpoint_every > saved // self.checkpoint_every
            if due or len(self.active) == self.n_active:
                self.save()
                saved = len(self.active)
            if stop is not None and stop.requested:
                self.interrupt(stop.requested, saved == len(self.active) or self.save())
        self.progress.finish()

    def interrupt(self, reason: str, kept: bool) -> None:
        """Raise Interrupted, with what to do next.

        Raises
        ------
        Interrupted
        """
        if self.directory is None:
            raise Interrupted(f"stopped by {reason}; nothing was kept, as there is no --out")
        if not kept:
            raise Interrupted(f"stopped by {reason}; the checkpoint could not be written")
        raise Interrupted(
            f"stopped by {reason} with {len(self.active)} of {self.n_active} rows included; "
            f"go on by --resume"
        )

    def finish(self, stop: StopRequest | None = None, keep_blocks: bool = True) -> SparseModel:
        """Make the posterior and the model, and save it.

        Parameters
        ----------
        stop : StopRequest, optional
        keep_blocks : bool
            Whether the row blocks will be looked at afterwards; otherwise their memory is given
            back as soon as they are not needed.

        Raises
        ------
        Interrupted
            If `stop` was requested; what was reached is in a checkpoint.
        """
        active = ActiveRows.of(self.block_settings, self.active)
        chosen = POSTERIORS[self.settings.posterior]
        listens = chosen.listens or self.settings.keeps_rows_aside
        if not (keep_blocks or listens):
            self.runtime.build(self.kind.block, [])
        if chosen.listens:
            self.progress.start(0, "rounds", "posterior")
        span = chosen.make(active, TrainingRows(self, stop))
        if self.learnt.trace:
            span = replace(span, report={**span.report, "learning": self.learnt.trace})
        if chosen.listens:
            self.progress.finish()
        if not keep_blocks:
            self.runtime.build(self.kind.block, [])
        model = SparseModel(
            active=active,
            span=span,
            rows=self.active.rows,
            classes=self.data.classes,
            scaling=self.data.scaling,
            settings=self.settings.to_json(),
            history=tuple(self.history),
            numbers=self.data.numbers,
        )
        if self.directory is not None:
            self.directory.check_held()
            model.save(self.directory.model_path)
        return model

    # -- records -----------------------------------------------------------------------------------

    def _report(self) -> None:
        self.history.append(
            {
                "n_active": len(self.active),
                "seconds": round(self._elapsed(), 3),
                **self.standing(),
            }
        )

    def _figures(self) -> Mapping[str, float]:
        last = self.history[-1] if self.history else {}
        return {name: last[name] for name in SHOWN if name in last}

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._started

    def save(self, posterior_round: int = 0) -> bool:
        """Write a checkpoint; return whether there is one now."""
        if self.directory is None or not (len(self.active) or self.learnt.trace):
            return False
        meta = {
            "history": self.history,
            "seconds": self._elapsed(),
            "learning": self.learnt.trace,
        }
        arrays = {**self.learnt.arrays(), **(self.active.arrays() if len(self.active) else {})}
        assert self._digests is not None  # set when there is a directory
        arrays["digests"] = self._digests
        if self.refits is not None and self.refits.coefficients is not None:
            arrays["refit"] = self.refits.coefficients
        for name, array in self.posterior_state.items():
            arrays[f"posterior_{name}"] = array
        number = len(self.learnt.trace) + len(self.active) + posterior_round
        return self.directory.save(number, meta, arrays)
