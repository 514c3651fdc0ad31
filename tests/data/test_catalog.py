"""The data sets that need no file."""

import numpy as np
import pytest

from sparsegp.data import CATALOG, open_dataset, toy

SHAPES = {
    "digits": [(1437, 64), (360, 64)],
    "iris": [(150, 4), None],
    "toy": [(1000, 10), (2385, 10)],
    "wine": [(178, 13), None],
}


@pytest.mark.parametrize("name", CATALOG)
def test_members_open_and_are_always_the_same(name):
    first, second = open_dataset(name), open_dataset(name)
    assert [table and table.X.shape for table in (first.train, first.test)] == SHAPES[name]
    np.testing.assert_array_equal(first.train.X.compute(), second.train.X.compute())
    np.testing.assert_array_equal(first.train.y, second.train.y)
    if name == "digits":  # stratified
        train, test = np.bincount(first.train.y), np.bincount(first.test.y)
        assert np.all(np.abs(test - 0.2 * (train + test)) < 1)


def test_toy_follows_the_paper():
    X, y = toy(30000, 1)
    squared = (X[:, :2] ** 2).sum(axis=1)
    for label, inner, outer in ((1, 0.1, 0.5), (2, 0.6, 1.0)):
        ring = squared[y == label]
        assert inner < ring.min() < inner + 0.01
        assert outer - 0.01 < ring.max() < outer
        # even by area: r^2 is uniform, and so is the angle
        assert abs(ring.mean() - (inner + outer) / 2) < 0.01
        assert np.abs(X[y == label, :2].mean(axis=0)).max() < 0.03
    np.testing.assert_allclose(X[y == 3, :2].std(axis=0), 0.1, rtol=0.03)
    np.testing.assert_allclose(X[:, 2:].std(axis=0), 1.0, rtol=0.03)
    np.testing.assert_allclose(np.bincount(y)[1:] / len(y), 1 / 3, atol=0.01)
    apart, labels = toy(30000, 1, apart=True)
    np.testing.assert_array_equal(y, labels)
    far = (y == 3) & (squared > 0.1)
    assert far.mean() == pytest.approx(np.exp(-5.0) / 3, rel=0.3)  # r^2 / 0.02 is exponential
    np.testing.assert_array_equal(apart[~far], X[~far])
    assert (apart[y == 3, :2] ** 2).sum(axis=1).max() <= 0.1
    assert not np.array_equal(toy(50, 3)[0], toy(50, 4)[0])
