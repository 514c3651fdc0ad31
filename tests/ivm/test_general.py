"""Greedy selection with sites that match moments, against dense posteriors of all rows."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from sparsegp.ivm.criteria import CRITERIA
from sparsegp.kernels import parse
from sparsegp.likelihoods import Gaussian, MultinomialProbit, Probit, SiteRule
from sparsegp.likelihoods.logistic import Logistic
from sparsegp.posterior import POSTERIORS, ActiveRows, Posterior
from tests.ivm.problems import Problem, gather, rings

N = 400
LIKELIHOODS = {
    "probit": Probit(bias=0.3),
    "logistic": Logistic(bias=-0.2),
    "gaussian": Gaussian(noise_variance=0.05),
}
single = pytest.mark.parametrize("name", LIKELIHOODS)


@pytest.fixture(scope="module")
def data():
    X, target = rings(N)
    X = X[:, :4]
    return X, {
        "probit": (target == 1).astype(np.int64),
        "logistic": (target == 1).astype(np.int64),
        "gaussian": np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=N),
    }


class Dense:
    """Mean and covariance of all rows; a row is included by a rank-one update."""

    def __init__(self, likelihood, kernel, X, target):
        self.likelihood, self.target = likelihood, target
        self.covariance, self.mean = kernel(X, X), np.zeros(len(X))
        self.open = np.ones(len(X), dtype=bool)

    def moments(self):
        variance = self.covariance.diagonal()[:, np.newaxis]
        return self.likelihood.moments(self.mean[:, np.newaxis], variance, self.target)

    def gains(self):
        """Logarithms of D[N(h', a') || N(h, a)], by the formula for two normal distributions."""
        found, a = self.moments(), self.covariance.diagonal()
        after = a - a**2 * found.curvature[:, 0]
        moved = a * found.slope[:, 0]
        return np.log(0.5 * (np.log(a / after) + after / a + moved**2 / a - 1.0))

    def include(self, i):
        found = self.moments()
        column = self.covariance[:, i].copy()
        self.mean = self.mean + column * found.slope[i, 0]
        self.covariance = self.covariance - found.curvature[i, 0] * np.outer(column, column)
        self.open[i] = False


def adf(run, selection):
    active = ActiveRows.of(run.settings, selection.active)
    return Posterior.from_weights(active, POSTERIORS["adf"].make(active, None))


@single
@pytest.mark.parametrize("lookahead", [1, 8])
def test_selection_by_information_gain_is_that_of_a_dense_posterior(data, name, lookahead):
    X, targets = data
    rule = SiteRule(LIKELIHOODS[name], "moments", 1e-8)
    kernel, criterion = parse("3*rbf(1.5)"), CRITERIA["information"]()
    run = Problem(X, targets[name], [kernel], 40, lookahead, criterion=criterion, rule=rule)
    selection = run.finish()
    dense = Dense(rule.likelihood, kernel, X, targets[name])
    for row in selection.active.rows:
        units = np.rint(dense.gains() * 2.0**14)
        best = units[dense.open].max()
        assert units[row] >= best - 1  # the last digits of two ways to the same number
        dense.include(row)
    variance = dense.covariance.diagonal()
    recursion = gather(selection, "mean"), gather(selection, "variance")
    for found in (recursion, adf(run, selection).latent(X)):
        np.testing.assert_allclose(found[0][:, 0], dense.mean, atol=1e-8)
        np.testing.assert_allclose(found[1][:, 0], variance, atol=1e-8)


def test_gaussian_noise_gives_gaussian_process_regression_on_the_active_rows(data):
    X, targets = data
    y, rule = targets["gaussian"], SiteRule(LIKELIHOODS["gaussian"], "moments", 1e-8)
    criterion = CRITERIA["information"]()
    run = Problem(X, y, [parse("3*rbf(1.5)")], 60, 8, criterion=criterion, rule=rule)
    selection = run.finish()
    posterior = adf(run, selection)
    kernel = sk.ConstantKernel(3.0, "fixed") * sk.RBF(1.5, "fixed")
    rows = selection.active.rows
    dense = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(X[rows], y[rows])
    mean, deviation = dense.predict(X, return_std=True)
    found, variance = posterior.latent(X)
    np.testing.assert_allclose(found[:, 0], mean, atol=1e-7)
    np.testing.assert_allclose(variance[:, 0], deviation**2, atol=1e-7)


def test_classes_with_kernels_of_their_own_share_rows_by_the_sum_of_gains():
    X, target = rings(300)
    rule = SiteRule(MultinomialProbit(), "moments", 1e-8)
    kernels = [parse(text) for text in ("3*rbf(1.5)", "2*rbf(2)", "4*matern52(1)")]
    criterion = CRITERIA["information"]()
    run = Problem(X, target, kernels, 24, 1, criterion=criterion, rule=rule)
    selection = run.finish()
    mean = np.zeros((300, 3))
    covariance = [kernel(X, X) for kernel in kernels]
    open_ = np.ones(300, dtype=bool)
    for row in selection.active.rows:
        variance = np.stack([c.diagonal() for c in covariance], axis=1)
        found = rule.likelihood.moments(mean, variance, target)
        x = variance * found.curvature
        gain = 0.5 * (-np.log1p(-x) - x + variance * found.slope**2).sum(axis=1)
        units = np.rint(np.log(gain) * 2.0**14)
        assert units[row] >= units[open_].max() - 1
        open_[row] = False
        for c in range(3):
            column = covariance[c][:, row].copy()
            mean[:, c] += column * found.slope[row, c]
            covariance[c] = covariance[c] - found.curvature[row, c] * np.outer(column, column)
    np.testing.assert_allclose(gather(selection, "mean"), mean, atol=1e-7)


@pytest.mark.parametrize("panel", [1, 8])
def test_rows_whose_sites_say_nothing_are_not_included(data, panel):
    X, targets = data
    rule = SiteRule(Probit(), "moments", threshold=0.05)
    criterion = CRITERIA["information"]()
    kernel = parse("3*rbf(1.5)")
    run = Problem(X, targets["probit"], [kernel], N, 8, panel, criterion, rule=rule)
    selection = run.finish()
    assert 10 < len(selection.active) < N
    assert (selection.active.sites(1)[1] > 0.05).all()
    dense = Dense(rule.likelihood, kernel, X, targets["probit"])
    for row in selection.active.rows:
        dense.include(row)
    found, a = dense.moments().curvature[:, 0], dense.covariance.diagonal()
    precision = (found / (1.0 - a * found))[dense.open]
    assert (precision <= 0.05 * (1 + 1e-6)).all()
