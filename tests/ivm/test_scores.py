"""Bounds that hold, and the best rows whether or not they are used."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsegp.ivm.criteria import Marginals, Predictive, Random
from sparsegp.ivm.scores import SLACK, Scores
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import SiteRule

RULE, PRECISE = SiteRule(MultinomialProbit()), SiteRule(MultinomialProbit(n_nodes=64))


def marginals(rng, n, n_classes, spread, largest=10.0, shared=True):
    return Marginals(
        rng.permutation(10_000)[:n],
        rng.integers(n_classes, size=n),
        rng.normal(size=(n, n_classes)) * spread,
        rng.uniform(0.0, largest, size=(n, 1 if shared else n_classes)),
    )


def changed(rng, before, step):
    """Means move anywhere, variances fall."""
    moved = rng.normal(size=before.mean.shape)
    moved *= rng.choice([0.0, 0.1, 1.0], size=(len(before.rows), 1))
    fall = rng.uniform(0.0, 1.0, size=before.variance.shape)
    return Marginals(before.rows, before.target, before.mean + step * moved, before.variance * fall)


def scores_of(state, lazy=True, criterion=None):
    none = np.zeros_like(state.variance)  # no rounding
    given = criterion or Predictive(), RULE, state.target, state.mean.shape[1], none
    return Scores(*given, lazy)


def brute_force(state, open_, count, criterion=None):
    exact = (criterion or Predictive()).scores(RULE, state)
    found = [(-np.rint(exact[n] * 2.0**14), state.rows[n], n) for n in np.flatnonzero(open_)]
    return sorted(found)[:count]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 2**32),
    n_classes=st.sampled_from([2, 3, 5, 10, 26, 60]),
    spread=st.sampled_from([0.01, 1.0, 10.0, 100.0, 1000.0]),
    step=st.sampled_from([0.01, 1.0, 10.0, 100.0]),
)
def test_no_score_exceeds_its_bound(seed, n_classes, spread, step):
    rng = np.random.default_rng(seed)
    now = marginals(rng, 40, n_classes, spread, largest=100.0)
    scores = scores_of(now)
    for _ in range(4):
        exact = Predictive().scores(RULE, now)
        rounding = 1e-14 * (1.0 + (now.mean**2).sum(axis=1))
        assert (exact <= scores.upper_bounds(now) - SLACK + rounding).all()
        assert (Predictive().scores(PRECISE, now) <= scores.upper_bounds(now) + rounding).all()
        some = rng.permutation(40)[:15]
        found = scores.evaluate(some, now.take(some))
        np.testing.assert_allclose(found, exact[some], rtol=1e-10, atol=1e-9)
        # at an evaluated row the bound is the score itself
        bounds, atol = scores.upper_bounds(now)[some] - SLACK, 1e-9 + rounding.max()
        np.testing.assert_allclose(bounds, exact[some], rtol=1e-9, atol=atol)
        now = changed(rng, now, step)


@pytest.mark.parametrize("criterion", [Predictive(), Random(3)], ids=["predictive", "random"])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_top_is_the_head_of_the_sorted_scores(lazy, n_classes, criterion):
    rng = np.random.default_rng(n_classes)
    now = marginals(rng, 300, n_classes, 2.0)
    scores = scores_of(now, lazy, criterion)
    for count in (1, 2, 15, 16, 17, 64, 299, 300, 301, 1000, 0):
        open_ = rng.uniform(size=300) < rng.choice([0.0, 0.02, 0.5, 1.0])
        expected = brute_force(now, open_, count, criterion)
        index, found = scores.top(now, open_, count)
        assert index.tolist() == [n for _, _, n in expected]
        assert found.tolist() == [-score for score, _, _ in expected]
        now = changed(rng, now, 0.3)


def test_lazy_evaluation_skips_most_rows():
    rng = np.random.default_rng(2)
    now = marginals(rng, 2000, 5, 1.0)
    scores, everywhere = scores_of(now), np.ones(2000, bool)
    scores.top(now, everywhere, 2000)
    evaluated = []

    def counting(index, some, evaluate=scores.evaluate):
        evaluated.append(len(index))
        return evaluate(index, some)

    scores.evaluate = counting
    now = changed(rng, now, 0.05)
    index, _ = scores.top(now, everywhere, 1)
    assert index.tolist() == [brute_force(now, everywhere, 1)[0][2]]
    assert sum(evaluated) < 400
