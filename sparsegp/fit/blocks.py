"""The state of a sparse fit, and its row blocks on a runtime."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sparsegp import memory
from sparsegp.data import Table
from sparsegp.fields import Setting
from sparsegp.fit.prepare import (
    Prepared,
    choose_candidates,
    choose_folds,
    choose_validation_rows,
    site_rule,
)
from sparsegp.fit.run import Run
from sparsegp.free_memory import require_memory
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import BlockSettings, MarginalMetrics
from sparsegp.kernels import Kernel
from sparsegp.learning.objective import parameter_names, with_parameters
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.model import SparseModel
from sparsegp.posterior.past import PastRows
from sparsegp.runtime.base import Message
from sparsegp.runtime.scratch import zeros_in_file
from sparsegp.settings import TrainSettings
from sparsegp.state import require_shapes
from sparsegp.types import Booleans, DaskArray, Doubles, Integers

BLOCK_ROWS = Setting("block_rows", int, None, optional=True, least=1)


@dataclass(eq=False)
class SparseRun(Run[SparseModel]):
    """The state of a sparse fit; posteriors use it as `posterior.base.Rows`."""

    settings: TrainSettings
    block_rows: int | None = None
    """Rows per block, rounded up to whole tiles; by default two blocks per worker. Results do not
    depend on it."""
    scratch: str | None = None
    """Directory for files that hold scaled inputs and stub matrices instead of memory."""
    first: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows to include before all others, in this order. Some may be drawn as validation rows, and
    are left out then: rows that were selected once are harder to predict than others."""
    past: PastRows | None = None
    """Summary of earlier training rows that are no longer available; the active rows kept from them
    are active from the start."""
    keeps_scores: bool = True
    """Whether the model gets the quantiles that novelty and prediction sets need."""

    # the state, as in checkpoints
    parameters: Doubles | None = field(default=None, init=False)  # learnt so far (q,)
    steps: list[dict[str, Any]] = field(default_factory=list, init=False)  # see `fit.learning`
    in_step: bool = field(default=False, init=False)  # whether one of these steps is in progress
    rounds: int = field(default=0, init=False)  # iterations of the posterior
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    """The learning curve: n_active, seconds, and the metrics of `figures`."""

    def __post_init__(self, rows: Table | Prepared, held_out: Table | None) -> None:
        self.block_rows = BLOCK_ROWS.checked(self.block_rows)
        super().__post_init__(rows, held_out)
        data, n = self.data, self.data.summary.n
        if data.has_fewer_rows and self.past is None:
            self.settings = self.settings.for_rows(n)
        settings = self.settings
        self.n_rows, self.precision = n, settings.dtype
        self.calibrate = settings.keeps_validation_rows or settings.learns_noise
        self._choose_rows()
        # few rows of large weight would end an ascent too early
        self.tolerance = settings.tolerance * min(self.total, n)
        wanted = settings.n_active if self.past is not None else None  # may exceed the new rows
        self.n_active = wanted or settings.rows_to_include(n)
        self.block_type = PairBlock if settings.active_per_class else RowBlock
        self.active: ActiveSet | PairSet = PairSet() if settings.active_per_class else ActiveSet()
        rule = site_rule(settings, data)
        n_latent = rule.likelihood.n_latent(len(data.classes))
        kernels: Sequence[Kernel] = settings.kernels(n_latent, data.scaled_variances)
        if self.past is not None:
            kernels = self.past.active.kernels
            self.active = self.past.active_set(settings.order.slots, settings.dtype)
        self._given = kernels, rule.likelihood  # kept for the same bits after a resume
        self.block_settings = self._settings_of_blocks(rule, kernels, n_latent)
        unit, n_workers = self.block_settings.unit, self.runtime.n_workers
        self.block_rows = memory.rows_of_block(n, n_workers, unit, self.block_rows)

    def _choose_rows(self) -> None:
        """Choose validation rows or folds, and set the weights of rows."""
        data, settings, weights = self.data, self.settings, self.data.train.weights
        families, self.weights = data.families, weights
        # they judge learning and calibration before they are added to the others
        self.validation = choose_validation_rows(
            data.target, settings, families, keeps_scale=self.past is not None
        )
        self.first = self.first[~np.isin(families[self.first], families[self.validation])]
        folds = choose_folds(data.target, settings, families)
        self.folds = folds if self.past is None else folds[:0]
        self.total = float(self.n_rows)
        self.validation_weights: Doubles | float = 1.0
        if weights is not None:
            self.total, own = float(weights.sum()), weights[self.validation]
            self.validation_weights = own / own.mean() if len(own) else own

    def _settings_of_blocks(
        self, rule: SiteRule, kernels: Sequence[Kernel], n_latent: int
    ) -> BlockSettings:
        """Return the settings of all blocks; limit active rows to the number of candidates."""
        settings, n = self.settings, self.n_rows
        how = settings, self.n_active, self.runtime.scheduler()
        candidates = choose_candidates(self.data, self.validation, *how)
        if candidates is not None and self.past is None and not settings.active_per_class:
            self.n_active = min(self.n_active, len(candidates))
        bound, scratch = settings.bound(n, self.n_active, len(kernels)), self.scratch
        return BlockSettings(
            kernels=kernels,
            rule=rule,
            criterion=CRITERIA[settings.criterion_used](settings.seed),
            n_latent=n_latent,
            capacity=self.n_active,
            lazy=settings.lazy,
            unit=memory.tiles_per_unit(n, bound is not None),
            allocate=np.zeros if scratch is None else partial(zeros_in_file, scratch),
            bound=bound,
            candidates=candidates,
        )

    def require_memory(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Raise SettingsError if the run would not fit into the memory of its processes."""
        more: Any = {"block_rows": self.block_rows, "scratch": self.scratch is not None}
        require_memory(rows, held_out, n_classes, self.settings, self.runtime, **more)

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return what identifies the run: settings, data, rows to include first, and past rows."""
        known = super().identity()
        if len(self.first):
            known["data"] |= {"first": self.first.tolist()}
        known["data"] |= {"past": self.past.digest()} if self.past is not None else {}
        return known

    # -- blocks ------------------------------------------------------------------------------------

    def build(self) -> None:
        """Build the row blocks, and restore the state of the newest checkpoint."""
        data, self.runtime.recovery = self.data, self._recovery
        parts = self._parts(data.train.X, data.target, self.validation, self.weights)
        self.n_train_blocks = len(parts)
        if data.held_out is not None:
            parts += self._parts(data.held_out.X, data.held_out_target)
        transform = partial(data.scaling.apply, dtype=self.precision)
        factory = partial(self.block_type, self.block_settings, transform=transform)
        self.runtime.build(factory, parts)
        self._restore()
        if messages := self._recovery():
            seconds = self.seconds()
            self.progress.start(len(self.active), "rows", "restore")
            for method, args in messages:
                self.runtime.map_blocks(method, *args)
                if method == "include":
                    self.progress.update(args[0].stop)
            self.progress.finish()
            self.start_clock(seconds)  # without the time of this

    def _parts(
        self,
        X: DaskArray,
        target: Any,
        validation: Booleans | None = None,
        weights: Doubles | None = None,
    ) -> list[dict[str, Any]]:
        """Return the arguments of each block; without `validation`, the rows are test rows."""
        arrays = {"X": X, "target": target, "validation": validation, "weights": weights}
        return [
            {"first_row": some.start}
            | {name: None if each is None else each[some] for name, each in arrays.items()}
            for some in self._slices(len(target))
        ]

    def _slices(self, n: int) -> list[slice]:
        assert self.block_rows is not None  # set in __post_init__
        return [slice(i, min(i + self.block_rows, n)) for i in range(0, n, self.block_rows)]

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on all blocks; return the answers of those of training rows in order."""
        return self.runtime.map_blocks(method, *args)[: self.n_train_blocks]

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Return the sum of the answers of the blocks of training rows, added in any order."""
        return self.runtime.sum_blocks(range(self.n_train_blocks), method, *args)

    # -- state -------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Learning steps, inclusions and posterior iterations so far, as checkpoint number."""
        return len(self.steps) + len(self.active) + self.rounds

    def content(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the content of a checkpoint besides the state of the posterior."""
        meta = {"history": self.history, "rounds": self.rounds}
        parts = {"parameters": self.parameters, "mixing": self.data.scaling.mixing}
        arrays = {name: part for name, part in parts.items() if part is not None}
        if len(self.active):
            arrays |= self.active.arrays()
        return meta | {"learning": self.steps, "in_step": self.in_step}, arrays

    def _restore(self) -> None:
        stored = self.restored()
        if stored is None:
            return
        arrays, meta = stored.arrays, stored.meta
        of, p = self.block_settings, self.data.summary.p
        if "parameters" in arrays:
            names = parameter_names(of.kernels, of.likelihood)
            require_shapes(arrays, {"parameters": (len(names),)})
            self.take(arrays["parameters"])
        self.rounds, self.in_step = int(meta["rounds"]), bool(meta["in_step"])
        self.history, self.steps = list(meta["history"]), [dict(step) for step in meta["learning"]]
        if "rows" in arrays:
            d, n_kernels = len(arrays["rows"]), len(of.kernels)
            require_shapes(arrays, self.active.shapes(d, p, n_kernels, of.n_latent))
            self.active = type(self.active).from_arrays(arrays, self.settings.order.slots)

    def _recovery(self) -> list[Message]:
        """Return the messages that bring a new block to the current state."""
        of, messages = self.block_settings, self.active.recovery()
        if self.parameters is not None:
            messages = [("restart", (of.kernels, of.rule)), *messages]
        return messages

    def take(self, parameters: Doubles) -> None:
        """Set the parameters of kernels and likelihood, without telling the blocks."""
        of, self.parameters = self.block_settings, parameters
        kernels, likelihood = with_parameters(*self._given, parameters)
        rule = replace(of.rule, likelihood=likelihood)
        self.block_settings = replace(of, kernels=kernels, rule=rule)

    def forget(self) -> None:
        """Discard all inclusions; the blocks restart with the current kernels and likelihood."""
        self.active = type(self.active)()
        self.runtime.map_blocks("restart", self.block_settings.kernels, self.block_settings.rule)

    def report(self, state: Any, rounds: int, **figures: float) -> None:
        """Record that an iteration of the posterior is done; write a checkpoint if one is due."""
        self.state, self.rounds = state, rounds
        self.progress.update(rounds, **figures)
        self.checkpoint(self.done)

    # -- selection ---------------------------------------------------------------------------------

    def include(self, every: int) -> Iterator[int]:
        """Include rows in batches until `n_active` are active, or no other can be included.

        Yields the number of active rows after each batch; a checkpoint, if due, is written when the
        next batch is requested. Batches end at multiples of `every`, except panels, which are not
        cut because narrower ones cost nearly as much.
        """
        of, order, active = self.block_settings, self.settings.order, self.active
        selection = (
            PairSelection(self.runtime, of, active)
            if isinstance(active, PairSet)
            else Selection(self.runtime, of, order, active, self.n_rows, self.first)
        )
        whole = isinstance(active, ActiveSet) and order.panel > 1
        while (count := len(active)) < self.n_active:
            stop = self.n_active if whole else min((count // every + 1) * every, self.n_active)
            if not selection.round(stop):
                break
            yield len(active)
            self.checkpoint(self.done, due=len(active) == self.n_active)

    def figures(self) -> dict[str, float]:
        """Return the metrics of training and test rows under the current marginals.

        Once candidates have been dropped, there are none for the training rows: those that are left
        are mostly the hardest, and not representative.
        """
        answers: list[MarginalMetrics] = self.runtime.map_blocks("marginal_metrics")
        numbers, found = self.data.numbers, {}
        name, unit = ("error", 1.0) if numbers is None else ("mse", numbers.scale**2)
        train, held_out = answers[: self.n_train_blocks], answers[self.n_train_blocks :]
        if sum(some.rows for some in train) == self.n_rows:
            found[f"train_{name}"] = sum(some.loss for some in train) * unit / self.total
        if held_out:
            rows = sum(some.rows for some in held_out)
            found[f"heldout_{name}"] = sum(some.loss for some in held_out) * unit / rows
            if labelled := sum(some.labelled for some in held_out):
                nlpp = -sum(some.log_z for some in held_out) / labelled
                found["heldout_nlpp"] = nlpp + (0.0 if numbers is None else math.log(numbers.scale))
        return found

    # -- dask arrays, with one chunk per row block -------------------------------------------------

    def stub(self, process: int = 0) -> DaskArray:
        """Return the stub matrix (d, n) of a process.

        Values for candidates that were dropped (`stub_entries`) are NaN, here and in `means` and
        `variances`.
        """
        return self._as_dask("stub", len(self.active), self.precision, process)

    def means(self) -> DaskArray:
        """Return the latent means (n, K)."""
        return self._as_dask("mean", self.block_settings.n_latent)

    def variances(self) -> DaskArray:
        """Return the latent variances (n, C)."""
        return self._as_dask("variance", len(self.block_settings.kernels))

    def _as_dask(
        self, name: str, width: int, dtype: Any = np.float64, process: int = 0
    ) -> DaskArray:
        """Return an array of the blocks as a dask array, (n, width), or (width, n) for a stub.

        It asks this runtime for the blocks, so it must be computed in this process, by dask's
        threaded or synchronous scheduler.
        """
        import dask.array as da  # noqa: PLC0415 - slow to import, needed only here
        from dask.delayed import delayed  # noqa: PLC0415

        ask: Any = delayed(self.runtime.ask, pure=False)
        chunks = []
        for number, some in enumerate(self._slices(self.n_rows)):
            shape = (some.stop - some.start, width)
            shape = shape[::-1] if name == "stub" else shape
            block = ask([number], "array", name, process)[0]
            chunks.append(da.from_delayed(block, shape, dtype=dtype))
        return da.concatenate(chunks, axis=int(name == "stub"))
