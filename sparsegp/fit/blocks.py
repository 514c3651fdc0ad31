"""The state of a sparse fit, and the row blocks on a runtime that follow it."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

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
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import BlockSettings, MarginalMetrics
from sparsegp.kernels import Kernel
from sparsegp.learning.objective import parameter_names, with_parameters
from sparsegp.model import SparseModel
from sparsegp.posterior.past import PastRows
from sparsegp.runtime.base import Message
from sparsegp.runtime.scratch import zeros_in_file
from sparsegp.settings import TrainSettings
from sparsegp.state import require_shapes
from sparsegp.types import Booleans, Doubles, Integers

if TYPE_CHECKING:
    import dask.array as da


BLOCK_ROWS = Setting("block_rows", int, None, optional=True, least=1)


@dataclass(eq=False)
class SparseRun(Run[SparseModel]):
    """What a sparse fit has reached; to a posterior, the training rows (`posterior.base.Rows`).

    Parameters
    ----------
    rows, settings, held_out, runtime, store, resume, checkpoint_every, progress, stop
        See `Run`.
    block_rows : int, optional
        Rows in a block, rounded up to whole tiles; two blocks a worker if left out. Results do
        not depend on it.
    scratch : str, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.
    first : Integers (m,), optional
        Rows that are included before all others, in this order; they and their copies do not serve
        for validation.
    past : PastRows, optional
        Rows that are gone, but count; those active rows that stay are there from the start.
    knows_limits : bool
        Whether the model is to know how new a row is, and label sets.

    Attributes
    ----------
    validation : Booleans (n,)
        Training rows that learning and calibration are judged by before they join.
    total, weights, validation_weights
        See `posterior.base.Rows`.
    folds : Integers (n,)
        Of the training rows, for cross-validation; empty where it is not needed.
    n_active : int
        Rows to include.
    block_settings : BlockSettings
        With the present kernels and likelihood.
    active : ActiveSet or PairSet
    parameters : Doubles (q,) or None
        Of kernels and likelihood, as learnt so far.
    steps : list of dict
        What learning did (`fit.learning`).
    in_step : bool
        Whether the active rows are those of a step of learning that is under way.
    rounds : int
        That the posterior has made.
    history : list of dict
        The learning curve: n_active, seconds, train_error and, with held-out rows, heldout_error
        and heldout_nlpp. Without train_error where candidates have left (`stub_entries`).
    """

    settings: TrainSettings
    block_rows: int | None = None
    scratch: str | None = None
    first: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    past: PastRows | None = None
    knows_limits: bool = True

    def __post_init__(self, rows: Table | Prepared, held_out: Table | None) -> None:
        self.block_rows = BLOCK_ROWS.checked(self.block_rows)
        super().__post_init__(rows, held_out)
        data, n, weights = self.data, self.data.summary.n, self.data.train.weights
        if weights is not None and self.past is None:  # copies were merged
            self.settings = self.settings.for_rows(n)
        settings, self.weights = self.settings, weights
        self.n_rows, self.precision, self.tolerance = n, settings.dtype, settings.tolerance
        self.calibrate = settings.keeps_validation_rows or settings.learns_noise
        self.validation = choose_validation_rows(
            n, settings, data.train.origin, keeps_scale=self.past is not None
        )
        family = np.arange(n) if data.train.origin is None else data.train.origin
        self.validation &= ~np.isin(family, family[self.first])
        folds = choose_folds(data.target, settings, data.train.origin)
        self.folds = folds if self.past is None else folds[:0]
        self.total, self.validation_weights = float(n), cast("Doubles | float", 1.0)
        if weights is not None:
            self.total, own = float(weights.sum()), weights[self.validation]
            self.validation_weights = own / own.mean() if len(own) else own
        wanted = settings.n_active if self.past is not None else None  # more than new rows, perhaps
        self.n_active = wanted or settings.rows_to_include(n)
        self.block_type = PairBlock if settings.active_per_class else RowBlock
        self.active: ActiveSet | PairSet = PairSet() if settings.active_per_class else ActiveSet()
        self.parameters: Doubles | None = None
        self.steps: list[dict[str, Any]] = []
        self.in_step = False
        self.rounds, self.history = 0, list[dict[str, float]]()
        rule = site_rule(settings, len(data.classes))
        n_latent = rule.likelihood.n_latent(len(data.classes))
        kernels: Sequence[Kernel] = settings.kernels(n_latent, data.scaled_variances)
        if self.past is not None:
            kernels = self.past.active.kernels
            self.active = self.past.active_set(settings.order.slots, settings.dtype)
        bound = settings.bound(n, self.n_active, len(kernels))
        self.block_settings = BlockSettings(
            kernels=kernels,
            rule=rule,
            criterion=CRITERIA[settings.criterion](settings.seed),
            n_latent=n_latent,
            capacity=self.n_active,
            lazy=settings.lazy,
            unit=memory.tiles_together(n, bound is not None),
            allocate=np.zeros
            if self.scratch is None
            else functools.partial(zeros_in_file, self.scratch),
            bound=bound,
            candidates=choose_candidates(data, self.validation, settings, self.n_active),
        )
        unit, n_workers = self.block_settings.unit, self.runtime.n_workers
        self.block_rows = memory.rows_of_block(n, n_workers, unit, self.block_rows)

    def require_room(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Refuse a run that does not fit the memory of its processes."""
        more = {"block_rows": self.block_rows, "scratch": self.scratch is not None}
        memory.check(rows, held_out, n_classes, self.settings, self.runtime, **more)

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return settings and data, which rows come first, and what is known of rows gone."""
        known = super().identity()
        if len(self.first):
            known["data"] |= {"first": self.first.tolist()}
        known["data"] |= {"past": self.past.digest()} if self.past is not None else {}
        return known

    # -- blocks ------------------------------------------------------------------------------------

    def build(self) -> None:
        """Build the row blocks, and bring them to the state of the newest checkpoint."""
        data, self.runtime.recovery = self.data, self._recovery
        parts = self._parts(data.train.X, data.target, self.validation, self.weights)
        self.n_train_blocks = len(parts)
        if data.held_out is not None:
            parts += self._parts(data.held_out.X, data.held_out_target)
        transform = functools.partial(data.scaling.apply, dtype=self.precision)
        factory = functools.partial(self.block_type, self.block_settings, transform=transform)
        self.runtime.build(factory, parts)
        if self.store is not None:
            texts = [text for answer in self.map_blocks("fingerprint") for text in answer]
            self.digests = np.array([int(text, 16) for text in texts], dtype=np.uint64)
            self._restore()
        if messages := self._recovery():
            self._replay(messages)

    def _parts(
        self,
        X: "da.Array",
        target: Any,
        validation: Booleans | None = None,
        weights: Doubles | None = None,
    ) -> list[dict[str, Any]]:
        """Return the inputs of blocks; without `validation`, those of held-out rows."""
        return [
            {
                "X": X[some],
                "target": target[some],
                "first_row": some.start,
                "held_out": validation is None,
                "validation": None if validation is None else validation[some],
                "weights": None if weights is None else weights[some],
            }
            for some in self._slices(len(target))
        ]

    def _slices(self, n: int) -> list[slice]:
        assert self.block_rows is not None  # chosen
        return [slice(i, min(i + self.block_rows, n)) for i in range(0, n, self.block_rows)]

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the blocks of training rows."""
        return self.runtime.map_blocks(method, *args)[: self.n_train_blocks]

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Return the sum of what the blocks of training rows answer, in whatever order."""
        return self.runtime.sum_blocks(range(self.n_train_blocks), method, *args)

    # -- what it has reached -----------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Steps of learning, inclusions and rounds of the posterior: a checkpoint's number."""
        return len(self.steps) + len(self.active) + self.rounds

    def content(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a checkpoint holds besides the state of the posterior."""
        meta = {"history": self.history, "rounds": self.rounds}
        arrays = {} if self.parameters is None else {"parameters": self.parameters}
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

    def _replay(self, messages: list[Message]) -> None:
        seconds = self.seconds()
        self.progress.start(len(self.active), "rows", "restore")
        for method, args in messages:
            self.runtime.map_blocks(method, *args)
            if method == "include":
                self.progress.update(args[0].stop)
        self.progress.finish()
        self.start_clock(seconds)

    def _recovery(self) -> list[Message]:
        """Return the messages that bring a new block to the present."""
        of, messages = self.block_settings, self.active.recovery()
        if self.parameters is not None:
            messages = [("restart", (of.kernels, of.rule)), *messages]
        return messages

    def take(self, parameters: Doubles) -> None:
        """Take other parameters of kernels and likelihood, which the blocks do not know yet."""
        of, self.parameters = self.block_settings, parameters
        kernels, likelihood = with_parameters(of.kernels, of.likelihood, parameters)
        rule = replace(of.rule, likelihood=likelihood)
        self.block_settings = replace(of, kernels=kernels, rule=rule)

    def forget(self) -> None:
        """Forget all inclusions; the blocks go on with the present kernels and likelihood."""
        self.active = type(self.active)()
        self.runtime.map_blocks("restart", self.block_settings.kernels, self.block_settings.rule)

    def report(self, state: Any, rounds: int, **figures: float) -> None:
        """Take note that a round of the posterior is done; write a checkpoint if one is due."""
        self.state, self.rounds = state, rounds
        self.progress.update(rounds, **figures)
        self.checkpoint(self.done)

    # -- selection ---------------------------------------------------------------------------------

    def include(self, every: int) -> Iterator[int]:
        """Include batches of rows until there are `n_active`, or no other may be included.

        One by one, no batch reaches across a multiple of `every`; panels stay whole, as narrow ones
        cost nearly as much. Yields how many rows are active after each; a checkpoint is written
        when the next one is asked for, if one is due.
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
        """Return the figures of training and held-out rows by the present marginals.

        Where candidates get fewer, there is no figure of the training rows any more as soon as some
        have left: what is known of those that stay, most of them the hardest, says nothing of all.
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

    # -- shown as dask arrays, in chunks that are the row blocks -----------------------------------

    def stub(self, process: int = 0) -> "da.Array":
        """Return a stub matrix (d, n).

        Rows that are no candidates any more (`stub_entries`) are not a number, here and in `means`
        and `variances`.
        """
        return self._as_dask("stub", len(self.active), self.precision, process)

    def means(self) -> "da.Array":
        """Return the latent means (n, K)."""
        return self._as_dask("mean", self.block_settings.n_latent)

    def variances(self) -> "da.Array":
        """Return the latent variances (n, C)."""
        return self._as_dask("variance", len(self.block_settings.kernels))

    def _as_dask(
        self, name: str, width: int, dtype: Any = np.float64, process: int = 0
    ) -> "da.Array":
        """Return numbers of the training rows, (n, width), or (width, n) of a stub."""
        import dask.array  # noqa: PLC0415 - slow to import, needed only here

        da: Any = dask.array  # whose functions have no types
        lazy = self.runtime.as_dask("array", name, process)[: self.n_train_blocks]
        chunks = []
        for some, block in zip(self._slices(self.n_rows), lazy, strict=True):
            shape = (some.stop - some.start, width)
            shape = shape[::-1] if name == "stub" else shape
            chunks.append(da.from_delayed(block, shape, dtype=dtype))
        return da.concatenate(chunks, axis=int(name == "stub"))  # type: ignore[no-any-return]
