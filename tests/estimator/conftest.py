"""Small data, and a fitted estimator that no test changes."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sparsegp import SparseGPClassifier
from sparsegp.types import Doubles, Labels


@pytest.fixture(scope="session")
def iris() -> tuple[Doubles, Labels]:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="session")
def words(iris: tuple[Doubles, Labels]) -> Labels:
    return np.array(["setosa", "versicolor", "virginica"])[iris[1]]


@pytest.fixture(scope="session")
def fitted(iris: tuple[Doubles, Labels], words: Labels) -> SparseGPClassifier:
    return SparseGPClassifier(n_active=20, posterior="all").fit(iris[0], words)
