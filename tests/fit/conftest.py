"""Small data whose right kernel is known to be rough, for tunings of a second."""

import numpy as np
import pytest

Arrays = tuple[np.ndarray, np.ndarray]


def waves(n: int, seed: int) -> Arrays:
    """Three classes in diagonal stripes: a linear boundary tells next to nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    y = np.floor(X.sum(axis=1) + 0.1 * rng.standard_normal(n)).astype(int) % 3
    return X, y


@pytest.fixture(scope="session")
def data() -> Arrays:
    return waves(250, 0)
