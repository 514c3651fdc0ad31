"""The row blocks of a run: how rows are dealt, what brings them to the present, what they tell."""

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsegp.data import Table
from sparsegp.errors import SettingsError
from sparsegp.estimate import Places, require_room
from sparsegp.estimate.dealing import default_block_rows, tiles_together
from sparsegp.execution import Part, Runtime
from sparsegp.execution.base import Message
from sparsegp.execution.host import pack_part
from sparsegp.execution.memory import Room
from sparsegp.execution.scratch import Scratch
from sparsegp.execution.threads import ThreadRuntime
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.greedy import Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import TILE, BlockSettings, Standing
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


class Kind(NamedTuple):
    """Row blocks and what a run remembers of their inclusions."""

    block: type[RowBlock] | type[PairBlock]
    active: type[ActiveSet] | type[PairSet]


ROWS, PAIRS = Kind(RowBlock, ActiveSet), Kind(PairBlock, PairSet)


def held_bytes(X: "da.Array") -> int:
    """Return the bytes of rows that travel with their tasks; none of those read from files."""
    first = X.blocks[0]
    return int(X.nbytes) if 2 * len(pack_part(len, {"X": first})) > first.nbytes else 0


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

        numeric, place = settings.is_regression, (block_rows, scratch is not None)
        self.data = prepare(
            train,
            held_out,
            settings.scaling,
            runtime,
            numeric,
            lambda n_classes: self._require_room(train, held_out, n_classes, *place),
        )
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

    def _require_room(
        self,
        train: Table,
        held_out: Table | None,
        n_classes: int,
        block_rows: int | None,
        scratch: bool,
    ) -> None:
        """Refuse a run that does not fit the memory of its processes."""
        (n, p), rooms = train.X.shape, self.runtime.rooms()
        apart = not isinstance(self.runtime, ThreadRuntime)
        require_room(
            Places(Room.of_this_process("this process"), rooms if apart else ()),
            n=n,
            p=p,
            n_classes=n_classes,
            n_active=self.settings.rows_to_include(n),
            settings=self.settings,
            n_workers=len(rooms) if apart else 0,
            n_threads=1 if apart else self.runtime.n_workers,
            n_test=0 if held_out is None else held_out.X.shape[0],
            source_bytes=held_bytes(train.X) if apart else 0,
            source_itemsize=train.X.dtype.itemsize,
            chunk_rows=max(train.X.chunks[0]),
            block_rows=block_rows,
            scratch=scratch,
        )

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
                    "X": X[start : start + self.block_rows],
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

    def sum_training_blocks(self, method: str, *args: Any) -> Any:
        """Return the sum of what the blocks of training rows answer, in whatever order."""
        return self.runtime.sum_blocks(range(self.n_train_blocks), method, *args)

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
