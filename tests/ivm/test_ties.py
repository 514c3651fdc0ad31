"""Rows that tie: the smaller row first, wherever it is."""

import numpy as np
import pytest

from sparsegp.kernels import parse
from tests.ivm.problems import Problem, rings

orders = pytest.mark.parametrize("lookahead", [1, 32])


@orders
@pytest.mark.parametrize(("n_blocks", "dtype"), [(1, np.float32), (3, np.float64)])
def test_rows_that_are_all_equal_are_taken_in_order(lookahead, n_blocks, dtype):
    n = 3 * 256
    X = np.full((n, 4), 0.3, dtype)
    target = (np.arange(n) // 2 % 2).astype(np.int64)  # 0 0 1 1 0 0 1 1 ...
    run = Problem(X, target, [parse("rbf(1.0)")], 12, lookahead, n_blocks=n_blocks)
    rows = run.finish().active.rows
    assert rows[0] == 0
    assert rows[1] == 2  # the first row of the class that is now less likely
    for k in (0, 1):
        mine = rows[target[rows] == k]
        assert mine.tolist() == np.flatnonzero(target == k)[: len(mine)].tolist()


def is_first_copy(rows, original):
    """Whether every row was taken before its later copies."""
    taken = np.zeros(len(original), bool)
    for row in rows:
        earlier = np.flatnonzero(original[:row] == original[row])
        if not taken[earlier].all():
            return False
        taken[row] = True
    return True


@orders
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_copies_the_first_is_taken(lookahead, dtype):
    """Anywhere, or with float32, whose rounding shows, at the same places of three tiles."""
    n = 256 if dtype == np.float32 else 80
    original = np.random.default_rng(3).integers(80, size=600)
    original = np.tile(np.arange(n), 3) if dtype == np.float32 else original
    X, target = rings(n)
    X, target = X[original].astype(dtype), target[original]
    run = Problem(X, target, [parse("2*rbf(1.0)")], 40, lookahead, n_blocks=3)
    assert is_first_copy(run.finish().active.rows, original)


@orders
def test_constant_columns_change_nothing(lookahead):
    X, target = rings(300)
    wide = np.hstack([X, np.zeros((300, 2))])
    kernels = [parse("2*rbf(1.0)")]
    plain = Problem(X, target, kernels, 30, lookahead).finish().active.rows
    other = Problem(wide, target, kernels, 30, lookahead).finish().active.rows
    assert other.tolist() == plain.tolist()


def test_panels_of_copies_take_different_rows_first():
    X, target = rings(40)
    run = Problem(np.tile(X, (10, 1)), np.tile(target, 10), [parse("2*rbf(0.5)")], 40, panel=8)
    rows = run.finish().active.rows
    assert len(set(rows.tolist())) == 40
    for panel in rows.reshape(5, 8):
        assert len(set((panel % 40).tolist())) >= 4


@pytest.mark.parametrize(("lookahead", "panel", "n_blocks"), [(1, 1, 1), (8, 1, 2), (1, 8, 2)])
def test_all_rows_can_be_included(lookahead, panel, n_blocks):
    X, target = rings(29)
    X, target = np.tile(X, (10, 1)), np.tile(target, 10)
    run = Problem(X, target, [parse("rbf(1.0)")], 290, lookahead, panel, n_blocks=n_blocks)
    rows = run.finish().active.rows
    assert sorted(rows.tolist()) == list(range(290))
