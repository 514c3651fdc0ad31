"""The evidence over the row blocks of a real selection."""

from itertools import pairwise

import numpy as np
import pytest

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.greedy import Order, Selection
from sparsegp.ivm.rows import TILE, BlockSettings
from sparsegp.kernels import RBF
from sparsegp.learning.evidence import Members
from sparsegp.learning.objective import Objective, asking
from sparsegp.learning.optimise import descend
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.probit import Probit
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.selection.criteria import CRITERIA

N, D, KERNEL = 1500, 20, 2.0 * RBF(1.2)


class Blocks:
    """A selection over blocks in a list; the last block is held out, a tenth of rows kept aside."""

    def __init__(self, likelihood: Likelihood, cuts: tuple[int, ...], unit: int = 2) -> None:
        rng = np.random.default_rng(2)
        X = rng.normal(size=(N + 100, 3)).astype(np.float32)
        latent = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X))
        target = latent if likelihood.numeric else (latent > 0.2).astype(np.int64)
        settings = BlockSettings(
            kernels=[KERNEL],
            rule=SiteRule(likelihood, "moments"),
            criterion=CRITERIA["predictive"](),
            n_latent=1,
            capacity=D,
            unit=unit,
        )
        self.aside = rng.random(N) < 0.1
        ends = [0, *(cut * TILE for cut in cuts), N]
        self.blocks = [
            RowBlock(settings, X[a:b], target[a:b], a, aside=self.aside[a:b])
            for a, b in pairwise(ends)
        ]
        self.blocks.append(RowBlock(settings, X[N:], target[N:], 6 * TILE, held_out=True))
        selection = Selection(self, settings, Order(panel=1), ActiveSet())
        while len(selection.active) < D:
            selection.round(D)
        self.active = active = selection.active
        sum_rows = asking(self.map_blocks, len(active), N, TILE, unit)
        self.objective = Objective(
            [KERNEL], likelihood, Members.of_one(active.x, active.target), sum_rows
        )
        self.X, self.target = X, target

    def map_blocks(self, method, *args):
        return [getattr(block, method)(*args) for block in self.blocks]


@pytest.fixture(scope="module", params=[Probit(0.3), Gaussian(0.2)], ids=lambda x: x.name)
def dealt(request):
    return [Blocks(request.param, cuts) for cuts in ((), (2,), (2, 4))]


def test_sites_in_order_are_those_of_the_selection(dealt):
    active, objective = dealt[0].active, dealt[0].objective
    precision, shift = objective.resite(objective.start)
    np.testing.assert_allclose(active.precision[:, 0], precision, rtol=1e-4)  # float32 stubs
    np.testing.assert_allclose(active.site[:, 0], shift / precision, rtol=1e-3, atol=1e-3)


def test_open_rows_count_and_no_others(dealt, make_rows):
    whole, objective = dealt[0], dealt[0].objective
    rows = make_rows(False)  # other rows take the place of these
    rows.X, rows.target, rows.active = whole.X[:N], whole.target[:N], whole.active.rows
    rows.counts = ~whole.aside
    sites = objective.resite(objective.start)
    expected = rows.evidence(KERNEL, objective.likelihood, sites)
    value, gradient = objective.evaluate(objective.start, sites)
    assert value == pytest.approx(expected.phi, rel=1e-11)
    np.testing.assert_allclose(gradient[:2], expected.kernels, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strategy", ["constant", "whole"])
def test_learning_gives_the_same_bits_however_rows_are_dealt(dealt, strategy):
    paths = []
    for blocks in dealt:
        objective = blocks.objective
        sites = objective.resite(objective.start)
        paths.append(descend(objective, objective.start, sites, strategy, steps=4))
    assert len(paths[0].values) > 2
    assert paths[0].values[-1] < paths[0].values[0]
    for path in paths[1:]:
        for name, value in paths[0].arrays().items():
            np.testing.assert_array_equal(path.arrays()[name], value)
