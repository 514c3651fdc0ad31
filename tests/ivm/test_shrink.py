"""Randomised greedy selection: who is kept, in how much memory, and that no number changes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.errors import SettingsError
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import Marginals
from sparsegp.ivm.greedy import make_room
from sparsegp.ivm.pairs import NARROW_PANEL
from sparsegp.ivm.rows import NARROW
from sparsegp.ivm.scores import quantise
from sparsegp.ivm.shrink import Bound, Keep, Ranking
from sparsegp.math.products import TILE
from tests.ivm.problems import BOUND, EVERY, N_ACTIVE, N, candidates, case, gather

BOUNDED = ["bounded", "bounded, panel", "bounded, per class", "bounded, pairs"]
cases = pytest.mark.parametrize("name", BOUNDED)


# -- who is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("quantum", [1e-9, 0.5, 100.0])
def test_thresholds_are_those_of_sorting_everything(rho, quantum):
    """Also with many equal scores (quantum 0.5), or only equal ones (100)."""
    rng = np.random.default_rng(1)
    scores, rows = np.round(rng.normal(size=700) / quantum), 100 + np.arange(700)
    scores[rng.random(700) < 0.02] = -np.inf
    parts = [slice(0, 1), slice(1, 1), slice(1, 400), slice(400, 700)]
    blocks = [Ranking.of(scores[some], rows[some], 7, 20) for some in parts]
    whole = Ranking.joined(blocks)
    for most in (1, 3, 250, 699):
        best = int(rho * most)
        order = np.lexsort((whole.random, -scores))
        rest = order[best:]
        expected = {*order[:best], *rest[np.argsort(whole.random[rest])][: most - best]}
        keep = Keep(20, 30, *whole.thresholds(most, best))
        kept = np.concatenate([block.kept(keep) for block in blocks])
        assert set(np.flatnonzero(kept)) == expected


@cases
def test_who_is_kept_is_what_the_paper_says(name):
    """J loses I; of m' = B // d the share rho is the best by score, the others are drawn."""
    run = case(name, n_blocks=3)
    selection, again = run.begin(), set()
    while len(selection.active) < N_ACTIVE:
        d, before = len(selection.active), candidates(selection)
        thinning = d == selection.active.room
        scores = quantise(scores_of(run, selection, before))
        make_room(selection.blocks, selection.settings, selection.active)
        if thinning:
            assert_chosen(run, d, before, scores, candidates(selection))
        selection.round(N_ACTIVE)
        entries = len(candidates(selection)) * len(selection.active)
        assert entries <= run.bound.entries
        again |= set(candidates(selection)) & set(selection.active.rows)
    assert bool(again) == run.pairs  # active for one class, and a candidate for others
    expected = BOUND.sizes(N, N_ACTIVE)
    assert expected == [(0, 6, 800), (6, 12, 400), (12, 18, 266), (18, 24, 200)]
    assert [(k.start, k.room) for k in selection.active.kept] == [each[:2] for each in expected]


def scores_of(run, selection, rows):
    """The scores of some rows; of pairs, the best that is not included."""
    mean, variance = (gather(selection, name)[rows] for name in ("mean", "variance"))
    now = Marginals(rows, run.target[rows], mean, variance)
    if not run.pairs:
        return run.criterion.scores(run.rule, now)
    scores = run.criterion.scores_by_value(run.rule, now)
    for pair in selection.active.included:
        scores[rows == pair.row, pair.process] = -np.inf
    return scores.max(axis=1)


def assert_chosen(run, d, before, scores, kept):
    most = min(run.bound.entries // (d + EVERY), len(before))
    assert len(kept) == most
    order = np.argsort(-scores, kind="stable")
    worst = scores[order[most // 2 - 1]]
    assert set(before[scores > worst + 1.0]) <= set(kept)  # apart by more than rounding
    drawn = np.setdiff1d(kept, before[order[: most // 2]])
    dropped = np.setdiff1d(before, kept)
    seed = run.criterion.seed
    words, others = (Ranking.of(0.0 * i, i, seed, d).random for i in (drawn, dropped))
    if len(dropped):
        assert np.sort(words)[: len(words) * 9 // 10].max() < others.min()


def test_equal_scores_do_not_favour_the_first_rows():
    """When nothing is included yet, a table sorted by class would lose its last classes."""
    run = case("bounded", bound=Bound(entries=3000, every=EVERY, best=1.0))
    selection = run.begin()
    make_room(selection.blocks, selection.settings, selection.active)
    rows = candidates(selection)
    assert len(rows) == 500
    assert abs(rows.mean() - N / 2) < 4 * N / np.sqrt(12 * 500)


# -- the numbers of those that are kept ---------------------------------------------------------


@cases
def test_those_that_are_kept_are_what_they_would_be_among_all(name):
    selection = case(name, n_blocks=2).finish()
    (whole,) = case(name, bound=None).blocks()
    for batch in selection.active.included:
        whole.include(batch)
    rows = candidates(selection)
    arrays = [("mean",), ("variance",), *(("stub", c) for c in range(len(whole.stubs)))]
    for of in arrays:
        mine, other = gather(selection, *of), whole.array(*of)
        if of[0] == "stub":
            mine, other = mine.T, other.T
        assert_allclose(mine[rows], other[rows], rtol=1e-3, atol=1e-3)
        dropped = np.isnan(mine).all(axis=1).sum()
        assert dropped == N - len(rows) - EVERY or "pairs" in name


def test_random_rows_are_the_same_as_without_a_bound():
    """All that are kept are the next in line: nothing changes, however few they are."""
    bounded = case("random", bound=Bound(BOUND.entries, EVERY, 1.0)).finish()
    assert_array_equal(bounded.active.rows, case("random").finish().active.rows)
    assert len(candidates(bounded)) == BOUND.entries // N_ACTIVE - EVERY


def test_held_out_rows_follow_and_validation_rows_leave():
    run, free = case("bounded"), case("bounded", bound=None)
    validation = np.arange(N) % 10 == 3
    block = RowBlock(run.settings, run.X, run.target, 0, validation)
    block.keep(Keep(0, 9))
    assert block.open.sum() == N - validation.sum()
    assert not validation[block.rows[block.open]].any()
    mine, other = (RowBlock(p.settings, run.X, run.target, 0, None) for p in (run, free))
    for method, args in run.finish().active.recovery():
        getattr(mine, method)(*args)
        if method == "include":
            other.include(*args)
    assert mine.marginal_metrics().rows == other.marginal_metrics().rows == N
    assert mine.marginal_metrics().log_z == pytest.approx(other.marginal_metrics().log_z, rel=1e-5)
    assert_allclose(mine.array("mean"), other.array("mean"), rtol=1e-3, atol=1e-3)


# -- memory ------------------------------------------------------------------------------------


@cases
def test_memory_falls(name):
    run = case(name)
    selection, sizes = run.begin(), []
    while len(selection.active) < N_ACTIVE:
        selection.round(N_ACTIVE)
        (block,) = selection.blocks.blocks
        entries = sum(panel.size for panels in block.stubs for panel in panels)
        count = len(run.kernels)  # of stub columns that an inclusion makes
        count, spare = (1, count * NARROW_PANEL) if run.pairs else (count, 0)
        rows = run.bound.size(block.room) + 4 * (NARROW - 1)  # of four groups
        assert entries <= rows * (block.room * count + spare)
        sizes.append(block.mean.nbytes + block.variance.nbytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.5 * sizes[0]
    assert block.room == N_ACTIVE


def test_a_block_may_lose_all_its_rows():
    run = case("bounded", n_blocks=4)
    active, block = run.finish().active, run.blocks()[1]
    block.keep(active.kept[0])
    block.keep(Keep(0, 2 * EVERY, score=2**64 - 1))  # nobody
    assert block.n_tiles == 0
    rows, scores = block.advance(None, 0, 4)
    assert len(rows) == len(scores) == block.open.sum() == 0
    assert block.marginal_metrics().rows == 0
    batch = active.included[0]
    block.include(batch)
    assert np.isnan(block.array("mean")).all()
    assert block.array("stub").shape == (batch.stop, TILE)


# -- the bound ---------------------------------------------------------------------------------


def test_a_bound_that_is_not_felt_is_none():
    assert Bound(6000, 10, 0.5).for_run(100, 60, 1) is None
    assert Bound(5999, 10, 0.5).for_run(100, 60, 1) == Bound(5999, 10, 0.5)
    with pytest.raises(SettingsError, match=r"at least 1200, .* all 60 inclusions, got 1199"):
        Bound(1199, 10, 0.5).for_run(100, 60, 1)
    with pytest.raises(SettingsError, match="at least 3600"):
        Bound(1200, 10, 0.5).for_run(100, 60, 3)
    assert Bound(3602, 10, 0.5).for_run(100, 60, 3) == Bound(1200, 10, 0.5)


def test_as_few_candidates_as_can_be():
    least = Bound(12 * 18, EVERY, 0.5)
    selection = case("bounded", bound=least).finish()
    assert least.for_run(N, N_ACTIVE, 1) == least
    assert len(selection.active) == N_ACTIVE
    assert len(candidates(selection)) == 0
