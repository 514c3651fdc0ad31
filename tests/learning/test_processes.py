"""The evidence of several processes: against dense formulas, differences, and single processes."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from sparsegp.errors import SettingsError
from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.greedy import Order, Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import TILE, BlockSettings
from sparsegp.kernels import ARD, RBF, Linear, Matern52
from sparsegp.learning import hyperpriors
from sparsegp.learning.evidence import Members, evidence
from sparsegp.learning.objective import Objective, asking, parameter_names
from sparsegp.learning.optimise import descend
from sparsegp.likelihoods import MultinomialProbit, Probit, SiteRule
from sparsegp.likelihoods.base import Likelihood, Moments
from sparsegp.likelihoods.softmax import Softmax
from sparsegp.selection.criteria import CRITERIA

KERNELS = [2.0 * RBF(1.2), 1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear(), 3.0 * Matern52(1.0)]
PLACES = [np.array(own) for own in ([4, 0, 2, 1, 3, 5], [9, 3, 4, 5, 6, 7], [5, 8, 7, 10, 11])]
"""Row 5 is active for three classes, 3, 4 and 7 are for two, the others for one."""
EMPTY = [PLACES[0], np.empty(0, dtype=np.int64), np.arange(4, 12)]
LIKELIHOODS = [MultinomialProbit(12, (0.4, -0.3, 0.1)), Softmax(12, (0.4, -0.3, 0.1))]
CLOSE = {"multinomial_probit": 1e-6, "softmax": 3e-5}
"""A product rule is not the integral, and its derivatives are not quite those of the rule."""

every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: x.name)


def three_classes(make_rows, **options):
    """Rows of three classes, twelve of them active for some class."""
    rows = make_rows(True, n=40, d=12, **options)
    rows.target = np.digitize(rows.target, [-0.5, 0.7])
    return rows, replace(rows.members, places=PLACES)


def some_sites(members, seed=1):
    rng, d = np.random.default_rng(seed), sum(map(len, members.places))
    return np.stack([np.exp(rng.normal(size=d)), rng.normal(size=d)])


def dense(rows, members, kernels, likelihood, sites):
    """phi by its definition, with inverses of full matrices."""
    n = len(rows.X)
    mean, variance, own = np.empty((n, 3)), np.empty((n, 3)), 0.0
    for c, (kernel, (pi, b)) in enumerate(zip(kernels, members.split(sites), strict=True)):
        K = kernel(rows.X, rows.X) + 1e-9 * np.eye(n)
        Pi, shift, active = np.zeros(n), np.zeros(n), rows.active[members.places[c]]
        Pi[active], shift[active] = pi, b
        A = np.linalg.inv(np.linalg.inv(K) + np.diag(Pi))
        h, a = A @ shift, np.diagonal(A)
        variance[:, c] = a / (1 - Pi * a)
        mean[:, c] = h + variance[:, c] * (Pi * h - shift)
        log_z_site = np.log(a / variance[:, c]) + h**2 / a - mean[:, c] ** 2 / variance[:, c]
        own += 0.5 * log_z_site.sum()
        own -= 0.5 * (np.linalg.slogdet(A)[1] - np.linalg.slogdet(K)[1] + shift @ h)
    keep = rows.counts.copy()
    keep[rows.active] = True
    return own - likelihood.log_z(mean, variance, rows.target)[keep].sum()


@every_likelihood
@pytest.mark.parametrize("places", [PLACES, EMPTY], ids=["overlapping", "one empty"])
def test_equals_its_definition_by_full_matrices(likelihood, places, make_rows):
    rows, members = three_classes(make_rows)
    members = replace(members, places=places)
    sites = some_sites(members)
    found = evidence(KERNELS, likelihood, members, sites, rows.sum_rows)
    expected = dense(rows, members, KERNELS, likelihood, sites)
    assert found.phi == pytest.approx(expected, abs=1e-5)


@every_likelihood
@pytest.mark.parametrize("places", [PLACES, EMPTY], ids=["overlapping", "one empty"])
def test_gradient_with_sites_held(likelihood, places, make_rows, central):
    rows, members = three_classes(make_rows)
    members = replace(members, places=places)
    objective = Objective(KERNELS, likelihood, members, rows.sum_rows)
    sites = some_sites(members)
    _, gradient = objective.evaluate(objective.start, sites)
    expected = central(lambda t: objective.evaluate(t, sites)[0], objective.start)
    assert len(gradient) == 2 + 6 + 2 + 3
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=CLOSE[likelihood.name])


def test_gradient_by_sites(make_rows, central):
    rows, members = three_classes(make_rows)
    sites = some_sites(members)

    def phi(sites):
        return evidence(KERNELS, LIKELIHOODS[0], members, sites, rows.sum_rows).phi

    found = evidence(KERNELS, LIKELIHOODS[0], members, sites, rows.sum_rows, by_sites=True)
    np.testing.assert_allclose(found.sites, central(phi, sites), rtol=0, atol=1e-6)


@dataclass(frozen=True)
class Independent(Likelihood):
    """Two latent values that share a label and nothing else."""

    first: Probit
    second: Probit

    @classmethod
    def start(cls, n_classes, n_nodes=12):
        return cls(Probit(), Probit())

    def log_density(self, latent, target):
        own = self.first.log_density(latent[..., :1], target)
        return own + self.second.log_density(latent[..., 1:], target)

    def moments(self, mean, variance, target):
        columns = [(mean[:, [c]], variance[:, [c]]) for c in (0, 1)]
        one, other = (
            self.first.moments(*columns[0], target),
            self.second.moments(*columns[1], target),
        )
        return Moments(
            one.log_z + other.log_z,
            np.hstack([one.slope, other.slope]),
            np.hstack([one.curvature, other.curvature]),
        )


def test_processes_that_share_nothing_add_up(make_rows):
    """A row that is active for one process is one of the others for the second."""
    rows = make_rows(False, n=60, d=12)
    members, likelihood = (
        replace(rows.members, places=PLACES[:2]),
        Independent(Probit(0.3), Probit(-0.6)),
    )
    sites = some_sites(members)
    found = evidence(KERNELS[:2], likelihood, members, sites, rows.sum_rows, by_sites=True)
    expected = []
    for c, single in enumerate((likelihood.first, likelihood.second)):
        some = replace(rows, active=rows.active[PLACES[c]], counts=rows.counts.copy())
        some.counts[rows.active] = True  # those that are active for neither, too
        expected.append(some.evidence(KERNELS[c], single, members.split(sites)[c]))
    assert found.phi == pytest.approx(expected[0].phi + expected[1].phi, rel=1e-12)
    for name, axis in (("kernels", 0), ("sites", 1)):
        parts = np.concatenate([getattr(one, name) for one in expected], axis=axis)
        np.testing.assert_allclose(getattr(found, name), parts, rtol=1e-10)


@every_likelihood
def test_the_same_bits_however_rows_are_dealt(likelihood, make_rows):
    rows, members = three_classes(make_rows)
    sites = some_sites(members)
    first = evidence(KERNELS, likelihood, members, sites, rows.sum_rows, by_sites=True)
    for cuts in ((1,), (1, 2)):
        sum_rows = replace(rows, cuts=cuts).sum_rows
        found = evidence(KERNELS, likelihood, members, sites, sum_rows, by_sites=True)
        assert found.phi == first.phi
        for name in ("kernels", "likelihood", "sites"):
            np.testing.assert_array_equal(getattr(found, name), getattr(first, name))


def test_a_row_without_precision_is_not_active(make_rows):
    rows, members = three_classes(make_rows)
    sites = some_sites(members)
    sites[:, [2, 8]] = 0.0  # row 2 in process 0, row 4 in process 1
    mean, precision = np.zeros((12, 3)), np.zeros((12, 3))
    for c, (own, (pi, b)) in enumerate(zip(PLACES, members.split(sites), strict=True)):
        precision[own, c] = pi
        mean[own, c] = np.divide(b, pi, out=np.zeros(len(own)), where=pi > 0)
    without, left = Members.of_sites(members.x, members.target, mean, precision)
    assert [own.tolist() for own in without.places[:2]] == [[0, 1, 3, 4, 5], [3, 5, 6, 7, 9]]
    first = evidence(KERNELS, LIKELIHOODS[0], members, sites, rows.sum_rows)
    found = evidence(KERNELS, LIKELIHOODS[0], without, left, rows.sum_rows)
    assert found.phi == pytest.approx(first.phi, rel=1e-13)
    np.testing.assert_allclose(found.kernels, first.kernels, rtol=1e-10)
    np.testing.assert_allclose(found.likelihood, first.likelihood, rtol=1e-10)


def test_hyperpriors_are_of_every_kernel(central):
    names = parameter_names(KERNELS, LIKELIHOODS[0])
    assert names[:3] == ("0:constant.value", "0:rbf.length_scale", "1:constant.value")
    assert names[-4:] == (
        "2:matern52.length_scale",
        *(f"multinomial_probit.bias_{k}" for k in "012"),
    )
    hyperprior = hyperpriors.parse(
        "v: lognormal(-1, 1); l: gamma(2, 1); bias: normal(0, 9)", names, 3
    )
    assert sorted(np.concatenate([term.index for term in hyperprior.terms])) == list(range(13))
    start = Objective(KERNELS, LIKELIHOODS[0], Members([], [], []), list).start
    _, gradient = hyperprior(start)
    expected = central(lambda t: hyperprior(t)[0], start)
    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-8)


def test_sites_of_several_processes_stay(make_rows):
    rows, members = three_classes(make_rows)
    objective = Objective(KERNELS, LIKELIHOODS[0], members, rows.sum_rows)
    for strategy in ("whole", "hybrid", "exact"):
        with pytest.raises(SettingsError, match="one latent value, got 3; use strategy 'constant'"):
            descend(objective, objective.start, some_sites(members), strategy)


# -- row blocks of a real selection ----------------------------------------------------------------

N, SIZES = 300, {True: 120, False: 20}
"""Rows; pairs, or rows of one set."""


class Blocks:
    """A selection over blocks in a list; the last is held out, a tenth of the rows kept aside."""

    def __init__(self, each, likelihood, cuts):
        rng = np.random.default_rng(2)
        self.X = rng.normal(size=(N + 100, 3))
        latent = np.sin(2.0 * self.X[:, 0]) + self.X[:, 1] + 0.3 * rng.normal(size=N + 100)
        self.target = np.digitize(latent, [-0.5, 0.7])
        settings = BlockSettings(
            kernels=KERNELS,
            rule=SiteRule(likelihood, "moments", 1e-8),
            criterion=CRITERIA["information"](),
            n_latent=3,
            capacity=SIZES[each],
            unit=1,
        )
        block = PairBlock if each else RowBlock
        self.aside = rng.random(N) < 0.1
        self.blocks = [
            block(settings, self.X[a:b], self.target[a:b], a, aside=self.aside[a:b])
            for a, b in pairwise([0, *(cut * TILE for cut in cuts), N])
        ]
        self.blocks.append(block(settings, self.X[N:], self.target[N:], 2 * TILE, held_out=True))
        if each:
            selection = PairSelection(self, settings, PairSet())
        else:
            selection = Selection(self, settings, Order(panel=1), ActiveSet())
        while len(selection.active) < SIZES[each]:
            selection.round(SIZES[each])
        self.active = active = selection.active
        members, self.sites = Members.of_sites(active.x, active.target, *active.sites(3))
        sum_rows = asking(self.map_blocks, SIZES[each], N, TILE, 1)
        self.objective = Objective(KERNELS, likelihood, members, sum_rows)

    def map_blocks(self, method, *args):
        return [getattr(block, method)(*args) for block in self.blocks]


@pytest.mark.parametrize("each", [True, False], ids=["a set a class", "one set"])
def test_rows_that_are_active_for_no_class_count(each, make_rows):
    blocks = Blocks(each, LIKELIHOODS[0], (1,))
    objective, members = blocks.objective, blocks.objective.members
    sizes = [len(own) for own in members.places]
    assert (sum(sizes), len(members.x)) == ((120, 113) if each else (60, 20))
    rows = make_rows(False)  # other rows take the place of these
    rows.X, rows.target, rows.active = blocks.X[:N], blocks.target[:N], blocks.active.rows
    rows.counts = ~blocks.aside
    expected = evidence(KERNELS, LIKELIHOODS[0], members, blocks.sites, rows.sum_rows)
    value, gradient = objective.evaluate(objective.start, blocks.sites)
    assert value == pytest.approx(expected.phi, rel=1e-11)
    np.testing.assert_allclose(gradient[:-3], expected.kernels, rtol=1e-8, atol=1e-9)
    for block in blocks.blocks:
        with pytest.raises(RuntimeError, match=f"holds {SIZES[each]} "):
            block.evidence(7, None, 3)


@pytest.mark.parametrize("each", [True, False], ids=["a set a class", "one set"])
def test_learning_gives_the_same_bits_however_blocks_are_cut(each):
    paths = []
    for cuts in ((), (1,)):
        blocks = Blocks(each, LIKELIHOODS[0], cuts)
        objective = blocks.objective
        paths.append(descend(objective, objective.start, blocks.sites, "constant", steps=3))
    assert paths[0].values[-1] < paths[0].values[0]
    for path in paths[1:]:
        for name, value in paths[0].arrays().items():
            np.testing.assert_array_equal(path.arrays()[name], value)
