"""The candidates on the driver."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg.lapack import dpstrf

from sparsegp.errors import NumericalError
from sparsegp.ivm.inclusions import merge
from sparsegp.ivm.pool import Pool
from sparsegp.kernels import parse
from tests.ivm.problems import Problem, rings

KERNELS = {
    "shared": ["3*rbf(1.2) + 0.2*linear"],
    "per class": ["3*rbf(1.2)", "matern32(1.0) + 0.2", "2*rbf(2.0) + 0.1*linear"],
}
kinds = pytest.mark.parametrize("texts", KERNELS.values(), ids=KERNELS)


def offer(texts, count):
    """Return a problem, its block after 15 inclusions, with room for more, and its best rows."""
    X, target = rings(400, seed=2)
    run = Problem(X, target, [parse(text) for text in texts], 30, 5)
    selection = run.begin()
    while len(selection.active) < 15:
        selection.round(15)
    (block,) = selection.blocks.blocks
    rows, scores = block.advance(None, 15, count)
    return run, block, merge([block.gather(rows, scores)])


def pool_of(run, candidates, slots):
    return Pool(candidates, run.kernels, run.rule, run.criterion, slots)


@kinds
@pytest.mark.parametrize("count", [4, 16])
def test_diverse_rows_are_the_pivots_of_lapack(texts, count):
    run, _, offered = offer(texts, 4 * count)
    pool = pool_of(run, offered, count)
    _, pivots, _, _ = dpstrf(pool.covariance.sum(axis=0), lower=1)
    batch = pool.take_diverse(count)
    assert batch.rows.tolist() == offered.rows[pivots[:count] - 1].tolist()
    assert batch.score.tolist() == offered.score[pivots[:count] - 1].tolist()


@kinds
def test_the_covariance_is_that_of_the_posterior(texts):
    run, block, offered = offer(texts, 50)
    pool = pool_of(run, offered, 1)
    for c, kernel in enumerate(run.kernels):
        stub = block.array("stub", c)[:, offered.rows]
        expected = kernel(offered.x, offered.x) - stub.T @ stub
        np.testing.assert_allclose(pool.covariance[c], expected, atol=1e-10)
        assert (np.linalg.eigvalsh(pool.covariance[c]) > -1e-9).all()


@kinds
@pytest.mark.parametrize("take", ["take_best", "take_diverse"])
def test_the_pool_sees_what_the_blocks_will(texts, take):
    run, block, offered = offer(texts, 64)
    pool = pool_of(run, offered, 8)
    batch = getattr(pool, take)(6)
    block.include(batch)
    np.testing.assert_allclose(pool.mean, block.mean[offered.rows], atol=1e-10)
    np.testing.assert_allclose(pool.variance, block.variance[offered.rows], atol=1e-10)
    assert not block.open[batch.rows[: batch.count]].any()


@kinds
def test_sites_are_set_in_turn(texts):
    run, block, offered = offer(texts, 30)
    batch = pool_of(run, offered, 5).take_best(5)
    assert batch.count > 1
    for j, row in enumerate(batch.rows[: batch.count]):
        now = deepcopy(block)
        now.include(batch.first(j))
        mean = now.mean[[row]]
        p = run.settings.likelihood.gradient(mean, None, batch.target[[j]])[1]
        np.testing.assert_allclose(batch.site[[j]], mean + p, atol=1e-9)


def test_the_best_end_where_the_pool_is_poor():
    run, _, offered = offer(KERNELS["shared"], 12)
    batch = pool_of(run, offered, 12).take_best(12)
    assert 1 <= batch.count < 12
    assert (batch.score[1 : batch.count] >= offered.score[-1]).all()
    assert (batch.rows[batch.count :] == -1).all()


def test_a_batch_cut_short_has_empty_slots():
    run, _, offered = offer(KERNELS["shared"], 64)
    batch = pool_of(run, offered, 8).take_diverse(7)
    assert batch.first(7) is batch
    cut = batch.first(3)
    assert (cut.slots, cut.count, cut.stop) == (8, 3, 18)
    assert cut.rows.tolist() == [*batch.rows[:3].tolist(), -1, -1, -1, -1, -1]
    np.testing.assert_array_equal(cut.factor[:, :3], batch.factor[:, :3])
    np.testing.assert_array_equal(cut.factor[0, 3:], np.eye(8, 23, 15)[3:])
    for name in ("x", "site", "score"):
        assert (getattr(cut, name)[3:] == 0).all()
        np.testing.assert_array_equal(getattr(cut, name)[:3], getattr(batch, name)[:3])
    assert (cut.step[:, 3:] == 0).all()
    assert cut.x.dtype == batch.x.dtype


def test_merged_candidates_are_in_order():
    _, block, offered = offer(KERNELS["shared"], 40)
    rows = offered.rows
    scores = np.where(np.arange(40) % 3 == 0, 5.0, offered.score)
    parts = [block.gather(rows[part], scores[part]) for part in (slice(0, 9), slice(9, 40))]
    merged = merge(parts)
    assert merged.rows.tolist() == [row for _, row in sorted(zip(-scores, rows, strict=True))]
    np.testing.assert_array_equal(merged.x, block.X[merged.rows])
    np.testing.assert_array_equal(merged.mean, block.mean[merged.rows])
    np.testing.assert_array_equal(merged.stub[0], block.array("stub")[:, merged.rows].T)


@pytest.mark.parametrize("take", ["take_best", "take_diverse"])
def test_a_variance_lost_to_rounding_is_an_error(take):
    run, _, offered = offer(KERNELS["shared"], 5)
    lost = replace(offered, variance=offered.variance * 0.0 - 1.5)
    with np.errstate(invalid="ignore"), pytest.raises(NumericalError, match=r"variance -1\.5"):
        getattr(pool_of(run, lost, 2), take)(2)
