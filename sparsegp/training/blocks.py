"""The row blocks of a run: how rows are dealt, what brings them to the present, what they tell."""

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsegp.data import Table
from sparsegp.errors import SettingsError
from sparsegp.execution import Part, Runtime
from sparsegp.execution.base import Message
from sparsegp.execution.scratch import Scratch
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.greedy import MANY_ROWS, Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import GROUP, TILE, BlockSettings, Standing
from sparsegp.learning.objective import with_parameters
from sparsegp.posterior.refits import Refits
from sparsegp.selection.criteria import CRITERIA
from sparsegp.settings import TrainSettings
from sparsegp.training.learning import Learnt
from sparsegp.training.prepare import prepare
from sparsegp.training.rows import choose_aside
from sparsegp.types import Booleans, Doubles, Integers

if TYPE_CHECKING:
    import dask.array as da

BLOCKS_PER_WORKER = 2
MAX_BLOCK_ROWS = 65536
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


def tiles_together(n: int, bounded: bool) -> int:
    """Return how many tiles stay together in a block."""
    return GROUP if n >= MANY_ROWS or bounded else 1


class RunBlocks:
    """Row blocks on a runtime, and the inclusions that they have seen.

    Parameters
    ----------
    train : Table
    settings : TrainSettings
    held_out : Table, optional
    runtime : Runtime
    block_rows : int, optional
        Rows in a block, rounded up to whole tiles; two blocks a worker if left out.
    scratch : str, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.

    Attributes
    ----------
    data : Prepared
    block_settings : BlockSettings
    n_active : int
        Rows to include.
    active : ActiveSet or PairSet
    learnt : Learnt
    """

    def __init__(
        self,
        train: Table,
        settings: TrainSettings,
        held_out: Table | None,
        runtime: Runtime,
        block_rows: int | None,
        scratch: str | None,
    ) -> None:
        if block_rows is not None and block_rows < 1:
            raise SettingsError(f"block_rows must be at least 1, got {block_rows}")
        self.settings, self.runtime = settings, runtime
        self.kind = PAIRS if settings.active_per_class else ROWS
        self.data = prepare(train, held_out, settings.scaling, runtime, settings.is_regression)
        self.aside = choose_aside(self.data.summary.n, settings, train.origin)
        self.n_active = settings.rows_to_include(self.data.summary.n)
        rule = settings.rule(len(self.data.classes))
        n_latent = rule.likelihood.n_latent(len(self.data.classes))
        kernels = settings.kernels(n_latent, self.data.scaled_variances)
        bound = settings.bound(self.data.summary.n, self.n_active, len(kernels))
        unit = tiles_together(self.data.summary.n, bound is not None)
        self.block_settings = BlockSettings(
            kernels=kernels,
            rule=rule,
            criterion=CRITERIA[settings.criterion](settings.seed),
            n_latent=n_latent,
            capacity=self.n_active,
            lazy=settings.lazy,
            unit=unit,
            allocate=np.zeros if scratch is None else Scratch(scratch),
            bound=bound,
        )
        if block_rows is None:
            block_rows = default_block_rows(self.data.summary.n, runtime.n_workers)
        self.block_rows = -(-block_rows // (unit * TILE)) * (unit * TILE)
        self.active: ActiveSet | PairSet = self.kind.active()
        self.refits: Refits | None = None
        self.learnt = Learnt()

    def place(self) -> None:
        """Build the blocks, those of the training rows first."""
        self.runtime.recovery = self._recovery
        parts = self._parts(self.data.train.X, self.data.target, aside=self.aside)
        self.n_train_blocks = len(parts)
        if self.data.held_out is not None:
            assert self.data.held_out_target is not None  # set together
            parts += self._parts(
                self.data.held_out.X, self.data.held_out_target, first_index=len(parts)
            )
        factory = functools.partial(
            self.kind.block,
            self.block_settings,
            transform=functools.partial(self.data.scaling.apply, dtype=self.settings.dtype),
        )
        self.runtime.build(factory, parts)

    def digests(self) -> NDArray[np.uint64]:
        """Return digests of the training rows, tile by tile."""
        answers = self.ask_training_blocks("fingerprint")
        return np.array([int(text, 16) for answer in answers for text in answer], dtype=np.uint64)

    def _recovery(self) -> list[Message]:
        """Return the messages that bring a new block to the present."""
        begin: list[Message] = []
        if self.learnt.parameters is not None:
            begin = [("restart", (self.block_settings.kernels, self.block_settings.rule))]
        refits = [] if self.refits is None else self.refits.recovery()
        return begin + self.active.recovery() + refits

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

    def restart(self, parameters: Doubles | None) -> None:
        """Forget all inclusions, and go on with other parameters of kernels and likelihood."""
        of = self.block_settings
        if parameters is not None:
            kernels, likelihood = with_parameters(of.kernels, of.likelihood, parameters)
            rule = replace(of.rule, likelihood=likelihood)
            self.block_settings = replace(of, kernels=kernels, rule=rule)
        self.active = self.kind.active()
        self.runtime.map_blocks("restart", self.block_settings.kernels, self.block_settings.rule)

    def ask_training_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the blocks of training rows."""
        return self.runtime.map_blocks(method, *args)[: self.n_train_blocks]

    def selection(self) -> Selection | PairSelection:
        """Return what makes the rounds."""
        if isinstance(self.active, PairSet):
            return PairSelection(self.runtime, self.block_settings, self.active)
        return Selection(
            self.runtime,
            self.block_settings,
            self.settings.order,
            self.active,
            self.data.summary.n,
        )

    def standing(self) -> dict[str, float]:
        """Return the figures of training and held-out rows by the present marginals.

        Where candidates get fewer, there is no figure of the training rows any more as soon as some
        have left: what is known of those that stay, most of them the hardest, tells nothing of all.
        """
        standings: list[Standing] = self.runtime.map_blocks("standing")
        train, numbers = standings[: self.n_train_blocks], self.data.numbers
        figure, unit = ("error", 1.0) if numbers is None else ("mse", numbers.scale**2)
        record: dict[str, float] = {}
        if sum(s.rows for s in train) == self.data.summary.n:
            record[f"train_{figure}"] = sum(s.loss for s in train) * unit / self.data.summary.n
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
        return record

    def stub(self, process: int = 0) -> "da.Array":
        """Return a stub matrix (d, n) as a dask array, chunked as the row blocks are.

        Rows that are no candidates any more (`stub_entries`) are not a number, here and in `means`
        and `variances`.
        """
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
