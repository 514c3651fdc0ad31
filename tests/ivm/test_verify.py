"""Batches: who is chosen from a pool, and that they end where a row outside would have won."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg.lapack import dpstrf

from sparsegp.errors import NumericalError
from sparsegp.ivm.active_set import merge
from sparsegp.ivm.greedy import Pool
from tests.ivm.problems import KINDS, Problem, kinds, on_rings, rings


def offered(selection, count):
    """The best rows of all blocks, so many, as the driver gathers them."""
    blocks = selection.blocks.blocks
    best = [block.advance(None, len(selection.active), count) for block in blocks]
    rows, scores = (np.concatenate(parts) for parts in zip(*best, strict=True))
    order = np.lexsort((rows, -scores))[:count]
    return merge([block.gather(rows[order], scores[order]) for block in blocks])


def after(texts, stop, **options):
    run = on_rings(400, texts, 60, **options)
    return run, run.finish(least=stop)


@kinds
@pytest.mark.parametrize("count", [4, 16])
def test_diverse_rows_are_the_pivots_of_lapack(texts, count):
    run, selection = after(texts, 15)
    candidates, (block,) = offered(selection, 4 * count), selection.blocks.blocks
    residual, x = 0.0, candidates.x
    for c, kernel in enumerate(run.kernels):
        stub = block.array("stub", c)[:, candidates.marginals.rows]
        residual = residual + kernel(x, x) - stub.T @ stub
    _, pivots, _, _ = dpstrf(residual, lower=1)
    batch = Pool(candidates, run.settings, count).take_diverse(count)
    assert batch.rows.tolist() == candidates.marginals.rows[pivots[:count] - 1].tolist()
    assert batch.score.tolist() == candidates.score[pivots[:count] - 1].tolist()


@pytest.mark.parametrize("take", ["take_best", "take_diverse"])
def test_rows_whose_variance_is_lost_to_rounding_are_left_out(take):
    """That of the site, which is small for a large weight, counts too; NaN is an error."""
    run, selection = after(KINDS["shared"], 15)
    candidates = offered(selection, 5)
    of = candidates.marginals

    def count(variance, weight):
        every = {"variance": np.full_like(of.variance, variance), "weight": np.full(5, weight)}
        pool = Pool(replace(candidates, marginals=replace(of, **every)), run.settings, 2)
        with np.errstate(invalid="ignore"):
            return getattr(pool, take)(2).count

    assert count(0.0, 1.0) > 0
    assert count(1e-9, 1e17) > 0
    assert count(-1.5, 1.0) == count(0.0, 1e17) == 0
    with pytest.raises(NumericalError, match="variance nan"):
        count(np.nan, 1.0)


@pytest.mark.parametrize("lookahead", [1, 8, 56])
def test_rows_whose_variance_is_lost_do_not_end_the_selection(lookahead):
    """Copies of one heavy row, with other labels and therefore the highest scores."""
    X, target = rings(400)
    X[50:300] = X[50]
    run = Problem(X.astype(np.float32), target, KINDS["shared"], 60, lookahead=lookahead)
    selection = run.begin()
    for block in selection.blocks.blocks:
        block.weight = np.where((block.rows >= 50) & (block.rows < 300), 1e12, 1.0)
    rows = run.finish(selection).active.rows
    assert len(rows) == 60
    assert ((rows >= 50) & (rows < 300)).sum() == 1


def test_the_best_end_where_the_pool_is_poor():
    run, selection = after(KINDS["shared"], 15)
    candidates = offered(selection, 12)
    batch = Pool(candidates, run.settings, 12).take_best(12)
    assert 1 <= batch.count < 12
    assert (batch.score >= candidates.score[-1]).all()
    assert batch.slots == 12


def first_overtaken(run, blocks, batch, pool):
    """Every row outside the pool at every moment, from the state after that many inclusions."""
    for j in range(1, batch.count):
        for block in deepcopy(blocks):
            block.include(batch.first(j))
            scores = np.rint(run.criterion.scores(run.rule, block.marginals()) * 2.0**14)
            outside = block.open & ~np.isin(block.rows, pool)
            ahead = scores > batch.score[j]
            ahead |= (scores == batch.score[j]) & (block.rows < batch.rows[j])
            if (ahead & outside).any():
                return j
    return batch.count


@kinds
@pytest.mark.parametrize(("lazy", "group"), [(True, 1), (False, 16)], ids=["lazy", "all"])
def test_a_batch_is_cut_at_the_first_row_that_would_have_won(monkeypatch, texts, lazy, group):
    monkeypatch.setattr("sparsegp.ivm.rows.GROUP", group)
    run, kept = on_rings(400, texts, 60, n_blocks=2, lazy=lazy), []
    selection = run.begin()
    for stop in (1, 5, 20):
        while len(selection.active) < stop:
            selection.round(stop)
        blocks = selection.blocks.blocks
        for count in (8, 20, 300):
            candidates = offered(selection, count)
            low = candidates.score.copy()
            low[-1] = -1e12  # it does not stop where the pool is poor
            batch = Pool(replace(candidates, score=low), run.settings, 8).take_best(8)
            pool = candidates.marginals.rows
            expected = first_overtaken(run, blocks, batch, pool)
            assert min(block.propose(batch, pool) for block in blocks) == expected
            kept.append(expected)
            assert {block.n_active for block in blocks} == {stop}  # a proposal changes nothing
    assert len(set(kept)) > 3
    assert min(kept) < 4
    assert max(kept) == 8
