"""What every criterion promises, over all members of the registry."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import kstest, norm

from sparsegp.ivm.criteria import CRITERIA, Marginals, Random
from sparsegp.ivm.scores import quantise
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import SiteRule

LIKELIHOOD = MultinomialProbit()
RULE = SiteRule(LIKELIHOOD)


def gap(m):
    """By how much the row's own latent value of two leads."""
    return np.where(m.target == 0, 1.0, -1.0) * (m.mean[:, 0] - m.mean[:, 1])


def updated(m):
    """Means and variances after inclusion, for two classes, by sites of unit precision."""
    sign, z = np.where(np.arange(2) == m.target[:, np.newaxis], 1.0, -1.0), gap(m) / math.sqrt(2.0)
    p = sign * (norm.pdf(z) / norm.cdf(z) / math.sqrt(2.0))[:, np.newaxis]
    precision = 1.0 / m.variance + 1.0
    return (m.mean / m.variance + m.mean + p) / precision, 1.0 / precision


def per_value(m):
    """How many latent values share a variance."""
    return m.mean.shape[1] / m.variance.shape[1]


def divergence(m):
    """D[Q' || Q] of both latent values."""
    mean, variance = updated(m)
    ratio = np.broadcast_to(variance / m.variance, m.mean.shape)
    moved = (mean - m.mean) ** 2 / m.variance
    return 0.5 * (ratio - np.log(ratio) - 1.0 + moved).sum(axis=1)


CONTRACT = {
    "predictive": lambda m: (
        -log_ndtr(gap(m) / np.sqrt((1.0 + m.variance).sum(axis=1) * per_value(m)))
    ),
    "entropy": lambda m: np.log(
        0.5 * np.log(m.variance / updated(m)[1]).sum(axis=1) * per_value(m)
    ),
    "information": lambda m: np.log(divergence(m)),
    "random": None,
    "residual": lambda m: -log_ndtr(gap(m) / math.sqrt(2.0)),
}
"""Second formula for two classes, where there is one."""

members = pytest.mark.parametrize("name", sorted(CONTRACT))
variances = pytest.mark.parametrize("shared", [True, False], ids=["shared", "per class"])


def marginals(n=200, n_classes=2, shared=True, seed=0):
    rng = np.random.default_rng(seed)
    return Marginals(
        np.arange(1000, 1000 + n),
        rng.integers(n_classes, size=n),
        rng.normal(size=(n, n_classes)) * 3.0,
        rng.uniform(0.01, 1.0, size=(n, 1 if shared else n_classes)),
    )


def test_every_criterion_is_in_the_contract():
    assert sorted(CONTRACT) == list(CRITERIA)


@members
@variances
def test_rows_do_not_influence_each_other(name, shared):
    now, criterion = marginals(n_classes=5, shared=shared), CRITERIA[name](seed=1)
    together = criterion.scores(RULE, now)
    assert (together.shape, together.dtype) == ((200,), np.float64)
    assert np.isfinite(together).all()
    order = np.random.default_rng(0).permutation(200)
    for index in (order[:1], order[:2], np.arange(100, 150), order):
        assert np.array_equal(criterion.scores(RULE, now.take(index)), together[index])


@members
@variances
def test_scores_against_a_second_formula(name, shared):
    formula = CONTRACT[name]
    if formula is not None:
        now = marginals(shared=shared)
        got = CRITERIA[name]().scores(RULE, now)
        close = shared and name != "residual"  # which leaves out rivals that trail by far
        np.testing.assert_allclose(got, formula(now), atol=1e-6 if close else 1e-4)


@members
def test_static_scores_ignore_the_marginals_and_others_do_not(name):
    now, other = marginals(seed=1), marginals(seed=2)
    criterion = CRITERIA[name](seed=1)
    same = np.array_equal(criterion.scores(RULE, now), criterion.scores(RULE, other))
    assert same == criterion.static


def test_the_residual_takes_no_notice_of_the_latent_variance():
    now, criterion = marginals(n_classes=5), CRITERIA["residual"]()
    doubled = Marginals(now.rows, now.target, now.mean, 2.0 * now.variance)
    found = criterion.scores(RULE, now)
    assert np.array_equal(criterion.scores(RULE, doubled), found)
    without = LIKELIHOOD.log_z(now.mean, np.zeros((200, 1)), now.target)
    np.testing.assert_allclose(found, -without, atol=2e-4)  # as accurate as `mean_gradient` says


def randomly(rows, seed=0):
    n = len(rows)
    now = Marginals(rows, np.zeros(n, np.int64), np.zeros((n, 2)), np.ones((n, 1)))
    return Random(seed).scores(RULE, now)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_random_scores_are_uniform(seed):
    scores = randomly(np.arange(100_000), seed)
    unit = scores / 2.0 ** math.ceil(math.log2(scores.max()))
    assert (unit >= 0).all()
    assert kstest(unit, "uniform").pvalue > 1e-3
    # no trend along the rows, no correlation between neighbours
    assert abs(np.corrcoef(np.arange(100_000), unit)[0, 1]) < 0.015
    assert abs(np.corrcoef(unit[:-1], unit[1:])[0, 1]) < 0.015


def test_random_scores_are_keyed_by_the_seed_and_the_row_number():
    rows = np.arange(5000)
    assert np.array_equal(randomly(rows[1000:2000], 4), randomly(rows, 4)[1000:2000])
    assert abs(np.corrcoef(randomly(rows, 4), randomly(rows, 5))[0, 1]) < 0.06


def test_random_scores_do_not_tie_when_they_are_compared():
    """The best of many rows would else be those with small numbers."""
    assert len(np.unique(quantise(randomly(np.arange(300_000))))) == 300_000
