"""Greedy rounds: collect candidates from the row blocks, choose a batch, send it to the blocks.

For one-by-one selection (the paper's order) the driver looks ahead. It includes rows from a pool of
the best candidates in greedy order as long as the pool is likely to hold the best row; then the
blocks check that no row outside the pool would have been better (ivm/verify.py), and the batch is
cut short where one would have been. The order is the same as with one row per round, but with large
matrix products and few messages.

For panels, the driver takes the most diverse of the best candidates, without a check.

If stub entries are bounded, candidates are dropped between rounds (ivm/shrink.py).
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.ivm.active_set import ActiveSet, History, Inclusions, OfferedRows, merge
from sparsegp.ivm.rows import BlockSettings
from sparsegp.ivm.scores import Scores, are_lost, rounding_error
from sparsegp.ivm.shrink import Keep, Ranking
from sparsegp.types import Doubles, Integers

POOL_PER_SLOT = (4, 8)
"""Pool size per row of lookahead, below and from `MANY_ROWS` rows: with many rows, a batch that is
cut short wastes more time than additional scores take."""
MANY_ROWS = 32768
"""Number of rows from which the larger pool is used, and blocks consist of groups of tiles."""

PANEL_CHOICE = 4
"""Pool size per row of a panel."""


class Blocks(Protocol):
    """The part of a runtime that the rounds use."""

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on all blocks and return the answers in block order."""


@dataclass(frozen=True)
class Order:
    """Order in which rows are included: one by one, or in panels of the most diverse candidates.

    The active set does not depend on `lookahead`, the maximum number of one-by-one inclusions
    between two messages to the blocks.
    """

    lookahead: int = 56
    panel: int = 1  # number of rows included at a time; 1 means one by one

    @property
    def slots(self) -> int:
        """Maximum number of rows in a batch."""
        return self.panel if self.panel > 1 else self.lookahead

    def pool_size(self, static: bool, n_rows: int) -> int:
        """Return the number of candidates requested per round, given the number of rows."""
        if static:
            return self.slots
        if self.panel > 1:
            return PANEL_CHOICE * self.panel
        return POOL_PER_SLOT[n_rows >= MANY_ROWS] * self.lookahead if self.lookahead > 1 else 1


def make_room(blocks: Blocks, settings: BlockSettings, active: History[Any]) -> int:
    """Drop candidates if due; return the number of inclusions up to which the rest stay.

    Parameters
    ----------
    blocks : Blocks
    settings : BlockSettings
    active : ActiveSet or PairSet
    """
    bound, start = settings.bound, len(active)
    if bound is None:
        return settings.capacity
    if start == active.room:
        room = bound.room(start, settings.capacity)
        most, words = bound.size(room), (0, 0, 0)
        ranking = Ranking.joined(blocks.map_blocks("ranking", start))
        if len(ranking.score) > most:
            words = ranking.thresholds(most, math.floor(bound.best * most))
        keep = Keep(start, room, *words)
        blocks.map_blocks("keep", keep)
        active.kept.append(keep)
    return active.room


@dataclass(eq=False)
class Pool:
    """Candidates on the driver, from which a batch is chosen.

    With the residual covariance of its rows, kernel minus stub product, a pool can include rows one
    after another, each with a site at the updated marginals, without messages to the row blocks.
    """

    candidates: OfferedRows  # best first
    settings: BlockSettings
    slots: int  # maximum number of rows in a batch

    def __post_init__(self) -> None:
        settings, slots = self.settings, self.slots
        x, of, kernels = self.candidates.x, self.candidates.marginals, settings.kernels
        self.now = replace(of, mean=of.mean.copy(), variance=of.variance.copy())
        self.covariance = np.empty((len(kernels), len(x), len(x)))
        for c, kernel in enumerate(kernels):
            stub = self.candidates.stub[c]
            self.covariance[c] = kernel(x, x) - stub @ stub.T
            np.fill_diagonal(self.covariance[c], of.variance[:, c])
        prior = np.stack([kernel.diag(x) for kernel in kernels], axis=1)
        self.rounding = rounding_error(prior)
        self.rule, n_latent, lazy = settings.rule, settings.n_latent, len(kernels) == 1
        self.scores = Scores(
            settings.criterion, self.rule, of.target, n_latent, self.rounding, lazy
        )
        self.columns = np.zeros((len(kernels), slots, len(x)))
        self.length = np.empty((len(kernels), slots))
        self.step = np.empty((len(kernels), slots, n_latent // len(kernels)))
        self.site, self.precision = np.empty((slots, n_latent)), np.empty((slots, len(kernels)))
        self.picked: list[int] = []
        self.score: list[float] = []

    def take_best(self, count: int) -> Inclusions:
        """Return a batch in one-by-one greedy order.

        It ends early when the best remaining score falls below the lowest initial score of the
        pool: a row outside the pool is then likely to be better.
        """
        open_ = np.ones(len(self.now.rows), dtype=bool)
        limit = self.candidates.score.min(initial=np.inf)
        for _ in range(min(count, len(open_))):
            index, score = self.scores.top(self.now, open_, 1)
            if len(index) == 0 or (self.picked and score[0] < limit):
                break
            self._include(int(index[0]), float(score[0]))
            open_[index] = False
        return self._batch()

    def take_diverse(self, count: int) -> Inclusions:
        """Return a batch of the most diverse rows, by pivoted Cholesky of their covariance.

        Rows whose sites become silent once others of the batch are included are left out.
        """
        residual = self.covariance.sum(axis=0)
        open_ = np.ones(len(residual), dtype=bool)
        diagonal = residual.diagonal().copy()
        factor = np.zeros((min(count, len(residual)), len(residual)))
        for j in range(len(factor)):
            pivot = int(np.where(open_, diagonal, -np.inf).argmax())
            open_[pivot] = False
            if diagonal[pivot] > 0.0:
                factor[j] = residual[pivot] - factor[:j, pivot] @ factor[:j]
                factor[j] /= np.sqrt(diagonal[pivot])
                diagonal -= factor[j] ** 2
            self._include(pivot, float(self.candidates.score[pivot]))
        return self._batch()

    def take_all(self) -> Inclusions:
        """Return a batch of all candidates in order, except those whose sites are silent."""
        for index, score in enumerate(self.candidates.score.tolist()):
            self._include(index, score)
        return self._batch()

    def _include(self, i: int, score: float) -> None:
        """Include candidate i (GR eq. 5.1-5.4, SLH appendix C.1, on the rows of the pool)."""
        j, own = len(self.picked), self.now.take(np.array([i]))
        sites = own.sites(self.rule)
        if are_lost(self.rule, own, self.rounding[[i]])[0] or self.rule.is_silent(sites)[0]:
            return
        precision, length, step = sites.precision[0], sites.length[0], sites.step[0]
        if not (np.isfinite(step).all() and (length > 0.0).all()):
            raise NumericalError(
                f"row {own.rows[0]} has latent variance {own.variance.min():.3g} after rounding; "
                "use precision=float64, a kernel of smaller variance, or row weights that differ "
                "less"
            )
        self.site[j], self.precision[j] = sites.mean[0], precision
        width = self.step.shape[2]
        for c in range(len(self.covariance)):
            past, part = self.columns[c, :j], slice(c * width, (c + 1) * width)
            column = (self.covariance[c, i] - past[:, i] @ past) / length[c]
            self.columns[c, j], self.length[c, j], self.step[c, j] = column, length[c], step[part]
            self.now.variance[:, c] -= column**2
            self.now.mean[:, part] += np.outer(column, step[part])
        self.picked.append(i)
        self.score.append(score)

    def _batch(self) -> Inclusions:
        offered, start, count = self.candidates, self.candidates.stub.shape[2], len(self.picked)
        picked = np.array(self.picked, dtype=np.int64)
        within = self.columns[:, :count, picked].swapaxes(1, 2)  # [c, j, s]: column s at row j
        factor = np.concatenate([offered.stub[:, picked], np.tril(within, -1)], axis=2)
        factor[:, np.arange(count), start + np.arange(count)] = self.length[:, :count]
        return Inclusions(
            start=start,
            slots=self.slots,
            factor=factor,
            step=self.step[:, :count],
            rows=self.now.rows[picked],
            target=self.now.target[picked],
            x=offered.x[picked],
            site=self.site[:count],
            precision=self.precision[:count],
            score=np.array(self.score),
        )


@dataclass(eq=False)
class Selection:
    """State of a selection on the driver.

    The rows `first` (m,) are included before all others, in this order and regardless of their
    scores; only those with silent sites (`SiteRule.is_silent`) are skipped.
    """

    blocks: Blocks  # the runtime with the row blocks, all in the state given by `active`
    settings: BlockSettings
    order: Order
    active: ActiveSet  # empty, or restored from a checkpoint
    n_rows: int = 0  # in all blocks
    first: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __post_init__(self) -> None:
        self.n_candidates = self.order.pool_size(self.settings.criterion.static, self.n_rows)
        self._best: list[tuple[Integers, Doubles]] | None = None
        known = np.flatnonzero(np.isin(self.first, self.active.rows))
        self._waiting = self.first[known.max(initial=-1) + 1 :]

    def round(self, stop: int) -> bool:
        """Include the next batch, up to `stop` active rows; return whether there was one."""
        settings, order, active = self.settings, self.order, self.active
        room = make_room(self.blocks, settings, active)
        wanted = min(order.slots, min(stop, room) - len(active))
        if len(self._waiting):
            self._include_waiting(wanted)
            return True
        pool = self._pool()
        batch = pool.take_diverse(wanted) if order.panel > 1 else pool.take_best(wanted)
        if batch.count == 0:
            return False
        if order.panel == 1 and batch.count > 1 and not settings.criterion.static:
            offered = pool.candidates.marginals.rows
            batch = batch.first(min(self.blocks.map_blocks("propose", batch, offered)))
        count = self.n_candidates if batch.stop < room else 0
        best = self.blocks.map_blocks("advance", batch, batch.stop, count)
        self._best = best if count else None
        active.included.append(batch)
        return True

    def _include_waiting(self, count: int) -> None:
        """Include the next `count` rows of `first`."""
        some, self._waiting = np.split(self._waiting, [count])
        batch = self._offered(some, -np.arange(len(some), dtype=np.float64)).take_all()
        if batch.count:
            self.blocks.map_blocks("include", batch)
            self.active.included.append(batch)
        self._best = None

    def _pool(self) -> Pool:
        """Return a pool of the best rows of all blocks."""
        count = self.n_candidates
        best = self._best or self.blocks.map_blocks("advance", None, len(self.active), count)
        rows, scores = (np.concatenate(parts) for parts in zip(*best, strict=True))
        order = np.lexsort((rows, -scores))[:count]
        return self._offered(rows[order], scores[order])

    def _offered(self, rows: Integers, scores: Doubles) -> Pool:
        """Return a pool of the given rows, best first."""
        candidates = merge(self.blocks.map_blocks("gather", rows, scores))
        return Pool(candidates, self.settings, self.order.slots)
