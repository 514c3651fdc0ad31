"""The candidates on the driver."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg.lapack import dpstrf

from sparsegp.errors import NumericalError, SettingsError
from sparsegp.ivm.greedy import Order
from sparsegp.ivm.inclusions import merge
from sparsegp.ivm.pool import Pool
from sparsegp.kernels import parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import variational

KERNELS = {
    "shared": ["3*rbf(1.2) + 0.2*linear"],
    "per class": ["3*rbf(1.2)", "matern32(1.0) + 0.2", "2*rbf(2.0) + 0.1*linear"],
}
kinds = pytest.mark.parametrize("texts", KERNELS.values(), ids=KERNELS)


@pytest.fixture
def candidates(problem, rings):
    """Return a function that gives the best rows of a block after 15 inclusions."""

    def offer(texts, count, panel=1):
        X, target = rings(400, seed=2)
        run = problem(X, target, [parse(text) for text in texts], 15, 5, panel)
        selection = run.finish()
        (block,) = selection.blocks.blocks
        rows, scores, _ = block.advance(None, 15, count)
        return run, block, merge([block.gather(rows, scores)], count)

    return offer


def pool_of(run, candidates, slots):
    return Pool(candidates, run.kernels, run.settings.rule, run.criterion, slots)


@kinds
@pytest.mark.parametrize("count", [4, 16])
def test_diverse_rows_are_the_pivots_of_lapack(candidates, texts, count):
    run, _, offered = candidates(texts, 4 * count)
    pool = pool_of(run, offered, count)
    _, pivots, _, _ = dpstrf(pool.covariance.sum(axis=0), lower=1)
    batch = pool.take_diverse(count)
    assert batch.rows.tolist() == offered.rows[pivots[:count] - 1].tolist()
    assert batch.score.tolist() == offered.score[pivots[:count] - 1].tolist()


@kinds
def test_the_covariance_is_that_of_the_posterior(candidates, texts):
    run, block, offered = candidates(texts, 50)
    pool = pool_of(run, offered, 1)
    for c, kernel in enumerate(run.kernels):
        stub = block.array("stub", c)[:, offered.rows]
        expected = kernel(offered.x, offered.x) - stub.T @ stub
        np.testing.assert_allclose(pool.covariance[c], expected, atol=1e-10)
        assert (np.linalg.eigvalsh(pool.covariance[c]) > -1e-9).all()


@kinds
@pytest.mark.parametrize("take", ["take_best", "take_diverse"])
def test_the_pool_sees_what_the_blocks_will(candidates, texts, take):
    run, block, offered = candidates(texts, 64)
    pool = pool_of(run, offered, 8)
    batch = getattr(pool, take)(6)
    block.stubs = [np.concatenate([block.stubs[0], np.empty_like(block.stubs[0])], axis=2)]
    block.room *= 2
    block.include(batch)
    np.testing.assert_allclose(pool.mean, block.mean[offered.rows], atol=1e-10)
    np.testing.assert_allclose(pool.variance, block.variance[offered.rows], atol=1e-10)
    assert not block.open[batch.rows[: batch.count]].any()


@kinds
def test_sites_are_set_in_turn(candidates, texts):
    run, block, offered = candidates(texts, 30)
    batch = pool_of(run, offered, 5).take_best(5)
    assert batch.count > 1
    block.stubs = [np.concatenate([block.stubs[0], np.empty_like(block.stubs[0])], axis=2)]
    block.room *= 2
    for j in range(batch.count):
        i = batch.rows[j]
        mean = block.mean[i].copy()
        gradient = run.settings.likelihood.gradient(mean[np.newaxis], None, batch.target[[j]])
        np.testing.assert_allclose(batch.site[j], mean + gradient[1][0], atol=1e-9)
        one = replace(batch.first(j + 1), start=block.n_active, count=1)
        t = block.n_active
        one = replace(
            one,
            rows=batch.rows[[j]],
            target=batch.target[[j]],
            x=batch.x[[j]],
            factor=batch.factor[:, [j], : t + 1],
            step=batch.step[:, [j]],
            site=batch.site[[j]],
            precision=batch.precision[[j]],
            score=batch.score[[j]],
        )
        block.include(one)


def test_the_best_end_where_the_pool_is_poor(candidates):
    run, _, offered = candidates(KERNELS["shared"], 12)
    batch = pool_of(run, offered, 12).take_best(12)
    assert 1 <= batch.count < 12
    assert (batch.score[1 : batch.count] >= offered.score[-1]).all()
    assert (batch.rows[batch.count :] == -1).all()


def test_a_batch_cut_short_has_empty_slots(candidates):
    run, _, offered = candidates(KERNELS["shared"], 64)
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


def test_merged_candidates_are_in_order(candidates):
    _, block, offered = candidates(KERNELS["shared"], 40)
    rows = offered.rows
    scores = np.where(np.arange(40) % 3 == 0, 5.0, offered.score)
    parts = [block.gather(rows[part], scores[part]) for part in (slice(0, 9), slice(9, 40))]
    merged = merge(parts, 25)
    expected = sorted(zip(-scores, rows, strict=True))[:25]
    assert merged.rows.tolist() == [row for _, row in expected]
    np.testing.assert_array_equal(merged.x, block.X.reshape(-1, block.X.shape[-1])[merged.rows])
    np.testing.assert_array_equal(merged.mean, block.mean[merged.rows])
    np.testing.assert_array_equal(merged.stub[0], block.array("stub")[:, merged.rows].T)


@pytest.mark.parametrize("take", ["take_best", "take_diverse"])
def test_a_variance_lost_to_rounding_is_an_error(candidates, take):
    run, _, offered = candidates(KERNELS["shared"], 5)
    lost = replace(offered, variance=offered.variance * 0.0 - 1.5)
    with np.errstate(invalid="ignore"), pytest.raises(NumericalError, match=r"variance -1\.5"):
        getattr(pool_of(run, lost, 2), take)(2)


@pytest.mark.parametrize("settings", [{"lookahead": 0}, {"panel": -1}])
def test_orders_are_positive(settings):
    with pytest.raises(SettingsError, match="must be at least 1, got"):
        Order(**settings)


def test_the_site_distance_is_the_gradient_without_variance():
    likelihood = MultinomialProbit()
    mean, target = np.random.default_rng(0).normal(size=(9, 4)), np.arange(9) % 4
    sites = variational(likelihood, mean, np.full((9, 1), 3.0), target)
    p = likelihood.gradient(mean, np.zeros((9, 1)), target)[1]
    np.testing.assert_array_equal(sites.mean, mean + p)
    np.testing.assert_array_equal(sites.step, p / 2.0)
    assert (sites.length == 2.0).all()
    assert (sites.precision == 1.0).all()
