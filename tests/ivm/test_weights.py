"""Sites, criteria and objectives of weighted rows, beside dense references and exact copies."""

import numpy as np
import pytest

from sparsegp.ivm.criteria import CRITERIA, Marginals
from sparsegp.likelihoods import LIKELIHOODS, Gaussian, MultinomialProbit, SiteRule

N = 6
WEIGHT = np.array([1.0, 2.0, 3.0, 0.5, 7.0, 1e-3])


def marginals(likelihood, weight=None):
    rng, R = np.random.default_rng(0), likelihood.n_latent(3)
    target = rng.normal(size=N) if likelihood.numeric else np.arange(N) % 2
    mean, variance = rng.normal(size=(N, R)), rng.uniform(0.2, 2.0, (N, R))
    return Marginals(np.arange(N), target, mean, variance, weight)


@pytest.mark.parametrize("name", ["probit", "logistic"])
def test_a_weight_is_copies_where_expectation_propagation_converged(name):
    """Each of w copies has the others in its cavity; the power of one site is not far from that."""
    rule = SiteRule(LIKELIHOODS[name].start(2), "moments")
    of, w = marginals(rule.likelihood), 2.0
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


@pytest.mark.parametrize("criterion", ["predictive", "information", "entropy"])
def test_scores_grow_with_the_weight(criterion):
    rule, score = SiteRule(MultinomialProbit(12)), CRITERIA[criterion]().scores
    plain, weighted = marginals(rule.likelihood), marginals(rule.likelihood, WEIGHT)
    before, after = score(rule, plain), score(rule, weighted)
    assert ((after > before) == (WEIGHT > 1.0)).all()
    if criterion == "predictive":
        np.testing.assert_allclose(after, WEIGHT * before)
    taken = score(rule, weighted.take(np.array([4, 2])))
    np.testing.assert_array_equal(taken, after[[4, 2]])


def test_information_gain_of_the_weighted_row():
    """Beside the divergence of the dense posterior from the marginal, for Gaussian noise."""
    rule = SiteRule(Gaussian(0.3), "moments")
    of = marginals(rule.likelihood, WEIGHT)
    variance = 1.0 / (1.0 / of.variance + WEIGHT[:, np.newaxis] / 0.3)
    mean = variance * (of.mean / of.variance + (WEIGHT * of.target / 0.3)[:, np.newaxis])
    ratio = variance / of.variance
    gain = 0.5 * (ratio - 1.0 - np.log(ratio) + (mean - of.mean) ** 2 / of.variance)
    np.testing.assert_allclose(np.exp(CRITERIA["information"]().scores(rule, of)), gain[:, 0])
