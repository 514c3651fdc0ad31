"""Randomised greedy selection: who stays, in how much memory, to the same bits however dealt."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegp.errors import SettingsError
from sparsegp.ivm.criteria import Marginals, Predictive
from sparsegp.ivm.greedy import make_room
from sparsegp.ivm.rows import NARROW, TILE
from sparsegp.ivm.scores import quantise
from sparsegp.ivm.shrink import Bound, Keep, Ranking, move, ordered, pack, thresholds
from tests.ivm.shrinking import BOUND, N_ACTIVE, N, candidates, cases, held

# -- who stays ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("quantum", [1e-9, 0.5, 100.0])
def test_thresholds_are_those_of_sorting_everything(rho, quantum):
    """Also with many equal scores (quantum 0.5), or only equal ones (100)."""
    rng = np.random.default_rng(1)
    scores, rows = np.round(rng.normal(size=700) / quantum), 100 + np.arange(700)
    scores[rng.random(700) < 0.02] = -np.inf
    parts = [slice(0, 1), slice(1, 1), slice(1, 400), slice(400, 700)]
    blocks = [Ranking(scores[some], rows[some], 7, 20) for some in parts]

    def ask(found, prefix, shift):
        return np.sum([block.tally(found, prefix, shift) for block in blocks], axis=0)

    whole = Ranking(scores, rows, 7, 20)
    for most in (1, 3, 250, 699):
        best = int(rho * most)
        order = np.lexsort((whole.random, -scores))
        rest = order[best:]
        expected = {*order[:best], *rest[np.argsort(whole.random[rest])][: most - best]}
        keep = Keep(20, 30, *thresholds(ask, most, best))
        stay = np.concatenate([block.stay(keep) for block in blocks])
        assert set(np.flatnonzero(stay)) == expected


def test_words_compare_as_the_numbers_do():
    x = np.array([-np.inf, -1e300, -2.5, -1e-300, 0.0, 1e-300, 1.0, 2.0**60, np.inf, np.nan])
    assert (np.diff(ordered(x).astype(object)) > 0).all()
    assert ordered(np.array([-0.0])) == ordered(np.array([0.0]))


def test_random_words_are_even_and_differ_from_time_to_time():
    rows = np.arange(20_000)
    now, later, other = (
        Ranking(np.zeros(20_000), rows, seed, d).random for seed, d in ((0, 0), (0, 100), (1, 0))
    )
    assert len(np.unique(now)) == 20_000
    counts = np.bincount((now >> np.uint64(60)).astype(int), minlength=16)
    assert (
        np.square(counts - 1250).sum() / 1250 < 37.7
    )  # chi-squared, 15 degrees: one in a thousand
    for words in (later, other):
        assert abs(np.corrcoef(now.astype(float), words.astype(float))[0, 1]) < 0.03


@cases
def test_who_stays_is_what_the_paper_says(make, case):
    """J loses I; of m' = B // d the share rho is the best by score, the others are drawn."""
    run = make(case, n_blocks=3)
    selection, seen = run.begin(), 0
    while len(selection.active) < N_ACTIVE:
        before = None
        if len(selection.active) == selection.active.room:
            whole = (
                np.concatenate([getattr(b, name) for b in selection.blocks.blocks])[
                    np.concatenate([b.open for b in selection.blocks.blocks])
                ]
                for name in ("rows", "target", "mean", "variance")
            )
            before = [np.array(values) for values in whole]
        make_room(selection.blocks, selection.settings, selection.active, len(run.kernels))
        if before is not None:
            _check_choice(run, selection, before)
            seen += 1
        selection.round(N_ACTIVE)
        d = len(selection.active)
        assert len(candidates(selection)) * d * len(run.kernels) <= run.bound.entries
        assert not set(candidates(selection)) & set(selection.active.rows)
    assert seen == 4


def _check_choice(run, selection, before):
    d, stayed = len(selection.active), candidates(selection)
    most = run.bound.entries // (len(run.kernels) * (d + run.bound.every))
    if d == 0:
        most = min(most, len(before[0]))
    assert len(stayed) == min(most, len(before[0]))
    scores = quantise(run.criterion.scores(run.settings.rule, Marginals(*before)))
    order = np.argsort(-scores, kind="stable")
    worst = scores[order[most // 2 - 1]]
    surely = before[0][scores > worst + 1.0]  # apart by more than rounding
    assert set(surely) <= set(stayed)
    drawn = np.setdiff1d(stayed, before[0][order[: most // 2]])
    words = Ranking(np.zeros(len(drawn)), drawn, run.criterion.seed, d).random
    left = np.setdiff1d(before[0], stayed)
    others = Ranking(np.zeros(len(left)), left, run.criterion.seed, d).random
    if len(left):
        assert np.sort(words)[: len(words) * 9 // 10].max() < others.min()


def test_equal_scores_do_not_favour_the_first_rows(make):
    """When nothing is included yet, a table sorted by class would lose its last classes."""
    run = make("lookahead", Bound(entries=12_000, every=15, best=1.0))
    selection = run.begin()
    make_room(selection.blocks, selection.settings, selection.active, n_processes=1)
    rows = candidates(selection)
    assert len(rows) == 800
    assert abs(rows.mean() - N / 2) < 4 * N / np.sqrt(12 * 800)


# -- the numbers of those that stay -------------------------------------------------------------


@cases
def test_the_number_of_blocks_changes_no_bit(make, case):
    found = []
    for n_blocks in (1, 2, 7):
        selection = make(case, n_blocks=n_blocks).finish()
        assert len(selection.active) == N_ACTIVE
        found.append((selection.active, held(selection)))
    for active, state in found[1:]:
        assert_array_equal(active.rows, found[0][0].rows)
        assert active.kept == found[0][0].kept
        for mine, other in zip(state, found[0][1], strict=True):
            assert_array_equal(mine, other)


OTHER_PROCESSOR = """
import sys
sys.path.insert(0, sys.argv[1])
from conftest import Problem, rings
import numpy as np
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import parse
X, target = rings(1700)
found = []
for n_blocks in (1, 3, 7):
    for panel in (1, 64):
        run = Problem(X.astype(np.float32), target, [parse("3*rbf(1.5)")], 80, 24, panel,
                      bound=Bound(40_000, 20, 0.5), n_blocks=n_blocks)
        selection = run.finish()
        found.append((panel, selection.active.arrays()["factor"].tobytes()))
print(len(set(found)))
"""


@pytest.mark.parametrize("processor", ["Haswell", "SkylakeX"])
def test_blocks_change_no_bit_on_other_processors(processor):
    """Where OpenBLAS rounds by the place in a tile (Haswell), and where it does not."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESSOR, str(Path(__file__).parent)],
        env={**os.environ, "OPENBLAS_CORETYPE": processor, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        pytest.skip(f"this machine cannot do what {processor} can")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2"]  # one by one, and in panels


@cases
def test_those_that_stay_are_what_they_would_be_among_all(make, case):
    selection = make(case, n_blocks=2).finish()
    (whole,) = make(case, bound=None).blocks()
    for batch in selection.active.batches:
        whole.include(batch)
    rows = candidates(selection)
    for c in range(len(whole.settings.kernels)):
        stub = np.concatenate([b.array("stub", c) for b in selection.blocks.blocks], axis=1)
        assert np.isnan(stub).all(axis=0).sum() == N - len(rows) - BOUND.every
        assert_allclose(stub[:, rows], whole.array("stub", c)[:, rows], rtol=1e-3, atol=2e-4)
    for name in ("mean", "variance"):
        mine = np.concatenate([b.array(name) for b in selection.blocks.blocks])
        assert_allclose(mine[rows], whole.array(name)[rows], rtol=1e-3, atol=1e-3)
        assert np.isnan(mine).all(axis=1).sum() == N - len(rows) - BOUND.every


def test_random_rows_are_the_same_as_without_a_bound(make):
    """All that stay are the next in line: nothing changes, however few they are."""
    bounded = make("random", Bound(BOUND.entries, BOUND.every, 1.0)).finish()
    free = make("random", bound=None).finish()
    assert_array_equal(bounded.active.rows, free.active.rows)
    assert len(candidates(bounded)) == BOUND.entries // N_ACTIVE - BOUND.every


def test_the_first_inclusions_are_those_without_a_bound(make):
    bound = Bound(N * 20, 20, 0.5)
    selection, free = make("lookahead", bound).finish(), make("lookahead", bound=None).finish()
    assert_array_equal(selection.active.rows[:20], free.active.rows[:20])
    assert len(candidates(selection)) < N - N_ACTIVE


# -- memory ------------------------------------------------------------------------------------


@cases
def test_memory_falls(make, case):
    run = make(case)
    selection, sizes = run.begin(), []
    while len(selection.active) < N_ACTIVE:
        selection.round(N_ACTIVE)
        (block,) = selection.blocks.blocks
        stub = sum(panel.nbytes for panel in block.stubs)
        filling = 7 * (NARROW - 1) * block.room  # of seven groups
        most = run.bound.entries + filling * len(run.kernels)
        assert stub <= most * block.X.itemsize
        sizes.append(block.mean.nbytes + block.variance.nbytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.4 * sizes[0]
    assert block.room == N_ACTIVE


def test_a_block_may_lose_all_its_rows(make):
    """And is none the worse for it."""
    for name in ("lookahead", "panel", "all scores"):
        run = make(name, n_blocks=7)
        blocks = run.blocks()
        (first,) = run.finish().active.kept[:1]
        for block in blocks:
            block.keep(first)
        nobody = Keep(0, 2 * BOUND.every, score=2**64 - 1)
        blocks[3].keep(nobody)
        assert blocks[3].n_tiles == 0
        rows, scores, _ = blocks[3].advance(None, 0, 4)
        assert len(rows) == len(scores) == blocks[3].count(0) == 0
        assert blocks[3].marginal_metrics().rows == 0
        batch = run.finish().active.batches[0]
        blocks[3].include(batch)
        assert np.isnan(blocks[3].array("mean")).all()
        assert blocks[3].array("stub").shape == (batch.stop, TILE)


def test_pack_and_move():
    rng = np.random.default_rng(0)
    stay, group = rng.random(10 * 64) < 0.3, np.repeat([0, 1, 4, 5, 9], 128)
    stay[128:256] = False
    places, real = pack(stay, group, 64)
    assert_array_equal(places[real], np.flatnonzero(stay))
    assert (np.diff(places) >= 0).all()
    for start in range(0, len(places), 64):  # a tile is of one group
        assert len(set(group[places[start : start + 64]])) == 1
    for some in (0, 4, 5, 9):  # however groups are dealt to blocks
        own, filled = pack(stay[group == some], group[group == some], 64)
        mine = group[places] == some
        assert_array_equal(own + np.searchsorted(group, some), places[mine])
        assert_array_equal(filled, real[mine])
    old = rng.normal(size=(2, 10, 5, 64))
    new = np.zeros((2, len(places) // 64, 5, 64))
    move(old, new, places, step=2)
    flat = [M.transpose(0, 2, 1, 3).reshape(2, 5, -1) for M in (old, new)]
    assert_array_equal(flat[1], flat[0][:, :, places])


# -- the bound ---------------------------------------------------------------------------------


def test_sizes_are_those_of_the_selection(make):
    selection = make("lookahead").finish()
    expected = BOUND.sizes(N, N_ACTIVE, 1)
    assert expected == [(0, 15, 1333), (15, 30, 666), (30, 45, 444), (45, 60, 333)]
    assert [(keep.start, keep.room) for keep in selection.active.kept] == [
        (start, room) for start, room, _ in expected
    ]


def test_a_bound_that_is_not_felt_is_none():
    assert Bound(6000, 10, 0.5).for_run(100, 60, 1) is None
    assert Bound(5999, 10, 0.5).for_run(100, 60, 1) == Bound(5999, 10, 0.5)
    assert Bound(1200, 10, 0.5).for_run(100, 60, 1) is not None
    with pytest.raises(
        SettingsError, match=r"at least 1200, so that .* all 60 inclusions, got 1199"
    ):
        Bound(1199, 10, 0.5).for_run(100, 60, 1)
    with pytest.raises(SettingsError, match="at least 3600"):
        Bound(1200, 10, 0.5).for_run(100, 60, 3)


def test_as_few_candidates_as_can_be(make):
    """All that are left are included."""
    least = Bound(30 * 45, 15, 0.5)
    selection = make("lookahead", least).finish()
    assert least.for_run(N, N_ACTIVE, 1) == least
    assert len(selection.active) == N_ACTIVE
    assert len(candidates(selection)) == 0
    with pytest.raises(SettingsError, match="at least 1350"):
        Bound(30 * 45 - 1, 15, 0.5).for_run(N, N_ACTIVE, 1)


def test_predictive_scores_are_lazy_all_the_same(make):
    """Bounds on scores go with the rows that stay: the same rows as by all scores."""
    lazy, all_ = make("lookahead").finish(), make("all scores").finish()
    assert all(block.scores.lazy for block in lazy.blocks.blocks)
    assert isinstance(lazy.settings.criterion, Predictive)
    assert_array_equal(lazy.active.rows, all_.active.rows)
