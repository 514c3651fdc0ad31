"""The data sets that need no file."""

import numpy as np
import pytest

from sparsegp.data import CATALOG, open_dataset, toy


def test_members_open():
    assert set(CATALOG) == {"digits", "iris", "toy", "wine"}
    for name in CATALOG:
        first, second = open_dataset(name), open_dataset(name)
        shapes = [table and table.X.shape for table in (first.train, first.test)]
        assert name != "toy" or shapes == [(1000, 10), (2385, 10)]
        assert (first.test is None) == (name in {"iris", "wine"})
        np.testing.assert_array_equal(first.train.X.compute(), second.train.X.compute())
        np.testing.assert_array_equal(first.train.y, second.train.y)
        if first.test is not None and second.test is not None:
            np.testing.assert_array_equal(first.test.y, second.test.y)


def test_digits_split_is_stratified():
    dataset = open_dataset("digits")
    train, test = np.bincount(dataset.train.y), np.bincount(dataset.test.y)
    assert (train.sum(), test.sum()) == (1437, 360)
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


def test_toy_with_classes_apart():
    X, y = toy(30000, 1)
    apart, labels = toy(30000, 1, apart=True)
    np.testing.assert_array_equal(y, labels)
    far = (y == 3) & ((X[:, :2] ** 2).sum(axis=1) > 0.1)
    assert far.mean() == pytest.approx(np.exp(-5.0) / 3, rel=0.3)  # r^2 / 0.02 is exponential
    np.testing.assert_array_equal(apart[~far], X[~far])
    assert (apart[y == 3, :2] ** 2).sum(axis=1).max() <= 0.1


def test_toy_depends_on_the_seed_only():
    np.testing.assert_array_equal(toy(50, 3)[0], toy(50, 3)[0])
    assert not np.array_equal(toy(50, 3)[0], toy(50, 4)[0])
