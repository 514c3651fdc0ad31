"""Three classes from nine Gaussians in the plane (Cseke & Csato 2005, section 5)."""

import numpy as np

from sparsegp.data.table import Dataset, table_from_arrays


def nine_gaussians(n_train: int, n_test: int, seed: int) -> Dataset:
    """Draw the means of nine Gaussians, their labels, and the rows.

    Means are even in [0, 10]^2, covariances I, which the paper does not tell; each class has three
    Gaussians. All rows are whitened by mean and covariance of the training rows.

    Parameters
    ----------
    n_train, n_test : int
        Rows.
    seed : int
        Key of the random stream.
    """
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - heavy

    rng = np.random.default_rng(seed)
    means = rng.uniform(0.0, 10.0, size=(9, 2))
    labels = rng.permutation(np.repeat(np.arange(3), 3))
    which = rng.integers(0, 9, n_train + n_test)
    x = means[which] + rng.normal(size=(len(which), 2))
    away = x - x[:n_train].mean(axis=0)
    root = np.linalg.cholesky(np.cov(x[:n_train].T))
    x = solve_triangular(root, away.T, lower=True).T
    y = labels[which]
    return Dataset(
        table_from_arrays(x[:n_train], y[:n_train], f"nine Gaussians (train, seed {seed})"),
        table_from_arrays(x[n_train:], y[n_train:], f"nine Gaussians (test, seed {seed})"),
    )
