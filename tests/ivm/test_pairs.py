"""Active sets of single classes, against dense posteriors of all rows and one shared set."""

from itertools import pairwise

import numpy as np
import pytest

from sparsegp.errors import StoreError
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import make_room
from sparsegp.ivm.pairs import NARROW_PANEL, PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import NARROW, TILE, BlockSettings
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import parse
from sparsegp.likelihoods import MultinomialProbit, Probit, SiteRule
from sparsegp.posterior import POSTERIORS, ActiveRows, Posterior

KERNELS = ("3*rbf(1.5)", "2*rbf(2)", "4*matern52(1)")
N_PAIRS = 70
"""More than one panel of stub columns, for a class at least."""


def settings(texts=KERNELS, likelihood=None, criterion="information", bound=None):
    return BlockSettings(
        kernels=[parse(text) for text in texts],
        rule=SiteRule(likelihood or MultinomialProbit(), "moments", 1e-8),
        criterion=CRITERIA[criterion](),
        n_latent=len(texts),
        capacity=N_PAIRS,
        bound=bound,
    )


def begin(local_blocks, X, target, of, n_blocks=1, active=None):
    cuts = TILE * (np.arange(n_blocks + 1) * -(-len(X) // TILE) // n_blocks)
    blocks = [PairBlock(of, X[i:j], target[i:j], int(i)) for i, j in pairwise(cuts)]
    selection = PairSelection(local_blocks(blocks), of, active or PairSet())
    for method, args in selection.active.recovery():
        selection.blocks.map_blocks(method, *args)
    return selection


def go_on(selection, n_pairs):
    while len(selection.active) < n_pairs and selection.round(n_pairs):
        pass
    return selection


def state(selection, name):
    return np.concatenate(selection.blocks.map_blocks("array", name))


@pytest.mark.parametrize("criterion", ["information", "entropy"])
def test_the_best_pair_of_a_dense_posterior_is_taken(local_blocks, rings, criterion):
    X, target = rings(300)
    of = settings(criterion=criterion)
    selection = go_on(begin(local_blocks, X, target, of), N_PAIRS)
    mean, covariance = np.zeros((300, 3)), [kernel(X, X) for kernel in of.kernels]
    open_ = np.ones((300, 3), dtype=bool)
    for pair in selection.active.pairs:
        variance = np.stack([c.diagonal() for c in covariance], axis=1)
        found = of.likelihood.moments(mean, variance, target)
        x = variance * found.curvature
        gain = -0.5 * np.log1p(-x)
        if criterion == "information":
            gain += 0.5 * (variance * found.slope**2 - x)
        units = np.rint(np.log(gain) * 2.0**14)
        i, c = pair.row, pair.process
        assert units[i, c] >= units[open_].max() - 1
        open_[i, c] = False
        column = covariance[c][:, i].copy()
        mean[:, c] += column * found.slope[i, c]
        covariance[c] = covariance[c] - found.curvature[i, c] * np.outer(column, column)
    np.testing.assert_allclose(state(selection, "mean"), mean, atol=1e-7)
    variance = np.stack([c.diagonal() for c in covariance], axis=1)
    np.testing.assert_allclose(state(selection, "variance"), variance, atol=1e-7)
    rows = [pair.row for pair in selection.active.pairs]
    assert len(set(rows)) < len(rows)  # a row may join the sets of several classes


def test_one_process_is_plain_greedy_selection(local_blocks, problem, rings):
    X, target = rings(400)
    binary = (target == 1).astype(np.int64)
    of = settings(KERNELS[:1], Probit(bias=0.2))
    pairs = go_on(begin(local_blocks, X, binary, of), 50)
    plain = problem(X, binary, of.kernels, 50, 8, criterion=of.criterion, rule=of.rule).finish()
    assert pairs.active.rows.tolist() == plain.active.rows.tolist()
    for mine, other in zip(pairs.active.sites(1), plain.active.sites(1), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)


def test_the_posterior_of_the_sites_is_that_of_the_recursion(local_blocks, rings):
    X, target = rings(300)
    of = settings()
    selection = go_on(begin(local_blocks, X, target, of), N_PAIRS)
    left = ActiveRows.of(of, selection.active)
    posterior = Posterior.from_weights(left, POSTERIORS["adf"].make(left, None))
    mean, variance = posterior.latent(X)
    np.testing.assert_allclose(mean, state(selection, "mean"), atol=1e-8)
    np.testing.assert_allclose(variance, state(selection, "variance"), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_blocks_changes_no_bit(local_blocks, rings, dtype):
    X, target = rings(4 * TILE - 9)
    found = [
        go_on(begin(local_blocks, X.astype(dtype), target, settings(), n_blocks), 40)
        for n_blocks in (1, 2, 4)
    ]
    for other in found[1:]:
        assert [(p.row, p.process) for p in other.active.pairs] == [
            (p.row, p.process) for p in found[0].active.pairs
        ]
        for name in ("mean", "variance"):
            assert np.array_equal(state(other, name), state(found[0], name))


def test_a_stored_set_goes_on_as_if_it_had_never_stopped(local_blocks, rings):
    X, target = rings(2 * TILE)
    whole = go_on(begin(local_blocks, X, target, settings()), N_PAIRS)
    part = go_on(begin(local_blocks, X, target, settings()), 33)
    stored = PairSet.from_arrays(part.active.arrays())
    other = go_on(begin(local_blocks, X, target, settings(), 2, stored), N_PAIRS)
    assert np.array_equal(state(other, "mean"), state(whole, "mean"))
    for name, array in whole.active.arrays().items():
        assert np.array_equal(other.active.arrays()[name], array), name


def test_a_message_that_comes_twice_is_answered_as_at_first(local_blocks, rings):
    X, target = rings(300)
    selection = go_on(begin(local_blocks, X, target, settings()), 9)
    (block,) = selection.blocks.blocks
    before, next_ = block.state_digest(), block.advance(None, 9)
    again = block.advance(selection.active.pairs[-1], 9)
    assert block.state_digest() == before
    assert (again.row, again.process) == (next_.row, next_.process)
    with pytest.raises(RuntimeError, match="holds 9 inclusions, not 4"):
        block.advance(None, 4)


def test_factors_that_do_not_add_up_are_refused(local_blocks, rings):
    X, target = rings(300)
    arrays = go_on(begin(local_blocks, X, target, settings()), 5).active.arrays()
    with pytest.raises(StoreError, match="factors have"):
        PairSet.from_arrays({**arrays, "factor": arrays["factor"][:-1]})


# -- candidates get fewer ------------------------------------------------------------------------

BOUND = Bound(entries=10_500, every=20, best=0.5)
"""Of 1015 rows 525, 262, 175 and 150 may be candidates in the four blocks of inclusions."""


def candidates(selection):
    return np.concatenate([block.rows[block.open] for block in selection.blocks.blocks])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_under_a_bound_the_number_of_blocks_changes_no_bit(local_blocks, rings, dtype):
    X, target = rings(4 * TILE - 9)
    found = [
        go_on(begin(local_blocks, X.astype(dtype), target, settings(bound=BOUND), n), N_PAIRS)
        for n in (1, 2, 4)
    ]
    assert len(found[0].active) == N_PAIRS
    for other in found[1:]:
        assert other.active.kept == found[0].active.kept
        for name, array in found[0].active.arrays().items():
            assert np.array_equal(other.active.arrays()[name], array), name
        for name in ("mean", "variance"):
            assert np.array_equal(state(other, name), state(found[0], name), equal_nan=True)


def test_rows_that_stay_are_the_best_by_their_best_pair_and_some_drawn(local_blocks, rings):
    X, target = rings(4 * TILE - 9)
    of = settings(bound=BOUND)
    selection, thinnings, again = begin(local_blocks, X, target, of, 2), 0, 0
    while len(selection.active) < N_PAIRS:
        d, before = len(selection.active), candidates(selection)
        if d == selection.active.room:
            blocks = selection.blocks.blocks
            scores = np.concatenate(
                [b._evaluate(np.flatnonzero(b.open), b._marginals().take(b.open)) for b in blocks]
            )
            make_room(selection.blocks, of, selection.active, n_processes=1)
            stayed, most = candidates(selection), BOUND.entries // selection.active.room
            assert len(stayed) == min(most, len(before))
            worst = np.sort(scores)[::-1][most // 2 - 1]
            clear = np.log(scores.clip(min=1e-30)) > np.log(max(worst, 1e-30)) + 0.001
            assert set(before[clear]) <= set(stayed)
            assert len(np.setdiff1d(stayed, before[scores >= worst])) > most // 4  # drawn
            thinnings += 1
        assert selection.round(N_PAIRS)
        assert len(candidates(selection)) * len(selection.active) <= BOUND.entries
        again += len(np.intersect1d(candidates(selection), selection.active.rows)) > 0
    assert thinnings == 4
    assert again  # active for one class, and a candidate for others


def test_rows_that_stay_are_what_they_would_be_among_all(local_blocks, rings):
    X, target = rings(4 * TILE - 9)
    selection = go_on(begin(local_blocks, X, target, settings(bound=BOUND), 3), N_PAIRS)
    (whole,) = begin(local_blocks, X, target, settings()).blocks.blocks
    for pair in selection.active.pairs:
        whole.include(pair)
    held = np.flatnonzero(np.isfinite(state(selection, "mean")).all(axis=1))
    assert set(candidates(selection)) <= set(held)
    assert len(held) < 200
    for name in ("mean", "variance"):
        np.testing.assert_allclose(
            state(selection, name)[held], whole.array(name)[held], atol=1e-10
        )
    for c in range(3):
        stub = np.concatenate([b.array("stub", c) for b in selection.blocks.blocks], axis=1)
        np.testing.assert_allclose(stub[:, held], whole.array("stub", c)[:, held], atol=1e-10)


def test_a_stored_set_goes_on_under_a_bound(local_blocks, rings):
    X, target = rings(2 * TILE)
    of = settings(bound=Bound(entries=6000, every=15, best=0.5))
    whole = go_on(begin(local_blocks, X, target, of), N_PAIRS)
    for stop in (30, 33):
        part = go_on(begin(local_blocks, X, target, of), stop)
        stored = PairSet.from_arrays(part.active.arrays())
        other = go_on(begin(local_blocks, X, target, of, 2, stored), N_PAIRS)
        assert np.array_equal(state(other, "mean"), state(whole, "mean"), equal_nan=True)
        for name, array in whole.active.arrays().items():
            assert np.array_equal(other.active.arrays()[name], array), name


def test_memory_keeps_to_the_bound_but_for_filling(local_blocks, rings):
    X, target = rings(4 * TILE - 9)
    selection = begin(local_blocks, X, target, settings(bound=BOUND))
    while len(selection.active) < N_PAIRS:
        selection.round(N_PAIRS)
        (block,) = selection.blocks.blocks
        stub = sum(panel.nbytes for panels in block.stubs for panel in panels) // X.itemsize
        rows = block.n_tiles * NARROW
        assert rows <= len(candidates(selection)) + 20 + 4 * NARROW  # of four groups of tiles
        assert stub <= rows * (len(selection.active) + 3 * NARROW_PANEL)
