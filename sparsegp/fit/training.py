"""The sparse fit: its rows in blocks on a runtime, and all that it has reached."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsegp import memory
from sparsegp.data import Table
from sparsegp.errors import SettingsError
from sparsegp.fit import stages
from sparsegp.fit.learning import learn
from sparsegp.fit.prepare import Prepared, choose_validation_rows
from sparsegp.fit.run import Content, Run, below
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import BlockSettings
from sparsegp.learning.objective import with_parameters
from sparsegp.model import SparseModel
from sparsegp.runtime import Part
from sparsegp.runtime.base import Message
from sparsegp.runtime.scratch import Scratch
from sparsegp.runtime.threads import ThreadRuntime
from sparsegp.settings import TrainSettings
from sparsegp.state import to_arrays
from sparsegp.types import Booleans, Doubles

if TYPE_CHECKING:
    import dask.array as da


@dataclass(eq=False)
class Training(Run):
    """One sparse fit, stage by stage: `build`, `learn`, `select`, `finish`; or all of it by `fit`.

    To a posterior it is the training rows (`posterior.base.Rows`).

    Parameters
    ----------
    rows, settings, held_out, runtime, store, resume, checkpoint_every, progress, stop
        See `Run`.
    block_rows : int, optional
        Rows in a block, rounded up to whole tiles; two blocks a worker if left out. Results do
        not depend on it.
    scratch : str, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.

    Attributes
    ----------
    validation : Booleans (n,)
        Training rows that learning and calibration are judged by before they join.
    n_active : int
        Rows to include.
    block_settings : BlockSettings
        With the kernels and the likelihood of the present.
    active : ActiveSet or PairSet
    parameters : Doubles (q,) or None
        Of kernels and likelihood, as learnt so far.
    steps : list of dict
        What learning did (`fit.learning`).
    in_step : bool
        Whether the active rows are those of a step of learning that is under way.
    coefficients : Doubles (C, t, R) or None
        Of the latest fit by which candidates are scored (`posterior.refits`).
    posterior, rounds : dataclass or None, int
        The state that the posterior has reported last, and the rounds that it has made.
    former : mapping
        The arrays of that state when the run was interrupted, or empty.
    history : list of dict
        The learning curve: n_active, seconds, train_error and, with held-out rows, heldout_error
        and heldout_nlpp. Without train_error where candidates have left (`stub_entries`).
    """

    settings: TrainSettings
    block_rows: int | None = None
    scratch: str | None = None

    n_rows: int = field(init=False)
    precision: np.dtype[Any] = field(init=False)
    tolerance: float = field(init=False)
    calibrate: bool = field(init=False)
    validation: Booleans = field(init=False)
    n_active: int = field(init=False)
    block_settings: BlockSettings = field(init=False)
    active: ActiveSet | PairSet = field(init=False)
    parameters: Doubles | None = field(init=False, default=None)
    steps: list[dict[str, Any]] = field(init=False, default_factory=list)
    in_step: bool = field(init=False, default=False)
    coefficients: Doubles | None = field(init=False, default=None)
    posterior: Any = field(init=False, default=None)
    rounds: int = field(init=False, default=0)
    former: Mapping[str, NDArray[Any]] = field(init=False, default_factory=dict)
    history: list[dict[str, float]] = field(init=False, default_factory=list)

    def __post_init__(self, rows: Table | Prepared, held_out: Table | None) -> None:
        if self.block_rows is not None and self.block_rows < 1:
            raise SettingsError(f"block_rows must be at least 1, got {self.block_rows}")
        super().__post_init__(rows, held_out)
        settings, data, n = self.settings, self.data, self.data.summary.n
        self.n_rows, self.precision, self.tolerance = n, settings.dtype, settings.tolerance
        self.calibrate = settings.keeps_validation_rows
        self.block_type = PairBlock if settings.active_per_class else RowBlock
        self.active = self._nothing_active()
        self.n_active = settings.rows_to_include(n)
        self.validation = choose_validation_rows(n, settings, data.train.origin)
        rule = settings.rule(len(data.classes))
        n_latent = rule.likelihood.n_latent(len(data.classes))
        kernels = settings.kernels(n_latent, data.scaled_variances)
        bound = settings.bound(n, self.n_active, len(kernels))
        self.block_settings = BlockSettings(
            kernels=kernels,
            rule=rule,
            criterion=CRITERIA[settings.criterion](settings.seed),
            n_latent=n_latent,
            capacity=self.n_active,
            lazy=settings.lazy,
            unit=memory.tiles_together(n, bound is not None),
            allocate=np.zeros if self.scratch is None else Scratch(self.scratch),
            bound=bound,
        )
        unit, n_workers = self.block_settings.unit, self.runtime.n_workers
        self.block_rows = memory.rows_of_block(n, n_workers, unit, self.block_rows)

    def require_room(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Refuse a run that does not fit the memory of its processes."""
        where: dict[str, Any] = {"n_threads": self.runtime.n_workers}
        if not isinstance(self.runtime, ThreadRuntime):
            held = memory.held_bytes(rows.X)
            where = {"n_workers": self.runtime.n_workers, "source_bytes": held}
        where |= {"block_rows": self.block_rows, "scratch": self.scratch is not None}
        shape = memory.shape_of(rows, held_out, n_classes, self.settings, **where)
        memory.check(shape, self.runtime)

    # -- stages ------------------------------------------------------------------------------------

    def build(self) -> None:
        """Build the row blocks, and bring them to the state of the newest checkpoint."""
        data, self.runtime.recovery = self.data, self._recovery
        parts = self._parts(data.train.X, data.target, self.validation)
        self.n_train_blocks = len(parts)
        if data.held_out is not None:
            parts += self._parts(data.held_out.X, data.held_out_target, None, len(parts))
        transform = functools.partial(data.scaling.apply, dtype=self.precision)
        factory = functools.partial(self.block_type, self.block_settings, transform=transform)
        self.runtime.build(factory, parts)
        if self.store is not None:
            texts = [text for answer in self.map_blocks("fingerprint") for text in answer]
            self.digests = np.array([int(text, 16) for text in texts], dtype=np.uint64)
            self._restore()

    def _parts(
        self, X: "da.Array", target: Any, validation: Booleans | None, first_index: int = 0
    ) -> list[Part]:
        assert self.block_rows is not None  # chosen
        parts: list[Part] = []
        for start in range(0, len(target), self.block_rows):
            some = slice(start, start + self.block_rows)
            inputs = {
                "X": X[some],
                "target": target[some],
                "first_row": start,
                "held_out": validation is None,
                "validation": None if validation is None else validation[some],
            }
            parts.append(Part(first_index + len(parts), inputs))
        return parts

    def learn(self) -> None:
        """Learn kernels and likelihood, if the settings ask for that; see `fit.learning.learn`."""
        if self.settings.learn != "none" and (self.in_step or not len(self.active)):
            learn(self)

    def select(self) -> None:
        """Include rows until there are `n_active`; see `stages.select`."""
        stages.select(self)

    def finish(self, keep_blocks: bool = True) -> SparseModel:
        """Make the posterior and the model, and save it; see `stages.finish`."""
        return stages.finish(self, keep_blocks)

    def make_model(self) -> SparseModel:
        """Learn, select, and return the model."""
        self.learn()
        self.select()
        return self.finish(keep_blocks=False)

    # -- what it has reached -----------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Steps of learning, inclusions and rounds of the posterior: a checkpoint's number."""
        return len(self.steps) + len(self.active) + self.rounds

    def content(self) -> Content:
        """Return what a checkpoint holds."""
        posterior = self.former if self.posterior is None else to_arrays(self.posterior)
        arrays = {f"posterior.{name}": array for name, array in posterior.items()}
        state = {"parameters": self.parameters, "coefficients": self.coefficients}
        arrays |= {name: array for name, array in state.items() if array is not None}
        if len(self.active):
            arrays |= self.active.arrays()
        meta = {"history": self.history, "rounds": self.rounds}
        return meta | {"learning": self.steps, "in_step": self.in_step}, arrays

    def _restore(self) -> None:
        stored = self.restored()
        if stored is None:
            return
        arrays, meta = stored.arrays, stored.meta
        if "parameters" in arrays:
            self.take(arrays["parameters"])
        self.coefficients = arrays.get("coefficients")
        self.former, self.rounds = below("posterior.", arrays), int(meta["rounds"])
        self.history, self.steps = list(meta["history"]), [dict(step) for step in meta["learning"]]
        self.in_step = bool(meta["in_step"])
        if "rows" in arrays:
            self.active = type(self.active).from_arrays(arrays, self.settings.order.slots)
        self.progress.start(len(self.active), "rows", "restore")
        for method, args in self._recovery():
            self.runtime.map_blocks(method, *args)
            if method == "include":
                self.progress.update(args[0].stop)
        self.progress.finish()
        self.begin()

    def _recovery(self) -> list[Message]:
        """Return the messages that bring a new block to the present."""
        of, messages = self.block_settings, self.active.recovery()
        if self.parameters is not None:
            messages = [("restart", (of.kernels, of.rule)), *messages]
        if self.coefficients is not None:
            messages = [*messages, ("rescore", (self.coefficients,))]
        return messages

    def take(self, parameters: Doubles) -> None:
        """Take other parameters of kernels and likelihood, which the blocks do not know yet."""
        of, self.parameters = self.block_settings, parameters
        kernels, likelihood = with_parameters(of.kernels, of.likelihood, parameters)
        rule = replace(of.rule, likelihood=likelihood)
        self.block_settings = replace(of, kernels=kernels, rule=rule)

    def forget(self) -> None:
        """Forget all inclusions; the blocks go on with the present kernels and likelihood."""
        self.active = self._nothing_active()
        self.runtime.map_blocks("restart", self.block_settings.kernels, self.block_settings.rule)

    def _nothing_active(self) -> ActiveSet | PairSet:
        return PairSet() if self.settings.active_per_class else ActiveSet()

    def selection(self) -> Selection | PairSelection:
        """Return what makes the rounds."""
        if isinstance(self.active, PairSet):
            return PairSelection(self.runtime, self.block_settings, self.active)
        order = self.settings.order
        return Selection(self.runtime, self.block_settings, order, self.active, self.n_rows)

    # -- the training rows -------------------------------------------------------------------------

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the blocks of training rows."""
        return self.runtime.map_blocks(method, *args)[: self.n_train_blocks]

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Return the sum of what the blocks of training rows answer, in whatever order."""
        return self.runtime.sum_blocks(range(self.n_train_blocks), method, *args)

    def report(self, state: Any, rounds: int, **figures: float) -> None:
        """Take note that a round of the posterior is done; write a checkpoint if one is due."""
        self.posterior, self.rounds = state, rounds
        self.progress.update(rounds, **figures)
        self.checkpoint(self.done, stages.extent(self))

    def stub(self, process: int = 0) -> "da.Array":
        """Return a stub matrix (d, n) as a dask array, chunked as the row blocks are.

        Rows that are no candidates any more (`stub_entries`) are not a number, here and in `means`
        and `variances`.
        """
        transposed = self._state("stub", len(self.active), self.precision, process)
        return transposed.T  # type: ignore[no-any-return]

    def means(self) -> "da.Array":
        """Return the latent means (n, K) as a dask array, chunked as the row blocks are."""
        return self._state("mean", self.block_settings.n_latent, np.dtype(np.float64))

    def variances(self) -> "da.Array":
        """Return the latent variances (n, C) as a dask array, chunked as the row blocks are."""
        return self._state("variance", len(self.block_settings.kernels), np.dtype(np.float64))

    def _state(self, name: str, width: int, dtype: np.dtype[Any], process: int = 0) -> "da.Array":
        """Return numbers of the training rows, (n, width)."""
        import dask.array as da  # noqa: PLC0415 - slow to import, needed only here

        assert self.block_rows is not None  # chosen
        from_delayed: Any = da.from_delayed
        chunks = []
        lazy = self.runtime.as_dask("array", name, process)[: self.n_train_blocks]
        for start, block in zip(range(0, self.n_rows, self.block_rows), lazy, strict=True):
            rows = min(self.block_rows, self.n_rows - start)
            shape = (width, rows) if name == "stub" else (rows, width)
            chunk = from_delayed(block, shape, dtype=dtype)
            chunks.append(chunk.T if name == "stub" else chunk)
        whole: da.Array = da.concatenate(chunks)  # type: ignore[no-untyped-call]
        return whole
