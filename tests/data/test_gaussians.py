"""The nine Gaussians of Cseke & Csato."""

import numpy as np
import pytest

from sparsegp.data import nine_gaussians
from sparsegp.types import Doubles


@pytest.mark.parametrize("seed", [0, 3])
def test_rows_are_white_and_the_classes_three_clusters_each(seed: int) -> None:
    drawn = nine_gaussians(500, 300, seed)
    assert drawn.test is not None
    train, test = (np.asarray(table.X[:]) for table in (drawn.train, drawn.test))
    assert (train.shape, test.shape) == ((500, 2), (300, 2))
    np.testing.assert_allclose(train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cov(train.T), np.eye(2), atol=1e-12)
    counts = np.bincount(drawn.train.y)
    assert len(counts) == 3
    # 3 of 9 Gaussians each: a share of 1/3, four standard deviations of a binomial wide
    assert (np.abs(counts - 500 / 3) < 4 * np.sqrt(500 * 2 / 9)).all()


def test_another_seed_is_another_problem() -> None:
    def rows(seed: int) -> Doubles:
        return np.asarray(nine_gaussians(50, 10, seed).train.X[:])

    np.testing.assert_array_equal(rows(1), rows(1))
    assert (rows(1) != rows(2)).all()
