"""Active sets of single classes, against dense posteriors of all rows and one shared set."""

import numpy as np
import pytest

from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import make_room
from sparsegp.ivm.pairs import NARROW_PANEL
from sparsegp.ivm.rows import NARROW
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import parse
from sparsegp.likelihoods import MultinomialProbit, Probit, SiteRule
from sparsegp.math.products import TILE
from sparsegp.posterior import POSTERIORS, ActiveRows, Posterior
from tests.ivm.problems import Problem, candidates, gather, rings

KERNELS = ("3*rbf(1.5)", "2*rbf(2)", "4*matern52(1)")
N_PAIRS = 70
"""More than one panel of stub columns, for a class at least, under a bound."""


def problem(n=300, criterion="information", **options):
    X, target = rings(n)
    rule = SiteRule(MultinomialProbit(), "moments", 1e-8)
    criterion, kernels = CRITERIA[criterion](), [parse(text) for text in KERNELS]
    return Problem(
        X, target, kernels, N_PAIRS, criterion=criterion, rule=rule, pairs=True, **options
    )


@pytest.mark.parametrize("criterion", ["information", "entropy"])
def test_the_best_pair_of_a_dense_posterior_is_taken(criterion):
    run = problem(criterion=criterion)
    selection = run.finish()
    mean, covariance = np.zeros((300, 3)), [kernel(run.X, run.X) for kernel in run.kernels]
    open_ = np.ones((300, 3), dtype=bool)
    for pair in selection.active.included:
        variance = np.stack([c.diagonal() for c in covariance], axis=1)
        found = run.rule.likelihood.moments(mean, variance, run.target)
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
    variance = np.stack([c.diagonal() for c in covariance], axis=1)
    active = ActiveRows.of(run.settings, selection.active)
    posterior = Posterior.from_weights(active, POSTERIORS["adf"].make(active, None))
    recursion = gather(selection, "mean"), gather(selection, "variance")
    for means, variances in (recursion, posterior.latent(run.X)):
        np.testing.assert_allclose(means, mean, atol=1e-7)
        np.testing.assert_allclose(variances, variance, atol=1e-7)
    rows = [pair.row for pair in selection.active.included]
    assert len(set(rows)) < len(rows)  # a row may join the sets of several classes


def test_one_process_is_plain_greedy_selection():
    X, target = rings(400)
    binary, kernels = (target == 1).astype(np.int64), [parse("3*rbf(1.5)")]
    rule, criterion = SiteRule(Probit(bias=0.2), "moments", 1e-8), CRITERIA["information"]()
    pairs, plain = (
        Problem(X, binary, kernels, 50, criterion=criterion, rule=rule, pairs=each).finish().active
        for each in (True, False)
    )
    assert pairs.rows.tolist() == plain.rows.tolist()
    for mine, other in zip(pairs.sites(1), plain.sites(1), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)


# -- candidates get fewer ------------------------------------------------------------------------

BOUND = Bound(entries=10_500, every=20, best=0.5)
"""Of 1015 rows 525, 262, 175 and 150 may be candidates between the four thinnings."""


def test_rows_that_are_kept_are_the_best_by_their_best_pair_and_some_drawn():
    run = problem(4 * TILE - 9, bound=BOUND, n_blocks=2)
    selection, several = run.begin(), 0
    while len(selection.active) < N_PAIRS:
        d, before = len(selection.active), candidates(selection)
        blocks = selection.blocks.blocks
        if d == selection.active.room:
            mean, variance = (gather(selection, name)[before] for name in ("mean", "variance"))
            sites = run.rule.likelihood.moments(mean, variance, run.target[before])
            x = variance * sites.curvature
            gain = 0.5 * (variance * sites.slope**2 - x - np.log1p(-x))
            for pair in selection.active.included:
                gain[before == pair.row, pair.process] = 1e-30
            best = np.log(gain.max(axis=1))
            make_room(selection.blocks, run.settings, selection.active, n_processes=1)
            kept, most = candidates(selection), BOUND.entries // selection.active.room
            assert len(kept) == min(most, len(before))
            worst = np.sort(best)[::-1][most // 2 - 1]
            assert set(before[best > worst + 0.001]) <= set(kept)
            assert len(np.setdiff1d(kept, before[best >= worst])) > most // 4  # drawn
        assert selection.round(N_PAIRS)
        assert len(candidates(selection)) * len(selection.active) <= BOUND.entries
        several += len(np.intersect1d(candidates(selection), selection.active.rows)) > 0
        stub = sum(panel.size for block in blocks for panels in block.stubs for panel in panels)
        rows = NARROW * sum(block.n_tiles for block in blocks)
        assert rows <= len(candidates(selection)) + 20 + 4 * NARROW  # of four groups of tiles
        assert stub <= rows * (len(selection.active) + 3 * NARROW_PANEL)
    assert len(selection.active.kept) == 4
    assert several  # active for one class, and a candidate for others


def test_rows_that_are_kept_are_what_they_would_be_among_all():
    selection = problem(4 * TILE - 9, bound=BOUND, n_blocks=3).finish()
    (whole,) = problem(4 * TILE - 9).blocks()
    for pair in selection.active.included:
        whole.include(pair)
    held = np.flatnonzero(np.isfinite(gather(selection, "mean")).all(axis=1))
    assert set(candidates(selection)) <= set(held)
    assert len(held) < 200
    for name in ("mean", "variance"):
        found = gather(selection, name)[held]
        np.testing.assert_allclose(found, whole.array(name)[held], atol=1e-10)
    for c in range(3):
        found = gather(selection, "stub", c)[:, held]
        np.testing.assert_allclose(found, whole.array("stub", c)[:, held], atol=1e-10)
