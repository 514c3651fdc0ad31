"""Published files as they are, where SPARSEGP_DATA names their folder."""

import time

import numpy as np
import pytest

from sparsegp.data import encode, open_dataset, summarise

SHAPES = {
    "isolet": ((6238, 617), (1559, 617), 26),
    "mnist": ((60000, 784), (10000, 784), 10),
    "glass": ((214, 9), None, 6),
    "pima": ((200, 7), (332, 7), 2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_archives(real_data, name):
    dataset = open_dataset(real_data / f"{name}.npz")
    train, test, n_classes = SHAPES[name]
    assert dataset.train.X.shape == train
    assert (dataset.test and dataset.test.X.shape) == test
    assert len(encode(dataset.train.y, name)[0]) == n_classes


def test_isolet_as_published(real_data):
    start = time.perf_counter()
    table = open_dataset(real_data / "raw" / "isolet1+2+3+4.data.gz").train
    assert time.perf_counter() - start < 4
    archive = open_dataset(real_data / "isolet.npz").train
    np.testing.assert_array_equal(table.X.compute().astype(np.float32), archive.X.compute())
    np.testing.assert_array_equal(encode(table.y, "raw")[1], archive.y)
    assert set(table.y.tolist()) == set(range(1, 27))
    unlabelled = open_dataset(real_data / "raw" / "isolet5.data.gz", n_features=617).train
    assert unlabelled.X.shape == (1559, 617)


def test_mnist_as_published(real_data):
    dataset = open_dataset(real_data / "raw" / "train-images-idx3-ubyte.gz")
    archive = open_dataset(real_data / "mnist.npz")
    for table, same in ((dataset.train, archive.train), (dataset.test, archive.test)):
        np.testing.assert_array_equal(table.X.compute(), same.X.compute())
        np.testing.assert_array_equal(table.y, same.y)
    whole = archive.train.X.compute()
    found = summarise(dataset.train.X, "mnist")
    np.testing.assert_allclose(found.mean, whole.mean(axis=0, dtype=float), atol=1e-4)
    assert found.whole
