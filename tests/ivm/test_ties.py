"""Rows that tie: the smaller row first, wherever it is."""

import numpy as np
import pytest

from sparsegp.kernels import parse

orders = pytest.mark.parametrize("lookahead", [1, 4, 32])


@orders
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_all_equal_are_taken_in_order(problem, lookahead, n_blocks, dtype):
    n = 3 * 256
    X = np.full((n, 4), 0.3, dtype)
    target = (np.arange(n) // 2 % 2).astype(np.int64)  # 0 0 1 1 0 0 1 1 ...
    run = problem(X, target, [parse("rbf(1.0)")], 12, lookahead, n_blocks=n_blocks)
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
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_copies_in_several_blocks_the_first_is_taken(problem, rings, lookahead, n_blocks, dtype):
    X, target = rings(256)
    copies, labels = np.tile(X, (3, 1)).astype(dtype), np.tile(target, 3)
    run = problem(copies, labels, [parse("2*rbf(1.0)")], 50, lookahead, n_blocks=n_blocks)
    rows = run.finish().active.rows
    assert len(set(rows.tolist())) == 50
    assert is_first_copy(rows, np.tile(np.arange(256), 3))
    one_by_one = problem(copies, labels, [parse("2*rbf(1.0)")], 50, 1).finish().active.rows
    assert rows.tolist() == one_by_one.tolist()


@orders
def test_of_copies_anywhere_the_first_is_taken(problem, rings, lookahead):
    X, target = rings(80)
    original = np.random.default_rng(3).integers(80, size=700)
    run = problem(X[original], target[original], [parse("2*rbf(1.0)")], 60, lookahead)
    rows = run.finish().active.rows
    assert is_first_copy(rows, original)


@orders
def test_constant_columns_change_nothing(problem, rings, lookahead):
    X, target = rings(300)
    wide = np.hstack([X, np.zeros((300, 2))])
    kernels = [parse("2*rbf(1.0)")]
    plain = problem(X, target, kernels, 40, lookahead).finish().active.rows
    other = problem(wide, target, kernels, 40, lookahead).finish().active.rows
    assert other.tolist() == plain.tolist()


def test_panels_of_copies_take_different_rows_first(problem, rings):
    X, target = rings(40)
    run = problem(np.tile(X, (10, 1)), np.tile(target, 10), [parse("2*rbf(0.5)")], 40, panel=8)
    rows = run.finish().active.rows
    assert len(set(rows.tolist())) == 40
    for panel in rows.reshape(5, 8):
        assert len(set((panel % 40).tolist())) >= 4


@pytest.mark.parametrize(("lookahead", "panel"), [(1, 1), (8, 1), (1, 8)])
@pytest.mark.parametrize("n_blocks", [1, 3])
def test_all_rows_can_be_included(problem, rings, lookahead, panel, n_blocks):
    X, target = rings(53)
    X, target = np.tile(X, (10, 1)), np.tile(target, 10)
    run = problem(X, target, [parse("rbf(1.0)")], 530, lookahead, panel, n_blocks=n_blocks)
    rows = run.finish().active.rows
    assert sorted(rows.tolist()) == list(range(530))
