"""Check that a batch was chosen in the true greedy order.

The driver chooses several rows from a small pool before the row blocks score theirs again. To match
one-by-one selection, no row outside the pool may score better than the j-th row of the batch at the
moment when that row was included. This file checks that for all moments at once.

With the bound of ivm/scores.py, c + w.x - b |x|^2 / 2 at x = h / sqrt(1 + t a), only three numbers
of a row change from moment to moment. All are running sums over the new stub columns mu_j:

    w.h      += mu_j (w.step_j)
    |h|^2    += 2 mu_j (h.step_j) + mu_j^2 |step_j|^2
    a        -= mu_j^2

so a check costs a few products of width q instead of q passes over all classes. Rows that the bound
does not rule out are evaluated exactly at the first such moment, which renews their bounds.
"""

from collections.abc import Sequence

import numpy as np

from sparsegp.ivm.active_set import Inclusions
from sparsegp.ivm.criteria import Marginals
from sparsegp.ivm.scores import ROUNDING_UNIT, Scores, quantise
from sparsegp.types import Booleans, Doubles, Floats, Integers


def first_overtaken(
    batch: Inclusions,
    marginals: Marginals,
    scores: Scores,
    open_: Booleans,
    columns: Sequence[Floats],
    group: int,
) -> int:
    """Return the first moment j > 0 at which an open row beats `batch.rows[j]`, or the count.

    Parameters
    ----------
    batch : Inclusions
    marginals : Marginals
        Marginals of all rows of the block, before the batch.
    scores : Scores
        Scores of the same rows.
    open_ : Booleans (n,)
        Mask of the rows to check.
    columns : sequence of Floats (tiles, q, width)
        New stub columns of each process.
    group : int
        Number of tiles processed at a time.
    """
    limit = batch.count
    n_tiles, slots, width = columns[0].shape
    for first in range(0, n_tiles, group):
        tiles = slice(first, min(first + group, n_tiles))
        start = first * width
        index = start + np.flatnonzero(open_[start : tiles.stop * width])
        if limit > 1 and len(index):
            parts = [some[tiles].swapaxes(0, 1).reshape(slots, -1) for some in columns]
            mu = np.stack(parts)[:, :limit, index - start].astype(np.float64)
            limit = _check(batch.first(limit), marginals.take(index), index, scores, mu)
    return limit


def _check(
    batch: Inclusions, before: Marginals, index: Integers, scores: Scores, mu: Doubles
) -> int:
    """Return the first moment at which a row wins, evaluating rows only where bounds allow it.

    Without bounds all moments are evaluated. `mu` (C, count, n) holds the new stub columns.
    """
    limit = batch.count
    local = np.arange(len(index))
    done = np.zeros(len(index), dtype=np.int64)  # the last moment known to be harmless
    moments = np.arange(batch.count)[:, np.newaxis]
    while len(local):
        doubtful = (moments > done[local]) & (moments < limit)
        if scores.lazy:
            best = _bounds(batch, before.take(local), scores, index[local], mu[0][:, local])
            doubtful &= best >= (batch.score[:, np.newaxis] - 1.0) * ROUNDING_UNIT
        hit = doubtful.any(axis=0)
        local, moment = local[hit], doubtful.argmax(axis=0)[hit]
        done[local] = moment
        for j in np.unique(moment).tolist():
            at = local[moment == j]
            now = _marginals_at(batch, before.take(at), mu[:, :, at], j)
            exact = quantise(scores.evaluate(index[at], now))
            tied = (exact == batch.score[j]) & (now.rows < batch.rows[j])
            if ((exact > batch.score[j]) | tied).any():
                limit = j
                break
    return limit


def _marginals_at(batch: Inclusions, before: Marginals, mu: Doubles, j: int) -> Marginals:
    """Return the marginals after the first j inclusions of the batch; mu (C, count, n)."""
    change = np.einsum("cjn,cjr->ncr", mu[:, :j], batch.step[:, :j])
    mean = before.mean + change.reshape(before.mean.shape)
    variance = before.variance - np.square(mu[:, :j]).sum(axis=1).T
    return Marginals(before.rows, before.target, mean, variance, before.weight)


def _bounds(
    batch: Inclusions, before: Marginals, scores: Scores, index: Integers, mu: Doubles
) -> Doubles:
    """Return upper bounds on the scores at every moment, (count, n); mu (count, n)."""
    step = batch.step[0]  # (count, K)
    slope, mean = scores.slope[index], before.mean
    gram = np.triu(step @ step.T, 1)
    along = 2.0 * (step @ mean.T + gram.T @ mu) + mu * np.square(step).sum(axis=1)[:, np.newaxis]
    linear = _running(np.einsum("nk,nk->n", mean, slope), mu * (step @ slope.T))
    square = _running(np.einsum("nk,nk->n", mean, mean), mu * along)
    variance = np.maximum(_running(before.variance[:, 0], -np.square(mu)), 0.0)
    return before.weighted(scores.bounds(scores.offset[index], linear, square, variance))


def _running(start: Doubles, change: Doubles) -> Doubles:
    """Return start plus the sum of the changes before each moment, (count, n)."""
    total = np.empty_like(change)
    total[0] = start
    np.cumsum(change[:-1], axis=0, out=total[1:])
    total[1:] += start
    return total
