"""Greedy selection with sites that match moments, against dense posteriors of all rows."""

import numpy as np
import pytest

from sparsegp.ivm.criteria import CRITERIA
from sparsegp.likelihoods import Gaussian, Logistic, MultinomialProbit, Probit, SiteRule
from sparsegp.posterior import ActiveRows, Posterior
from sparsegp.posterior.sites import regression
from tests.ivm.problems import Dense, Problem, gather, rings

KERNELS = ("3*rbf(1.5)", "2*rbf(2)", "4*matern52(1)")
LIKELIHOODS = {
    "probit": Probit(bias=0.3),
    "logistic": Logistic(bias=-0.2),
    "gaussian": Gaussian(noise_variance=0.05),
    "several": MultinomialProbit(),
    "pairs": MultinomialProbit(),
}

CASES = [(name, "information", ahead) for name in list(LIKELIHOODS)[:3] for ahead in (1, 8)]
CASES += [("several", "information", 1), ("pairs", "information", 1), ("pairs", "entropy", 1)]


def problem(name, criterion="information", n=400, n_active=40, **options):
    """Several classes have kernels of their own, and share rows or, as pairs, do not."""
    X, target = rings(n)
    several, rule = isinstance(LIKELIHOODS[name], MultinomialProbit), LIKELIHOODS[name]
    if name == "gaussian":
        target = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=n)
    elif not several:
        X, target = X[:, :4], (target == 1).astype(np.int64)
    rule, texts = SiteRule(rule, "moments", 1e-8), KERNELS if several else KERNELS[:1]
    options = {"rule": rule, "criterion": CRITERIA[criterion](), "pairs": name == "pairs"} | options
    return Problem(X, target, texts, n_active, **options)


@pytest.mark.parametrize(("name", "criterion", "lookahead"), CASES)
def test_selection_by_gain_is_that_of_a_dense_posterior(name, criterion, lookahead):
    n_active = 50 if name == "pairs" else 25
    run = problem(name, criterion, 200, n_active, lookahead=lookahead)
    selection, dense = run.finish(), Dense(run)
    every = range(len(run.kernels))
    taken = [(row, every) for row in selection.active.rows]
    if run.pairs:
        taken = [(pair.row, [pair.process]) for pair in selection.active.included]
        assert len({row for row, _ in taken}) < len(taken)  # some join the sets of several classes
    open_ = np.ones((200, len(run.kernels)), dtype=bool)
    for row, processes in taken:
        gain = dense.gains()[criterion == "information"]
        gain = gain if run.pairs else gain.sum(axis=1, keepdims=True) + np.zeros(len(every))
        units = np.rint(np.log(gain) * 2.0**14)
        # the last digits of two ways to the same number
        assert units[row, processes[0]] >= units[open_].max() - 1
        open_[row, processes] = False
        dense.include(row, processes)
    columns = sum(len(gather(selection, "stub", c)) for c in every)
    assert columns == sum(len(processes) for _, processes in taken)
    active = ActiveRows.of(run.settings, selection.active)
    posterior = Posterior(active, regression(active, active.site))
    recursion = gather(selection, "mean"), gather(selection, "variance")
    for mean, variance in (recursion, posterior.latent(run.X)):
        np.testing.assert_allclose(mean, dense.mean, atol=1e-7)
        np.testing.assert_allclose(variance, dense.variance, atol=1e-7)


@pytest.mark.parametrize("panel", [1, 8])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_rows_whose_sites_say_nothing_are_not_included(criterion, panel):
    rule = SiteRule(Probit(), "moments", threshold=0.2)
    run = problem("probit", criterion, n_active=400, panel=panel, rule=rule)
    active, dense = run.finish().active, Dense(run)
    assert 10 < len(active) < 400
    assert (active.sites(1)[1] > 0.2).all()
    for row in active.rows:
        dense.include(row, [0])
    curvature = dense.moments().curvature
    others = np.delete(curvature / (1.0 - dense.variance * curvature), active.rows)
    assert (others <= 0.2 * (1 + 1e-6)).all()
