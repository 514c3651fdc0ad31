"""Greedy rounds: candidates from the row blocks, a batch from the pool, back to the blocks.

One by one (the paper's order), the driver looks ahead: it takes a pool of the best candidates,
includes from it in greedy order as long as the pool is likely to hold the winner, and the blocks
check afterwards that no other row would have won (ivm/verify.py). What was overtaken is discarded,
so the order is that of one row a round, at the price of large matrix products and few messages.

In panels, the driver takes the most different of the best candidates, without a check.

Where stub entries are bounded, candidates get fewer between the rounds (ivm/shrink.py).
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sparsegp.ivm.active_set import ActiveSet, History
from sparsegp.ivm.inclusions import merge
from sparsegp.ivm.pool import Pool
from sparsegp.ivm.rows import BlockSettings
from sparsegp.ivm.shrink import Keep, Ranking
from sparsegp.types import Doubles, Integers

POOL_PER_SLOT = (4, 8)
"""Candidates in the pool for each row to look ahead, among few rows and among `MANY_ROWS`: with
many, a batch that is cut short wastes more than scores do."""
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
        One by one, with at most so many inclusions between two messages to the blocks. The
        active set does not depend on it.
    panel : int
        If above 1: so many rows at a time, the most different of the best.
    """

    lookahead: int = 56
    panel: int = 1

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


def make_room(
    blocks: Blocks, settings: BlockSettings, active: History[Any], n_processes: int
) -> int:
    """Return up to how many inclusions the present candidates serve; drop some if it is time to.

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
        room = bound.room(start, settings.capacity)
        most, words = bound.size(room, n_processes), (0, 0, 0)
        ranking = Ranking.joined(blocks.map_blocks("ranking", start))
        if len(ranking.score) > most:
            words = ranking.thresholds(most, math.floor(bound.best * most))
        keep = Keep(start, room, *words)
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
    first : Integers (m,), optional
        Rows that come before all others, in this order, whatever they score; only those whose
        sites are silent are left out.
    """

    def __init__(
        self,
        blocks: Blocks,
        settings: BlockSettings,
        order: Order,
        active: ActiveSet,
        n_rows: int = 0,
        first: Integers | None = None,
    ) -> None:
        self.blocks, self.settings, self.order, self.active = blocks, settings, order, active
        self.n_candidates = order.pool_size(settings.criterion.static, n_rows)
        self._best: list[tuple[Integers, Doubles]] | None = None
        first = np.empty(0, dtype=np.int64) if first is None else first
        known = np.flatnonzero(np.isin(first, active.rows))
        self._waiting = first[known.max(initial=-1) + 1 :]

    def round(self, stop: int) -> bool:
        """Include the next batch, up to `stop` rows in all; return whether there was one."""
        settings, order, active = self.settings, self.order, self.active
        room = make_room(self.blocks, settings, active, len(settings.kernels))
        if len(self._waiting):
            self._follow(min(order.slots, stop - len(active), room - len(active)))
            return True
        pool = self._pool()
        wanted = min(order.slots, stop - len(active), room - len(active))
        batch = pool.take_diverse(wanted) if order.panel > 1 else pool.take_best(wanted)
        if batch.count == 0:
            return False
        if order.panel == 1 and batch.count > 1 and not settings.criterion.static:
            offered = pool.candidates.rows
            batch = batch.first(min(self.blocks.map_blocks("propose", batch, offered)))
        count = self.n_candidates if batch.stop < room else 0
        self._best = self.blocks.map_blocks("advance", batch, batch.stop, count)
        if not count:
            self._best = None
        active.included.append(batch)
        return True

    def _follow(self, count: int) -> None:
        """Include the next `count` of the rows that come first."""
        some, self._waiting = np.split(self._waiting, [count])
        batch = self._offered(some, -np.arange(len(some), dtype=np.float64)).take_all()
        if batch.count:
            self.blocks.map_blocks("include", batch)
            self.active.included.append(batch)
        self._best = None

    def _pool(self) -> Pool:
        """Return the best rows of all blocks."""
        count = self.n_candidates
        best = self._best or self.blocks.map_blocks("advance", None, len(self.active), count)
        rows, scores = (np.concatenate(parts) for parts in zip(*best, strict=True))
        order = np.lexsort((rows, -scores))[:count]
        return self._offered(rows[order], scores[order])

    def _offered(self, rows: Integers, scores: Doubles) -> Pool:
        """Return a pool of some rows, the best first."""
        candidates, settings = merge(self.blocks.map_blocks("gather", rows, scores)), self.settings
        slots = self.order.slots
        return Pool(candidates, settings.kernels, settings.rule, settings.criterion, slots)
