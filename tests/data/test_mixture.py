"""Rows with known class probabilities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sparsegp.data import open_dataset
from sparsegp.data.mixture import CHUNK_ROWS, N_CLASSES, NOISE, SPREAD, Mixture


@pytest.mark.parametrize("p", [4, 7, 30])
def test_probabilities_are_those_of_the_densities_of_rows(p):
    """Of all p columns, with their whole covariance, where the method looks at four numbers."""
    mixture = Mixture(p, seed=3)
    X = mixture.draw("test", 0)[0][:40].astype(float)
    A = mixture._basis()
    covariance = SPREAD**2 * A @ A.T + NOISE**2 * np.eye(p)
    means = mixture._means() @ A.T
    densities = np.array([multivariate_normal(mean, covariance).pdf(X) for mean in means])
    of_class = np.array([densities[c::N_CLASSES].sum(axis=0) for c in range(N_CLASSES)])
    expected = (of_class / of_class.sum(axis=0)).T
    assert np.exp(mixture.log_probabilities(X)) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_labels_follow_the_probabilities():
    """Their frequencies among rows of alike probability, within four standard errors."""
    mixture = Mixture(20)
    X, y = mixture.draw("train", 1)
    p = np.exp(mixture.log_probabilities(X))
    own = p[np.arange(len(y)), y]
    log_likelihood, entropy = np.log(own), -(p * np.log(p)).sum(axis=1)
    error = (log_likelihood + entropy).std() / np.sqrt(len(y))
    assert abs((log_likelihood + entropy).mean()) < 4.0 * error
    wrong = (p.argmax(axis=1) != y) - (1.0 - p.max(axis=1))
    assert abs(wrong.mean()) < 4.0 * wrong.std() / np.sqrt(len(y))
    assert X.var(axis=0).mean() == pytest.approx(SPREAD**2 + NOISE**2 + 1.0, rel=0.5)


def test_a_store_of_more_rows_begins_with_those_of_a_smaller_one(tmp_path):
    sizes = {"small": CHUNK_ROWS - 5, "large": CHUNK_ROWS + 77}
    tables = {}
    for name, n in sizes.items():
        Mixture(6, seed=1).write(tmp_path / f"{name}.zarr", n, 10)
        dataset = open_dataset(str(tmp_path / f"{name}.zarr"))
        tables[name] = dataset.train.X.compute(), dataset.train.y, dataset.test.X.compute()
        assert tables[name][0].shape == (n, 6)
        assert dataset.train.X.dtype == np.float32
    n = sizes["small"]
    assert np.array_equal(tables["small"][0], tables["large"][0][:n])
    assert np.array_equal(tables["small"][1], tables["large"][1][:n])
    assert np.array_equal(tables["small"][2], tables["large"][2])
    X, y = Mixture(6, seed=1).draw("train", 1)
    assert np.array_equal(tables["large"][0][CHUNK_ROWS:], X[:77])
    assert np.array_equal(tables["large"][1][CHUNK_ROWS:], y[:77])
    assert not np.array_equal(Mixture(6, seed=2).draw("train", 1)[0], X)
