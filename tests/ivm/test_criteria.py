"""What every criterion promises, over all members of the registry.

Their values are in test_reference.py and test_general.py.
"""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from sparsegp.ivm.criteria import CRITERIA, Marginals, Random
from sparsegp.ivm.scores import quantise
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import SiteRule

RULE = SiteRule(MultinomialProbit())


members = pytest.mark.parametrize("name", list(CRITERIA))
variances = pytest.mark.parametrize("shared", [True, False], ids=["shared", "per class"])


def marginals(n=200, n_classes=2, shared=True, seed=0):
    rng = np.random.default_rng(seed)
    return Marginals(
        np.arange(1000, 1000 + n),
        rng.integers(n_classes, size=n),
        rng.normal(size=(n, n_classes)) * 3.0,
        rng.uniform(0.01, 1.0, size=(n, 1 if shared else n_classes)),
    )


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
def test_static_scores_ignore_the_marginals_and_others_do_not(name):
    now, other = marginals(seed=1), marginals(seed=2)
    criterion = CRITERIA[name](seed=1)
    same = np.array_equal(criterion.scores(RULE, now), criterion.scores(RULE, other))
    assert same == criterion.static


def randomly(rows, seed=0):
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
