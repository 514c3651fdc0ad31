"""The active set against Girolami & Rogers (2006), section 5, as printed, and its symmetries."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sparsegp.ivm.reference import select
from sparsegp.kernels import parse
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
    kernels = [parse(text) for text in texts]
    dense = [kernel(X, X) for kernel in kernels] * (1 if len(kernels) > 1 else target.max() + 1)
    reference = select(dense, target, n_active, MultinomialProbit(64))
    rule = SiteRule(MultinomialProbit(n_nodes))
    return X, target, kernels, n_active, rule, reference


@pytest.mark.parametrize(("lookahead", "lazy"), [(1, True), (4, False), (32, True)])
def test_the_active_set_is_that_of_the_paper(case, lookahead, lazy):
    X, target, kernels, n_active, rule, (active, mean, variance) = case
    run = Problem(X, target, kernels, n_active, lookahead, rule=rule, lazy=lazy)
    selection = run.finish()
    assert selection.active.rows.tolist() == active
    assert lookahead < 32 or len(selection.active.included) < n_active // 2  # few rounds
    np.testing.assert_allclose(gather(selection, "mean"), mean, atol=1e-4)
    np.testing.assert_allclose(
        gather(selection, "variance"), variance[:, : len(kernels)], atol=1e-9
    )


@pytest.mark.parametrize("lookahead", [1, 8])
def test_permuting_the_rows_permutes_the_active_set(lookahead):
    X, target = rings(400, seed=6)
    kernels = [parse(text) for text in ("linear", "2*linear + rbf(1.0)", "0.5*linear + 0.1")]
    order = np.random.default_rng(1).permutation(400)
    plain = Problem(X, target, kernels, 30, lookahead).finish().active.rows
    permuted = Problem(X[order], target[order], kernels, 30, lookahead).finish().active.rows
    assert order[permuted].tolist() == plain.tolist()


def test_permuting_the_classes_leaves_the_active_set():
    X, target = digits(500)
    names = np.random.default_rng(2).permutation(10)
    kernels = [parse("3*rbf(2.0)")]
    plain = Problem(X, target, kernels, 50).finish().active
    other = Problem(X, names[target], kernels, 50).finish().active
    assert other.rows.tolist() == plain.rows.tolist()
    np.testing.assert_allclose(other.sites(3)[0][:, names], plain.sites(3)[0], atol=1e-9)


def test_permuting_the_classes_with_their_kernels():
    X, target = rings(400, seed=5)
    kernels = [parse(text) for text in ("rbf(0.6)", "2*rbf(0.9)", "1.5*matern52(1.2)")]
    names = np.array([2, 0, 1])
    moved = [kernels[k] for k in np.argsort(names)]
    plain = Problem(X, target, kernels, 40).finish().active
    other = Problem(X, names[target], moved, 40).finish().active
    assert other.rows.tolist() == plain.rows.tolist()
    np.testing.assert_allclose(other.sites(3)[0][:, names], plain.sites(3)[0], atol=1e-9)
