"""The evidence over the row blocks of a real selection: one set, one a class, one in all."""

from itertools import pairwise

import numpy as np
import pytest

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.greedy import Order, Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import BlockSettings
from sparsegp.kernels import ARD, RBF, Linear, Matern52
from sparsegp.learning.evidence import Members, evidence
from sparsegp.learning.objective import Objective, sums_over
from sparsegp.learning.optimise import descend
from sparsegp.likelihoods import Gaussian, MultinomialProbit, Probit, SiteRule
from sparsegp.math.products import TILE

KERNELS = [2.0 * RBF(1.2), 1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear(), 3.0 * Matern52(1.0)]
CLASSES = MultinomialProbit(12, (0.4, -0.3, 0.1))
CASES = {
    "probit": (Probit(0.3), False, 20),
    "gaussian": (Gaussian(0.2), False, 20),
    "one set": (CLASSES, False, 12),
    "a set a class": (CLASSES, True, 60),
}
"""Likelihood, whether pairs of a row and a class are selected, and how many."""
N = 700


class Blocks:
    """A selection over blocks in a list; the last is held out, a tenth of the validation rows."""

    def __init__(self, case, cuts):
        likelihood, each, size = CASES[case]
        rng = np.random.default_rng(2)
        self.X = rng.normal(size=(N + 100, 3))
        latent = np.sin(2.0 * self.X[:, 0]) + self.X[:, 1] + 0.3 * rng.normal(size=N + 100)
        several = likelihood is CLASSES
        edges = [-0.5, 0.7] if several else [0.2]
        self.target = latent if likelihood.numeric else np.digitize(latent, edges)
        settings = BlockSettings(
            kernels=KERNELS if several else KERNELS[:1],
            rule=SiteRule(likelihood, "moments", 1e-8),
            criterion=CRITERIA["information"](),
            n_latent=3 if several else 1,
            capacity=size,
            unit=1,
        )
        block = PairBlock if each else RowBlock
        self.validation = rng.random(N) < 0.1
        self.blocks = [
            block(settings, self.X[a:b], self.target[a:b], a, validation=self.validation[a:b])
            for a, b in pairwise([0, *(cut * TILE for cut in cuts), N])
        ]
        self.blocks.append(block(settings, self.X[N:], self.target[N:], 4 * TILE, held_out=True))
        if each:
            selection = PairSelection(self, settings, PairSet())
        else:
            selection = Selection(self, settings, Order(panel=1), ActiveSet())
        while len(selection.active) < size:
            selection.round(size)
        self.active = active = selection.active
        sites = active.sites(settings.n_latent)
        self.members, self.sites = Members.of_sites(active.x, active.target, *sites)
        sum_rows = sums_over(self.map_blocks, size, N, TILE)
        self.objective = Objective(settings.kernels, likelihood, self.members, sum_rows)

    def map_blocks(self, method, *args):
        return [getattr(block, method)(*args) for block in self.blocks]


@pytest.fixture(scope="module", params=CASES)
def cut(request):
    return [Blocks(request.param, cuts) for cuts in ((), (1, 2))]


def test_rows_that_are_not_active_count_and_no_others(cut, make_rows):
    blocks, objective = cut[0], cut[0].objective
    rows = make_rows(False)  # other rows take the place of these
    rows.X, rows.target, rows.active = blocks.X[:N], blocks.target[:N], blocks.active.rows
    rows.counts = ~blocks.validation
    parts = (objective.kernels, objective.likelihood, blocks.members, blocks.sites)
    expected = evidence(*parts, rows.sum_rows)
    value, gradient = objective.evaluate(objective.start, blocks.sites)
    assert value == pytest.approx(expected.phi, rel=1e-10)
    np.testing.assert_allclose(
        gradient[: len(expected.kernels)], expected.kernels, rtol=1e-8, atol=1e-8
    )


def test_sites_in_order_are_those_of_the_selection(cut):
    objective = cut[0].objective
    if len(objective.kernels) == 1:
        precision, shift = objective.resite(objective.start)
        np.testing.assert_allclose(cut[0].sites[0], precision, rtol=1e-4)
        np.testing.assert_allclose(cut[0].sites[1], shift, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("strategy", ["constant", "whole"])
def test_learning_gives_the_same_bits_however_blocks_are_cut(cut, strategy):
    if strategy == "whole" and len(cut[0].objective.kernels) > 1:
        pytest.skip("is for one latent value")
    paths = [
        descend(blocks.objective, blocks.objective.start, blocks.sites, strategy, steps=3)
        for blocks in cut
    ]
    assert paths[0].values[-1] < paths[0].values[0]
    for path in paths[1:]:
        for name, value in vars(paths[0]).items():
            np.testing.assert_array_equal(getattr(path, name), value)
