"""Rows and bits do not depend on how the rows are dealt to blocks and threads."""

import numpy as np
import pytest

from sparsegp.ivm.criteria import Predictive, Random
from sparsegp.kernels import parse
from sparsegp.runtime.threads import ThreadRuntime

KERNELS = {
    "shared": ["3*rbf(1.5) + 0.1*linear"],
    "per class": ["3*rbf(1.5)", "matern32(1.0) + 0.2", "ard(1, 1, 2, 2, 3, 3, 4, 4, 5, 5)"],
}


@pytest.fixture(scope="module")
def data(rings):
    """Seven tiles, the last one not full."""
    return rings(6 * 256 + 100, seed=1)


def bits(selection, gather, n_kernels):
    names = [("mean", 0), ("variance", 0), *(("stub", c) for c in range(n_kernels))]
    return [gather(selection, name, c).tobytes() for name, c in names]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("texts", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(
    ("lookahead", "panel"), [(1, 1), (16, 1), (1, 8)], ids=["1", "16", "panel"]
)
@pytest.mark.parametrize("criterion", [Predictive(), Random(5)], ids=["predictive", "random"])
def test_the_number_of_blocks_changes_no_bit(
    problem, gather, data, dtype, texts, lookahead, panel, criterion
):
    X, target = data[0].astype(dtype), data[1]
    kernels = [parse(text) for text in texts]
    found = []
    for n_blocks in (1, 2, 7):
        run = problem(X, target, kernels, 30, lookahead, panel, criterion, n_blocks=n_blocks)
        selection = run.finish()
        assert len(selection.blocks.blocks) == n_blocks
        found.append((selection.active.rows.tolist(), bits(selection, gather, len(kernels))))
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert len(set(found[0][0])) == 30


@pytest.mark.parametrize("lazy", [True, False])
def test_threads_change_no_bit(problem, gather, data, lazy):
    X, target = data[0].astype(np.float32), data[1]
    kernels = [parse("3*rbf(1.5)")]
    plain = problem(X, target, kernels, 40).finish()
    with ThreadRuntime(2) as runtime:

        def threads(blocks):
            parts = [{"block": block} for k, block in enumerate(blocks)]
            runtime.build(lambda block: block, parts)
            return runtime

        run = problem(X, target, kernels, 40, n_blocks=5, lazy=lazy, runtime=threads)
        selection = run.finish()
        assert selection.active.rows.tolist() == plain.active.rows.tolist()
        assert bits(selection, gather, 1) == bits(plain, gather, 1)


def test_random_rows_are_the_same_whatever_the_order_of_inclusion(problem, data):
    X, target = data
    kernels = [parse("rbf(1.0)")]
    orders = [(1, 1), (8, 1), (1, 16)]
    found = [
        problem(X, target, kernels, 64, lookahead, panel, Random(2)).finish().active.rows
        for lookahead, panel in orders
    ]
    assert found[0].tolist() == found[1].tolist()
    assert sorted(found[0].tolist()) == sorted(found[2].tolist())
    other = problem(X, target, kernels, 64, 8, 1, Random(3)).finish().active.rows
    assert len(np.intersect1d(other, found[0])) < 15


def test_fingerprints_are_those_of_the_tiles(problem, data):
    X, target = data
    one = problem(X, target, [parse("rbf(1.0)")], 2)
    many = problem(X, target, [parse("rbf(1.0)")], 2, n_blocks=7)
    (whole,) = one.blocks()
    together = whole.fingerprint()
    assert together == [tile for block in many.blocks() for tile in block.fingerprint()]
    X = X.copy()
    X[300, 2] += 1e-9
    changed = problem(X, target, [parse("rbf(1.0)")], 2).blocks()[0].fingerprint()
    assert [k for k in range(7) if changed[k] != together[k]] == [1]
