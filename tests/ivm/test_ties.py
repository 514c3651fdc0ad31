"""Rows that tie: the smaller row first, wherever it is."""

import numpy as np
import pytest

from tests.ivm.problems import Problem, on_rings, rings

orders = pytest.mark.parametrize("lookahead", [1, 32])


@orders
@pytest.mark.parametrize(("n_blocks", "dtype"), [(1, np.float32), (3, np.float64)])
def test_rows_that_are_all_equal_are_taken_in_order(lookahead, n_blocks, dtype):
    X = np.full((3 * 256, 4), 0.3, dtype)
    target = np.arange(len(X)) // 2 % 2  # 0 0 1 1 0 0 1 1 ...
    rows = Problem(X, target, ["rbf(1.0)"], 12, lookahead, n_blocks=n_blocks).finish().active.rows
    assert rows[:2].tolist() == [0, 2]  # the first row of the class that is now less likely
    for k in (0, 1):
        mine = rows[target[rows] == k]
        assert mine.tolist() == np.flatnonzero(target == k)[: len(mine)].tolist()


@orders
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_copies_the_first_is_taken(lookahead, dtype):
    """Anywhere, or with float32, whose rounding shows, at the same places of three tiles."""
    original = np.random.default_rng(3).integers(80, size=600)
    original = np.tile(np.arange(256), 3) if dtype == np.float32 else original
    X, target = (rows[original] for rows in rings(original.max() + 1))
    run = Problem(X.astype(dtype), target, ["2*rbf(1.0)"], 40, lookahead, n_blocks=3)
    taken = np.zeros(len(X), bool)
    for row in run.finish().active.rows:
        assert taken[:row][original[:row] == original[row]].all()
        taken[row] = True


def test_constant_columns_change_nothing():
    run = on_rings(300, ["2*rbf(1.0)"], 30)
    plain = run.finish().active.rows
    run.X = np.hstack([run.X, np.zeros((300, 2))])
    assert run.finish().active.rows.tolist() == plain.tolist()


def test_panels_of_copies_take_different_rows_first():
    X, target = rings(40)
    run = Problem(np.tile(X, (10, 1)), np.tile(target, 10), ["2*rbf(0.5)"], 40, panel=8)
    rows = run.finish().active.rows
    assert len(set(rows.tolist())) == 40
    for panel in rows.reshape(5, 8):
        assert len(set((panel % 40).tolist())) >= 4


@pytest.mark.parametrize(("lookahead", "panel", "n_blocks"), [(1, 1, 1), (8, 1, 2), (1, 8, 2)])
def test_all_rows_can_be_included(lookahead, panel, n_blocks):
    X, target = (np.concatenate([rows] * 10) for rows in rings(29))
    run = Problem(X, target, ["rbf(1.0)"], 290, lookahead, panel, n_blocks=n_blocks)
    assert sorted(run.finish().active.rows.tolist()) == list(range(290))
