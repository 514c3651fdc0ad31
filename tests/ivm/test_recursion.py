"""The recursion of a row block against dense linear algebra."""

import numpy as np
import pytest

from sparsegp.ivm.block import RowBlock
from sparsegp.math.products import TILE
from tests.ivm.problems import LocalBlocks, Problem, gather, kinds, on_rings, rings


def assert_dense(found, kernels, x, site, Z):
    """Compare means and variances at rows Z with K_ZI (I + K_II)^-1 and the dense formulas."""
    mean, variance = found
    for c, kernel in enumerate(kernels):
        across = kernel(Z, x)
        weights = np.linalg.solve(np.eye(len(x)) + kernel(x, x), across.T).T
        classes = slice(None) if len(kernels) == 1 else slice(c, c + 1)
        np.testing.assert_allclose(mean[:, classes], weights @ site[:, classes], atol=1e-9)
        expected = kernel.diag(Z) - np.einsum("ij,ij->i", weights, across)
        np.testing.assert_allclose(variance[:, c], expected, atol=1e-9)


@kinds
@pytest.mark.parametrize(("lookahead", "panel"), [(8, 1), (1, 6)])
def test_held_out_rows_follow(texts, lookahead, panel):
    X, target = rings(600)
    labels = np.where(np.arange(200) % 9 == 0, -1, target[400:])
    run = Problem(X[:400], target[:400], texts, 24, lookahead, panel)
    alone = run.finish()
    held_out = RowBlock(run.settings, X[400:], labels, 2 * TILE, held_out=True)
    overlapping = RowBlock(run.settings, X[400:], labels, 0, held_out=True)
    beside = run.begin()
    beside.blocks = LocalBlocks([*beside.blocks.blocks, held_out, overlapping])
    run.finish(beside)
    active = beside.active
    assert active.rows.tolist() == alone.active.rows.tolist()

    mean, variance = held_out.array("mean"), held_out.array("variance")
    assert_dense((mean, variance), run.kernels, active.x, active.sites(3)[0], X[400:])
    np.testing.assert_array_equal(mean, overlapping.array("mean"))

    metrics, known = held_out.marginal_metrics(), labels >= 0
    assert (metrics.rows, metrics.labelled) == (200, int(known.sum()))
    assert metrics.loss == int((mean.argmax(axis=1) != labels).sum())
    log_z = run.settings.likelihood.log_z(mean[known], variance[known], labels[known])
    assert metrics.log_z == pytest.approx(log_z.sum(), rel=1e-12)


def test_marginal_metrics_of_training_rows_count_errors():
    run = on_rings(300, ["rbf(0.7)"], 60)
    selection = run.finish()
    metrics = selection.blocks.blocks[0].marginal_metrics()
    wrong = gather(selection, "mean").argmax(axis=1) != run.target
    assert (metrics.rows, metrics.loss, metrics.log_z) == (300, int(wrong.sum()), 0.0)
    assert metrics.loss < 30


def test_blocks_start_at_whole_tiles():
    run = on_rings(10, ["rbf(1.0)"], 2)
    with pytest.raises(ValueError, match="multiple of 256, got 100"):
        RowBlock(run.settings, run.X, run.target, 100)
