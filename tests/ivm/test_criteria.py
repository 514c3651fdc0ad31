"""What every criterion promises, over all members of the registry, and scores of weighted rows.

Values for rows without weights are in test_reference.py and test_general.py.
"""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from sparsegp.ivm.criteria import CRITERIA, Marginals, Random
from sparsegp.ivm.scores import quantise
from sparsegp.likelihoods import LIKELIHOODS, Gaussian, MultinomialProbit, SiteRule
from tests.ivm.test_scores import changed, marginals

RULE = SiteRule(MultinomialProbit())
members = pytest.mark.parametrize("name", list(CRITERIA))


@members
@pytest.mark.parametrize("shared", [True, False])
def test_rows_do_not_influence_each_other(name, shared):
    rng, criterion = np.random.default_rng(0), CRITERIA[name](seed=1)
    now = marginals(rng, 200, 5, 3.0, 1.0, shared)
    together = criterion.scores(RULE, now)
    assert (together.shape, together.dtype) == ((200,), np.float64)
    assert np.isfinite(together).all()
    order = rng.permutation(200)
    for index in (order[:1], order[:2], np.arange(100, 150), order):
        assert np.array_equal(criterion.scores(RULE, now.take(index)), together[index])


@members
def test_static_scores_ignore_the_marginals_and_others_do_not(name):
    rng, criterion = np.random.default_rng(1), CRITERIA[name](seed=1)
    now = marginals(rng, 200, 2, 3.0, 1.0)
    other = changed(rng, now, 3.0)
    same = np.array_equal(criterion.scores(RULE, now), criterion.scores(RULE, other))
    assert same == criterion.static


def randomly(rows, seed):
    n = len(rows)
    now = Marginals(rows, np.zeros(n, np.int64), np.zeros((n, 2)), np.ones((n, 1)))
    return Random(seed).scores(RULE, now)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_random_scores_are_uniform_and_keyed_by_the_seed_and_the_row_number(seed):
    scores, other = (randomly(np.arange(300_000), key) for key in (seed, seed + 1))
    unit = scores / 2.0 ** math.ceil(math.log2(scores.max()))
    assert (unit >= 0).all()
    assert kstest(unit, "uniform").pvalue > 1e-3
    # no trend along the rows, no correlation between neighbours or seeds
    for series in (np.arange(300_000), np.roll(unit, 1), other):
        assert abs(np.corrcoef(series, unit)[0, 1]) < 0.01
    assert np.array_equal(randomly(np.arange(1000, 2000), seed), scores[1000:2000])
    # no ties when they are compared: the best of many rows would be those with small numbers
    assert len(np.unique(quantise(scores))) == 300_000


N = 6
WEIGHT = np.array([1.0, 2.0, 3.0, 0.5, 7.0, 1e-3])


def few(likelihood, weight=None):
    rng, R = np.random.default_rng(0), likelihood.n_latent(3)
    target = rng.normal(size=N) if likelihood.numeric else np.arange(N) % 2
    mean, variance = rng.normal(size=(N, R)), rng.uniform(0.2, 2.0, (N, R))
    return Marginals(np.arange(N), target, mean, variance, weight)


@pytest.mark.parametrize("name", ["probit", "logistic"])
def test_a_weight_is_copies_where_expectation_propagation_converged(name):
    """Each of w copies has the others in its cavity; the power of one site is not far from that."""
    rule = SiteRule(LIKELIHOODS[name].start(2), "moments")
    of, w = few(rule.likelihood), 2.0
    precision, shift = np.zeros((2, N, 1))
    for _ in range(200):  # one site each, and w - 1 like it in the cavity
        inverse = 1.0 / of.variance + (w - 1.0) * precision
        mean = (of.mean / of.variance + (w - 1.0) * shift) / inverse
        one = rule.sites(mean, 1.0 / inverse, of.target)
        precision, shift = one.precision, one.precision * one.mean
    exact = w * shift / (w * precision + 1.0 / of.variance)
    exact += of.mean / of.variance / (w * precision + 1.0 / of.variance)
    site = rule.sites(of.mean, of.variance, of.target, np.full(N, w))
    found = of.mean + of.variance / site.length * site.step
    single = rule.sites(of.mean, of.variance, of.target)
    once = of.mean + of.variance / single.length * single.step
    assert (np.abs(found - exact) <= 0.35 * np.abs(exact - once) + 1e-9).all()


@pytest.mark.parametrize("name", [name for name in CRITERIA if CRITERIA[name].concave])
def test_concave_scores_are_those_that_have_bounds(name):
    """The weighted -log Z: a lazy selection asks for no others."""
    rule, rows = SiteRule(MultinomialProbit(12)), few(MultinomialProbit(12), WEIGHT)
    log_z = rule.likelihood.log_z(rows.mean, rows.variance, rows.target)
    np.testing.assert_allclose(CRITERIA[name]().scores(rule, rows), -WEIGHT * log_z)


@pytest.mark.parametrize("criterion", [name for name in CRITERIA if not CRITERIA[name].static])
def test_scores_grow_with_the_weight(criterion):
    rule, score = SiteRule(MultinomialProbit(12)), CRITERIA[criterion]().scores
    plain, weighted = few(rule.likelihood), few(rule.likelihood, WEIGHT)
    before, after = score(rule, plain), score(rule, weighted)
    assert ((after > before) == (WEIGHT > 1.0)).all()
    if criterion == "predictive":
        np.testing.assert_allclose(after, WEIGHT * before)
    taken = score(rule, weighted.take(np.array([4, 2])))
    np.testing.assert_array_equal(taken, after[[4, 2]])


def test_information_gain_of_the_weighted_row():
    """Beside the divergence of the dense posterior from the marginal, for Gaussian noise."""
    rule = SiteRule(Gaussian(0.3), "moments")
    of = few(rule.likelihood, WEIGHT)
    variance = 1.0 / (1.0 / of.variance + WEIGHT[:, np.newaxis] / 0.3)
    mean = variance * (of.mean / of.variance + (WEIGHT * of.target / 0.3)[:, np.newaxis])
    ratio = variance / of.variance
    gain = 0.5 * (ratio - 1.0 - np.log(ratio) + (mean - of.mean) ** 2 / of.variance)
    np.testing.assert_allclose(np.exp(CRITERIA["information"]().scores(rule, of)), gain[:, 0])
