"""Small data, and a fitted estimator that no test changes."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sparsegp import SparseGPClassifier


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    order = order[order != 142]  # a copy of row 101, which an estimator would merge with it
    return X[order], y[order]


@pytest.fixture(scope="session")
def words(iris):
    return np.array(["setosa", "versicolor", "virginica"])[iris[1]]


@pytest.fixture(scope="session")
def fitted(iris, words):
    return SparseGPClassifier(n_active=20, posterior="all").fit(iris[0], words)
