"""One run, stage by stage: build row blocks, select, make the posterior.

The numbers are computed in ivm/ and posterior/, where the blocks live is execution/'s affair, and
what is kept on disk run_directory.py's; this file is the order in which they are called.
"""

import functools
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsegp.data import Table
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import Part, Runtime
from sparsegp.execution.base import Message
from sparsegp.execution.scratch import Scratch
from sparsegp.interrupt import StopRequest
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.greedy import MANY_ROWS, Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import GROUP, TILE, BlockSettings, Standing
from sparsegp.model import Model
from sparsegp.posterior import POSTERIORS, ActiveRows
from sparsegp.posterior.refits import Refits
from sparsegp.run_directory import RunDirectory, require_same_rows
from sparsegp.selection.criteria import CRITERIA
from sparsegp.settings import TrainSettings
from sparsegp.training.prepare import prepare
from sparsegp.training.progress import Progress, Quiet
from sparsegp.training.rows import TrainingRows, choose_aside
from sparsegp.types import Booleans, Doubles, Integers

if TYPE_CHECKING:
    import dask.array as da

BLOCKS_PER_WORKER = 2
MAX_BLOCK_ROWS = 65536
SHOWN = ("train_error", "train_mse", "heldout_error", "heldout_mse")
FEW_BLOCK_ROWS = 4096
"""Blocks of fewer rows keep threads waiting for each other rather than for products."""


class Kind(NamedTuple):
    """Row blocks and what a run remembers of their inclusions."""

    block: type[RowBlock] | type[PairBlock]
    active: type[ActiveSet] | type[PairSet]


ROWS, PAIRS = Kind(RowBlock, ActiveSet), Kind(PairBlock, PairSet)


def default_block_rows(n: int, n_workers: int) -> int:
    """Return rows in a block: two blocks a worker, or one where they would be small."""
    blocks = min(BLOCKS_PER_WORKER * n_workers, max(n_workers, -(-n // FEW_BLOCK_ROWS)))
    return min(-(-n // blocks), MAX_BLOCK_ROWS)


class Training:
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
        and heldout_nlpp.
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
        for name, value in (("checkpoint_every", checkpoint_every), ("block_rows", block_rows)):
            if value is not None and value < 1:
                raise SettingsError(f"{name} must be at least 1, got {value}")
        self.settings, self.runtime, self.directory = settings, runtime, directory
        self.resume, self.checkpoint_every = resume, checkpoint_every
        self.progress: Progress = progress or Quiet()
        self._kind = PAIRS if settings.active_per_class else ROWS
        self.data = prepare(train, held_out, settings.scaling, runtime, settings.is_regression)
        self.aside = choose_aside(self.data.summary.n, settings)
        self.n_active = settings.rows_to_include(self.data.summary.n)
        rule = settings.rule(len(self.data.classes))
        n_latent = rule.likelihood.n_latent(len(self.data.classes))
        unit = GROUP if self.data.summary.n >= MANY_ROWS else 1  # tiles in a block
        self.block_settings = BlockSettings(
            kernels=settings.kernels(n_latent, self.data.scaled_variances),
            rule=rule,
            criterion=CRITERIA[settings.criterion](settings.seed),
            n_latent=n_latent,
            capacity=self.n_active,
            lazy=settings.lazy,
            unit=unit,
            allocate=np.zeros if scratch is None else Scratch(scratch),
        )
        if block_rows is None:
            block_rows = default_block_rows(self.data.summary.n, runtime.n_workers)
        self.block_rows = -(-block_rows // (unit * TILE)) * (unit * TILE)
        self.active: ActiveSet | PairSet = self._kind.active()
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self._started = time.perf_counter()
        self._stack = ExitStack()
        self._digests: NDArray[np.uint64] | None = None
        self.posterior_state: dict[str, NDArray[Any]] = {}
        self.refits: Refits | None = None
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
        self.runtime.recovery = self._recovery
        parts = self._parts(self.data.train.X, self.data.target, aside=self.aside)
        self.n_train_blocks = len(parts)
        if self.data.held_out is not None:
            assert self.data.held_out_target is not None  # set together
            parts += self._parts(
                self.data.held_out.X, self.data.held_out_target, first_index=len(parts)
            )
        factory = functools.partial(
            self._kind.block,
            self.block_settings,
            transform=functools.partial(self.data.scaling.apply, dtype=self.settings.dtype),
        )
        self.runtime.build(factory, parts)
        if self.directory is not None:
            answers = self.runtime.map_blocks("fingerprint")[: self.n_train_blocks]
            digests = [int(digest, 16) for answer in answers for digest in answer]
            self._digests = np.array(digests, dtype=np.uint64)
            if self.resume:
                self._restore()

    def _recovery(self) -> list[Message]:
        """Return the messages that bring a new block to the present."""
        return self.active.recovery() + ([] if self.refits is None else self.refits.recovery())

    def _parts(
        self,
        X: "da.Array",
        target: Integers,
        aside: Booleans | None = None,
        first_index: int = 0,
    ) -> list[Part]:
        starts = range(0, len(target), self.block_rows)
        return [
            Part(
                first_index + i,
                {
                    "X": X[start : start + self.block_rows].rechunk(-1),
                    "target": target[start : start + self.block_rows],
                    "first_row": start,
                    "held_out": aside is None,
                    "aside": None if aside is None else aside[start : start + self.block_rows],
                },
            )
            for i, start in enumerate(starts)
        ]

    def _restore(self) -> None:
        assert self.directory is not None and self._digests is not None  # noqa: PT018
        found = self.directory.load()
        if found is None:
            return
        n_active, bundle = found
        require_same_rows(bundle.arrays["digests"], self._digests, TILE)
        self.active = self._kind.active.from_arrays(bundle.arrays, self.settings.order.slots)
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

    def stub(self, process: int = 0) -> "da.Array":
        """Return a stub matrix (d, n) as a dask array, chunked as the row blocks are."""
        return self._state("stub", (len(self.active),), self.settings.dtype, 1, process)

    def means(self) -> "da.Array":
        """Return the latent means (n, K) as a dask array, chunked as the row blocks are."""
        return self._state("mean", (self.block_settings.n_latent,), np.dtype(np.float64), 0)

    def variances(self) -> "da.Array":
        """Return the latent variances (n, C) as a dask array, chunked as the row blocks are."""
        return self._state("variance", (len(self.block_settings.kernels),), np.dtype("f8"), 0)

    def _state(
        self, name: str, other: tuple[int], dtype: np.dtype[Any], axis: int, process: int = 0
    ) -> "da.Array":
        import dask.array as da  # noqa: PLC0415 - slow to import, needed only here

        n = self.data.summary.n
        from_delayed: Any = da.from_delayed
        chunks = []
        for index, lazy in enumerate(self.runtime.as_dask("array", name, process)):
            if index < self.n_train_blocks:
                rows = min(self.block_rows, n - index * self.block_rows)
                shape = (*other, rows) if axis else (rows, *other)
                chunks.append(from_delayed(lazy, shape, dtype=dtype))
        whole: da.Array = da.concatenate(chunks, axis=axis)  # type: ignore[no-untyped-call]
        return whole

    # -- stages ------------------------------------------------------------------------------------

    def select(self, stop: StopRequest | None = None) -> None:
        """Include rows until there are `n_active`, with reports and checkpoints on the way.

        Raises
        ------
        Interrupted
            If `stop` was requested; what was reached is in a checkpoint.
        """
        selection = self._selection()
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
                    f"{len(self.active)} rows included: no other row has a site of precision "
                    f"above {self.settings.epsilon:g}"
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

    def _selection(self) -> Selection | PairSelection:
        if isinstance(self.active, PairSet):
            return PairSelection(self.runtime, self.block_settings, self.active)
        return Selection(
            self.runtime,
            self.block_settings,
            self.settings.order,
            self.active,
            self.data.summary.n,
        )

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

    def finish(self, stop: StopRequest | None = None, keep_blocks: bool = True) -> Model:
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
        if not (keep_blocks or chosen.listens):
            self.runtime.build(self._kind.block, [])
        if chosen.listens:
            self.progress.start(0, "rounds", "posterior")
        span = chosen.make(active, TrainingRows(self, stop))
        if chosen.listens:
            self.progress.finish()
        if not keep_blocks:
            self.runtime.build(self._kind.block, [])
        model = Model(
            active,
            span,
            self.active.rows,
            self.data.classes,
            self.data.scaling,
            self.settings.to_json(),
            tuple(self.history),
            self.data.numbers,
        )
        if self.directory is not None:
            model.save(self.directory.model_path)
        return model

    # -- records -----------------------------------------------------------------------------------

    def _report(self) -> None:
        standings: list[Standing] = self.runtime.map_blocks("standing")
        train, numbers = standings[: self.n_train_blocks], self.data.numbers
        figure, unit = ("error", 1.0) if numbers is None else ("mse", numbers.scale**2)
        record: dict[str, float] = {
            "n_active": len(self.active),
            "seconds": round(self._elapsed(), 3),
            f"train_{figure}": sum(s.loss for s in train) * unit / self.data.summary.n,
        }
        held_out = standings[self.n_train_blocks :]
        if held_out:
            labelled = sum(s.labelled for s in held_out)
            rows = sum(s.rows for s in held_out)
            record[f"heldout_{figure}"] = sum(s.loss for s in held_out) * unit / rows
            if labelled:
                nlpp = -sum(s.log_z for s in held_out) / labelled
                record["heldout_nlpp"] = nlpp + (
                    0.0 if numbers is None else math.log(numbers.scale)
                )
        self.history.append(record)

    def _figures(self) -> Mapping[str, float]:
        last = self.history[-1] if self.history else {}
        return {name: last[name] for name in SHOWN if name in last}

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._started

    def save(self, posterior_round: int = 0) -> bool:
        """Write a checkpoint; return whether there is one now."""
        if self.directory is None or not len(self.active):
            return False
        meta = {"history": self.history, "seconds": self._elapsed()}
        arrays = self.active.arrays()
        assert self._digests is not None  # set when there is a directory
        arrays["digests"] = self._digests
        if self.refits is not None and self.refits.coefficients is not None:
            arrays["refit"] = self.refits.coefficients
        for name, array in self.posterior_state.items():
            arrays[f"posterior_{name}"] = array
        return self.directory.save(len(self.active) + posterior_round, meta, arrays)
