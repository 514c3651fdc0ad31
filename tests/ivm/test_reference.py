"""The active set against Girolami & Rogers (2006), section 5, as printed, and its symmetries."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sparsegp.ivm.reference import select
from sparsegp.likelihoods import MultinomialProbit, SiteRule
from tests.ivm.problems import Problem, gather, rings

CASES = {
    "digits": (["4*rbf(1.8)"], 40, 12),
    "rings, linear": (["0.3*linear + matern52(1.0)"], 50, 12),
    "rings, per class": (["2*rbf(0.8)", "rbf(0.6)", "1.5*matern52(1.2) + 0.2"], 30, 64),
}


def digits(n):
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n].astype(np.int64)


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    texts, n_active, n_nodes = CASES[request.param]
    X, target = digits(350) if request.param == "digits" else rings(500, seed=3)
    run = Problem(X, target, texts, n_active, rule=SiteRule(MultinomialProbit(n_nodes)))
    dense = [kernel(X, X) for kernel in run.kernels] * (1 if len(texts) > 1 else target.max() + 1)
    return run, select(dense, target, n_active, MultinomialProbit(64))


@pytest.mark.parametrize(("lookahead", "lazy"), [(1, True), (4, False), (32, True)])
def test_the_active_set_is_that_of_the_paper(case, lookahead, lazy):
    run, (active, mean, variance) = case
    selection = replace(run, lookahead=lookahead, lazy=lazy).finish()
    assert selection.active.rows.tolist() == active
    assert lookahead < 32 or len(selection.active.included) < len(active) // 2  # few rounds
    np.testing.assert_allclose(gather(selection, "mean"), mean, atol=1e-4)
    variance = variance[:, : len(run.kernels)]
    np.testing.assert_allclose(gather(selection, "variance"), variance, atol=1e-9)


@pytest.mark.parametrize("lookahead", [1, 8])
def test_permuting_the_rows_permutes_the_active_set(lookahead):
    X, target = rings(400, seed=6)
    kernels = ("linear", "2*linear + rbf(1.0)", "0.5*linear + 0.1")
    order = np.random.default_rng(1).permutation(400)
    plain = Problem(X, target, kernels, 30, lookahead).finish().active.rows
    permuted = Problem(X[order], target[order], kernels, 30, lookahead).finish().active.rows
    assert order[permuted].tolist() == plain.tolist()
