"""The recursion of a row block against dense linear algebra."""

import numpy as np
import pytest

from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.rows import TILE
from sparsegp.kernels import parse

SHARED = ["2*rbf(1.5) + 0.5"]
PER_CLASS = ["rbf(1.5)", "3*matern32(2.0)", "0.5*linear + 0.1"]


def dense(kernel, X, Z, rows):
    """K_ZI (I + K_II)^-1 as a function's rows, and the same times K_IZ."""
    within, across = kernel(X[rows], X[rows]), kernel(Z, X[rows])
    weights = np.linalg.solve(np.eye(len(rows)) + within, across.T).T
    return weights, weights @ across.T


@pytest.mark.parametrize("texts", [SHARED, PER_CLASS], ids=["shared", "per class"])
@pytest.mark.parametrize(
    ("lookahead", "panel"), [(1, 1), (8, 1), (32, 1), (1, 7)], ids=["1", "8", "32", "panel"]
)
def test_stub_mean_and_variance_are_those_of_the_dense_formula(
    problem, gather, rings, texts, lookahead, panel
):
    X, target = rings(400)
    kernels = [parse(text) for text in texts]
    run = problem(X, target, kernels, 45, lookahead, panel)
    selection = run.finish()
    rows, site = selection.active.rows, selection.active.site
    assert len(set(rows.tolist())) == 45
    mean, variance = gather(selection, "mean"), gather(selection, "variance")
    for c, kernel in enumerate(kernels):
        weights, product = dense(kernel, X, X, rows)
        stub = gather(selection, "stub", c)
        np.testing.assert_allclose(stub.T @ stub, product, atol=1e-9)
        np.testing.assert_allclose(variance[:, c], kernel.diag(X) - np.diag(product), atol=1e-9)
        classes = slice(None) if len(kernels) == 1 else slice(c, c + 1)
        np.testing.assert_allclose(mean[:, classes], weights @ site[:, classes], atol=1e-9)


@pytest.mark.parametrize("texts", [SHARED, PER_CLASS], ids=["shared", "per class"])
def test_the_factor_is_the_cholesky_factor_of_the_active_rows(problem, rings, texts):
    X, target = rings(300)
    kernels = [parse(text) for text in texts]
    active = problem(X, target, kernels, 30, lookahead=8).finish().active
    for c, kernel in enumerate(kernels):
        expected = np.linalg.cholesky(np.eye(30) + kernel(active.x, active.x))
        factor = np.zeros((30, 30))
        for batch in active.batches:
            for j in range(batch.count):
                row = batch.start + j
                factor[row, : row + 1] = batch.factor[c, j, : row + 1]
        np.testing.assert_allclose(factor, expected, atol=1e-10)


def test_active_rows_keep_their_inputs_and_labels(problem, rings):
    X, target = rings(300)
    active = problem(X, target, [parse("rbf(1.0)")], 20).finish().active
    np.testing.assert_array_equal(active.x, X[active.rows])
    np.testing.assert_array_equal(active.target, target[active.rows])


@pytest.mark.parametrize("texts", [SHARED, PER_CLASS], ids=["shared", "per class"])
@pytest.mark.parametrize(("lookahead", "panel"), [(8, 1), (1, 6)])
def test_held_out_rows_follow(problem, local_blocks, rings, texts, lookahead, panel):
    X, target = rings(600)
    kernels = [parse(text) for text in texts]
    labels = np.where(np.arange(200) % 9 == 0, -1, target[400:])
    run = problem(X[:400], target[:400], kernels, 40, lookahead, panel)
    alone = run.finish()
    held_out = RowBlock(run.settings, X[400:], labels, 2 * TILE, held_out=True)
    overlapping = RowBlock(run.settings, X[400:], labels, 0, held_out=True)
    beside = run.begin()
    beside.blocks = local_blocks([*beside.blocks.blocks, held_out, overlapping])
    run.finish(beside)
    assert beside.active.rows.tolist() == alone.active.rows.tolist()

    rows, site = beside.active.rows, beside.active.site
    mean, variance = held_out.array("mean"), held_out.array("variance")
    for c, kernel in enumerate(kernels):
        weights, product = dense(kernel, X, X[400:], rows)
        classes = slice(None) if len(kernels) == 1 else slice(c, c + 1)
        np.testing.assert_allclose(mean[:, classes], weights @ site[:, classes], atol=1e-9)
        expected = kernel.diag(X[400:]) - np.diag(product)
        np.testing.assert_allclose(variance[:, c], expected, atol=1e-9)
    assert held_out.state_digest() == overlapping.state_digest()

    metrics, known = held_out.marginal_metrics(), labels >= 0
    assert (metrics.rows, metrics.labelled) == (200, int(known.sum()))
    assert metrics.loss == int((mean.argmax(axis=1) != labels).sum())
    log_z = run.settings.likelihood.log_z(mean[known], variance[known], labels[known])
    assert metrics.log_z == pytest.approx(log_z.sum(), rel=1e-12)


def test_standing_of_training_rows_counts_errors(problem, gather, rings):
    X, target = rings(300)
    selection = problem(X, target, [parse("rbf(0.7)")], 60).finish()
    metrics = selection.blocks.blocks[0].marginal_metrics()
    wrong = gather(selection, "mean").argmax(axis=1) != target
    assert (metrics.rows, metrics.loss, metrics.log_z) == (300, int(wrong.sum()), 0.0)
    assert metrics.loss < 30


def test_blocks_start_at_whole_tiles(problem, rings):
    X, target = rings(10)
    run = problem(X, target, [parse("rbf(1.0)")], 2)
    with pytest.raises(ValueError, match="multiple of 256, got 100"):
        RowBlock(run.settings, X, target, 100)
