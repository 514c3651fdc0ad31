"""The active set against Girolami & Rogers (2006), section 5, as printed, and rows that tie: the
smaller row first, wherever it is. In test_weights.py the rows come in other orders."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sparsegp.likelihoods import MultinomialProbit, SiteRule
from tests.ivm.problems import Problem, gather, rings
from tests.ivm.reference import select

CASES = {
    "digits": (["4*rbf(1.8)"], 25, 12),
    "rings, linear": (["0.3*linear + matern52(1.0)"], 30, 12),
    "rings, per class": (["2*rbf(0.8)", "rbf(0.6)", "1.5*matern52(1.2) + 0.2"], 20, 64),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    texts, n_active, n_nodes = CASES[request.param]
    X, target = rings(300, seed=3)
    if request.param == "digits":
        X, target = (rows[:300] for rows in load_digits(return_X_y=True))
        X, target = X / 16.0, target.astype(np.int64)
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


@pytest.mark.parametrize("lookahead", [1, 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("equal", [True, False])
def test_of_copies_the_first_is_taken(lookahead, dtype, equal):
    """Of two rows, or more: anywhere, or with float32 at the same places of three tiles."""
    original = np.random.default_rng(3).integers(80, size=600)
    original = np.tile(np.arange(256), 3) if dtype == np.float32 else original
    X, target = (rows[original] for rows in rings(original.max() + 1))
    if equal:  # but for the label
        original = target = np.arange(768) // 2 % 2  # 0 0 1 1 0 0 1 1 ...
        X = np.full((768, 4), 0.3)
    run = Problem(X.astype(dtype), target, ["2*rbf(1.0)"], 24, lookahead, n_blocks=3)
    taken = np.zeros(len(X), bool)
    for row in run.finish().active.rows:
        assert taken[:row][original[:row] == original[row]].all()
        taken[row] = True


@pytest.mark.parametrize(("lookahead", "panel", "n_blocks"), [(1, 1, 1), (8, 1, 2), (1, 8, 2)])
def test_all_rows_can_be_included(lookahead, panel, n_blocks):
    X, target = (np.concatenate([rows] * 10) for rows in rings(11))
    run = Problem(X, target, ["rbf(1.0)"], 110, lookahead, panel, n_blocks=n_blocks)
    assert sorted(run.finish().active.rows.tolist()) == list(range(110))
