"""Batches are cut exactly where the first row outside the pool would have won."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from sparsegp.ivm import verify
from sparsegp.ivm.criteria import Marginals, Predictive
from sparsegp.ivm.inclusions import Inclusions, merge
from sparsegp.ivm.pool import Pool
from sparsegp.ivm.scores import Scores
from sparsegp.kernels import parse
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.math.products import TILE
from tests.ivm.problems import Problem, rings

KERNELS = {
    "shared": ["3*rbf(1.2) + 0.2*linear"],
    "per class": ["3*rbf(1.2)", "matern32(1.0) + 0.2", "2*rbf(2.0) + 0.1*linear"],
}


def offered(blocks, n_active, count):
    """The best `count` rows of all blocks, as the driver gathers them."""
    best = [block.advance(None, n_active, count) for block in blocks]
    rows, scores = (np.concatenate(parts) for parts in zip(*best, strict=True))
    order = np.lexsort((rows, -scores))[:count]
    return merge([block.gather(rows[order], scores[order]) for block in blocks])


def chosen(run, candidates, slots):
    """A batch from the pool alone, which does not stop where the pool is poor."""
    low = candidates.score.copy()
    low[-1] = -1e12
    low = replace(candidates, score=low)
    return Pool(low, run.kernels, run.rule, run.criterion, slots).take_best(slots)


def first_overtaken(run, blocks, batch, pool):
    """Every row outside the pool at every moment, from the state after that many inclusions."""
    for j in range(1, batch.count):
        for block in deepcopy(blocks):
            block.include(batch.first(j))
            scores = np.rint(run.criterion.scores(run.rule, block._marginals()) * 2.0**14)
            outside = block.open & ~np.isin(block.rows, pool)
            ahead = scores > batch.score[j]
            ahead |= (scores == batch.score[j]) & (block.rows < batch.rows[j])
            if (ahead & outside).any():
                return j
    return batch.count


@pytest.mark.parametrize("texts", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(("lazy", "group"), [(True, 1), (False, 16)], ids=["lazy", "all"])
def test_a_batch_is_cut_at_the_first_row_that_would_have_won(monkeypatch, texts, lazy, group):
    monkeypatch.setattr("sparsegp.ivm.rows.GROUP", group)
    kept = []
    X, target = rings(400)
    kernels = [parse(text) for text in texts]
    run = Problem(X, target, kernels, 60, n_blocks=2, lazy=lazy)
    selection = run.begin()
    for stop in (1, 5, 20):
        while len(selection.active) < stop:
            selection.round(stop)
        blocks = selection.blocks.blocks
        for count in (8, 20, 300):
            candidates = offered(blocks, stop, count)
            batch = chosen(run, candidates, 8)
            expected = first_overtaken(run, blocks, batch, candidates.rows)
            found = [block.propose(batch, candidates.rows) for block in blocks]
            assert min(found) == expected
            kept.append(expected)
            assert {block.n_active for block in blocks} == {stop}  # a proposal changes nothing
    assert len(set(kept)) > 3
    assert min(kept) < 4
    assert max(kept) == 8


@pytest.mark.parametrize("n_processes", [1, 3])
@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "all"])
def test_rows_whose_scores_rise_and_fall(n_processes, lazy):
    """Made-up columns and steps, thresholds that single rows exceed at single moments."""
    rule, criterion = SiteRule(), Predictive()
    found = []
    for seed in range(30):
        rng = np.random.default_rng([seed, n_processes])
        n, q, n_classes = 2 * TILE, 8, 3
        columns = 0.3 * rng.normal(size=(n_processes, 2, q, TILE))
        mu = columns.transpose(0, 2, 1, 3).reshape(n_processes, q, n)
        step = rng.normal(size=(n_processes, q, n_classes // n_processes))
        before = Marginals(
            np.arange(n),
            rng.integers(n_classes, size=n),
            rng.normal(size=(n, n_classes)),
            rng.uniform(6.0, 9.0, size=(n, n_processes)),
        )
        mean, variance, exact = before.mean.copy(), before.variance.copy(), []
        for j in range(q):
            now = Marginals(before.rows, before.target, mean, variance)
            exact.append(np.rint(criterion.scores(rule, now) * 2.0**14))
            mean = mean + np.einsum("cn,cr->ncr", mu[:, j], step[:, j]).reshape(mean.shape)
            variance = variance - mu[:, j].T ** 2
        open_ = rng.uniform(size=n) < 0.9
        best = np.where(open_, exact, -np.inf).max(axis=1)
        score = best + rng.choice([-1.0, 1.0, 1.0, 1.0, 200.0], size=q)
        overtaken = np.flatnonzero((best > score)[1:])
        expected = int(overtaken[0]) + 1 if len(overtaken) else q
        batch = Inclusions(
            start=0,
            count=q,
            rows=np.arange(n, n + q),
            target=np.zeros(q, np.int64),
            x=np.zeros((q, 1)),
            factor=np.zeros((n_processes, q, q)),
            step=step,
            site=np.zeros((q, n_classes)),
            precision=np.ones((q, n_processes)),
            score=score,
        )
        scores = Scores(criterion, rule, before.target, n_classes, lazy and n_processes == 1)
        got = verify.first_overtaken(batch, before, scores, open_, list(columns), 1)
        assert got == expected
        found.append(expected)
    assert len(set(found)) > 6


def test_a_pool_of_all_rows_is_never_overtaken():
    X, target = rings(300)
    run = Problem(X, target, [parse("2*rbf(1.0)")], 40)
    blocks = run.begin().blocks.blocks
    candidates = offered(blocks, 0, 300)
    batch = chosen(run, candidates, 20)
    assert blocks[0].propose(batch, candidates.rows) == batch.count == 20
    one_by_one = Problem(X, target, [parse("2*rbf(1.0)")], 20, lookahead=1).finish()
    assert batch.rows.tolist() == one_by_one.active.rows.tolist()


def test_ties_overtake_where_the_row_is_smaller():
    """The copy of the pool's rows that is earlier in the data set wins every tie."""
    X, target = rings(256)
    run = Problem(np.vstack([X, X]), np.tile(target, 2), [parse("2*rbf(1.0)")], 40, n_blocks=2)
    first, second = run.begin().blocks.blocks
    for block in (first, second):
        block.advance(None, 0, 1)
    candidates = merge([second.gather(second.rows, np.zeros(256))])
    batch = chosen(run, candidates, 4)
    assert second.propose(batch, candidates.rows) == 4
    assert first.propose(batch, candidates.rows) == 1


def test_looking_further_ahead_changes_nothing():
    X, target = rings(400)
    found = {
        lookahead: Problem(X, target, [parse("3*rbf(1.2)")], 40, lookahead).finish().active
        for lookahead in (1, 2, 16, 40)
    }
    assert len(found[40].included) < len(found[2].included) < len(found[1].included) == 40
    assert len({tuple(active.rows.tolist()) for active in found.values()}) == 1
