"""Greedy rounds: candidates from the row blocks, a batch from the pool, back to the blocks.

One by one (the paper's order), the driver looks ahead: it takes a pool of the best candidates,
includes from it in greedy order as long as the pool is likely to hold the winner, and the blocks
check afterwards that no other row would have won (ivm/verify.py). What was overtaken is dropped, so
the order is that of one row a round, at the price of large matrix products and few messages.

In panels, the driver takes the most different of the best candidates, without a check.

Where stub entries are bounded, candidates get fewer between the rounds (ivm/shrink.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.inclusions import Candidates, Inclusions, merge
from sparsegp.ivm.pool import Pool
from sparsegp.ivm.rows import BlockSettings
from sparsegp.ivm.shrink import Keep, thresholds
from sparsegp.types import Integers

POOL_PER_SLOT = (4, 8)
"""Candidates in the pool for each row to look ahead, among few rows and among `MANY_ROWS`: there a
batch that is cut short wastes more than scores do."""
MANY_ROWS = 32768
"""Blocks of so many rows are made of groups of tiles."""

PANEL_CHOICE = 4
"""Candidates among which each row of a panel is chosen."""


class Blocks(Protocol):
    """What the rounds need of a runtime: every method of every block, answers in block order."""

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on all blocks."""
        ...


@dataclass(frozen=True)
class Order:
    """In which order rows are included.

    Parameters
    ----------
    lookahead : int
        One by one, with at most so many inclusions between two questions to the blocks. The
        active set does not depend on it.
    panel : int
        If above 1: so many rows at a time, the most different of the best.
    """

    lookahead: int = 56
    panel: int = 1

    def __post_init__(self) -> None:
        for name in ("lookahead", "panel"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}")

    @property
    def slots(self) -> int:
        """Rows that a batch has room for."""
        return self.panel if self.panel > 1 else self.lookahead

    def pool_size(self, static: bool, n_rows: int) -> int:
        """Return how many candidates of so many rows a round asks for."""
        if static:
            return self.slots
        if self.panel > 1:
            return PANEL_CHOICE * self.panel
        return POOL_PER_SLOT[n_rows >= MANY_ROWS] * self.lookahead if self.lookahead > 1 else 1


class Thinned(Protocol):
    """What a thinning needs of an active set."""

    kept: list[Keep]

    @property
    def room(self) -> int:
        """Inclusions for which the candidates last kept are there."""
        ...

    def __len__(self) -> int: ...


def make_room(blocks: Blocks, settings: BlockSettings, active: Thinned, n_processes: int) -> int:
    """Return up to how many inclusions the blocks may go on, after candidates left if they had to.

    Parameters
    ----------
    blocks : Blocks
    settings : BlockSettings
    active : ActiveSet or PairSet
    n_processes : int
        Stub columns of an inclusion.
    """
    bound, start = settings.bound, len(active)
    if bound is None:
        return settings.capacity
    if start == active.room:
        keep = Keep(start, bound.room(start, settings.capacity))
        most = bound.size(keep.room, n_processes)
        if sum(blocks.map_blocks("count", start)) > most:

            def ask(found: Sequence[int], prefix: int, shift: int) -> Integers:
                tallies = blocks.map_blocks("tally", start, found, prefix, shift)
                return np.asarray(np.sum(tallies, axis=0))

            words = thresholds(ask, most, math.floor(bound.best * most))
            keep = Keep(start, keep.room, *words)
        blocks.map_blocks("keep", keep)
        active.kept.append(keep)
    return active.room


class Selection:
    """The state of a selection on the driver, and its next round.

    Parameters
    ----------
    blocks : Blocks
        A runtime that holds the row blocks; all of them at the state of `active`.
    settings : BlockSettings
    order : Order
    active : ActiveSet
        Empty, or what a checkpoint held.
    n_rows : int
        Rows in all blocks.
    """

    def __init__(
        self,
        blocks: Blocks,
        settings: BlockSettings,
        order: Order,
        active: ActiveSet,
        n_rows: int = 0,
    ) -> None:
        self.n_rows = n_rows
        self.blocks, self.settings, self.order, self.active = blocks, settings, order, active
        self.dropped = 0
        self._best: list[tuple[Any, Any, Candidates | None]] | None = None

    def round(self, stop: int, last: int | None = None) -> bool:
        """Include the next batch, up to `stop` rows in all.

        Parameters
        ----------
        stop : int
        last : int, optional
            Active rows after which no candidates are asked for any more; `stop` if left out.

        Returns
        -------
        bool
            Whether there was a row that may be included.
        """
        room = make_room(self.blocks, self.settings, self.active, len(self.settings.kernels))
        stop, last = min(stop, room), min(last or stop, room)
        criterion, order = self.settings.criterion, self.order
        count = order.pool_size(criterion.static, self.n_rows)
        candidates = self._candidates(count)
        pool = Pool(candidates, self.settings.kernels, self.settings.rule, criterion, order.slots)
        wanted = min(order.slots, stop - len(self.active))
        batch = pool.take_diverse(wanted) if order.panel > 1 else pool.take_best(wanted)
        if batch.count == 0:
            return False
        if order.panel == 1 and batch.count > 1 and not criterion.static:
            batch = self._checked(batch, candidates)
        more = count if batch.stop < last else 0
        best = self.blocks.map_blocks("advance", batch, batch.stop, more)
        self._best = best if more else None
        self.active.append(batch)
        return True

    def forget(self) -> None:
        """Ask for candidates anew: the scores have changed."""
        self._best = None

    def _checked(self, batch: Inclusions, candidates: Candidates) -> Inclusions:
        """Return the part of the batch that is in the true order."""
        kept = min(self.blocks.map_blocks("propose", batch, candidates.rows))
        self.dropped += batch.count - kept
        return batch.first(kept)

    def _candidates(self, count: int) -> Candidates:
        """Return the best rows of all blocks, with all that is needed to include them."""
        best, self._best = self._best, None
        if best is None:
            best = self.blocks.map_blocks("advance", None, len(self.active), count)
        attached = [part for _, _, part in best if part is not None]
        if attached:
            return merge(attached, count)
        rows = np.concatenate([part[0] for part in best])
        scores = np.concatenate([part[1] for part in best])
        order = np.lexsort((rows, -scores))[:count]
        return merge(self.blocks.map_blocks("gather", rows[order], scores[order]), count)
