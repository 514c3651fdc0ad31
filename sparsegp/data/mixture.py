"""Classes of which the true probabilities are known, drawn chunk by chunk, of any size."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, logsumexp

from sparsegp.types import Doubles, Floats, Integers

CHUNK_ROWS = 4096
"""Rows that are drawn at a time; they depend on seed, part and the number of their chunk."""

PARTS = {"train": 0, "test": 1}
N_FACTORS, N_CLASSES, PER_CLASS = 4, 5, 3
SPREAD, NOISE = 0.4, 0.5


@dataclass(frozen=True)
class Mixture:
    r"""Five classes, each of three Gaussians, in a subspace of four dimensions, under noise.

    .. math:: x = A s + e, \quad s \sim N(\mu_c, 0.4^2 I), \quad e \sim N(0, 0.5^2 I)

    with :math:`A^T A = (p / 4) I`, so a column has about the same variance for any p. All that x
    tells of its class is :math:`t = (4 / p) A^T x \sim N(\mu_c, (0.4^2 + 0.5^2 \cdot 4 / p) I)`,
    and the probability of every class given x is a ratio of sums of these densities. The means
    :math:`\mu_c` are N(0, I), and the 15 Gaussians equally probable.

    Parameters
    ----------
    n_columns : int
        p, at least 4.
    seed : int
        Key of the means, of A and of all rows.
    """

    n_columns: int
    seed: int = 0

    def draw(self, part: str, chunk: int) -> tuple[Floats, Integers]:
        """Return `CHUNK_ROWS` rows in float32 (m, p), and their classes (m,).

        Parameters
        ----------
        part : str
            "train" or "test".
        chunk : int
            Number of the chunk, from 0.
        """
        rng = np.random.default_rng([self.seed, 1 + PARTS[part], chunk])
        means, basis = self._means(), self._basis()
        which = rng.integers(0, len(means), CHUNK_ROWS)
        s = means[which] + SPREAD * rng.standard_normal((CHUNK_ROWS, N_FACTORS))
        X = rng.standard_normal((CHUNK_ROWS, self.n_columns), dtype=np.float32)
        X *= np.float32(NOISE)
        X += (s @ basis.T).astype(np.float32)
        return X, which % N_CLASSES

    def log_probabilities(self, X: Floats) -> Doubles:
        """Return the true log probabilities of the classes of rows (m, p), (m, K)."""
        scale = N_FACTORS / self.n_columns
        t = scale * (np.asarray(X, dtype=np.float64) @ self._basis())
        away = ((t[:, np.newaxis] - self._means()) ** 2).sum(axis=2)
        logs = -0.5 * away / (SPREAD**2 + scale * NOISE**2)
        of_class = logs.reshape(len(X), PER_CLASS, N_CLASSES)  # component c is of class c mod K
        found: Doubles = log_softmax(logsumexp(of_class, axis=1), axis=1)
        return found

    def chunks(self, part: str, n_rows: int) -> Iterator[tuple[int, Floats, Integers]]:
        """Yield the first rows of a part: number of the first row, rows and classes, by chunks."""
        for first in range(0, n_rows, CHUNK_ROWS):
            X, y = self.draw(part, first // CHUNK_ROWS)
            yield first, X[: n_rows - first], y[: n_rows - first]

    def write(self, path: str | os.PathLike[str], n_train: int, n_test: int) -> None:
        """Write a zarr group of rows and classes, which never are in memory together."""
        import zarr  # noqa: PLC0415 - heavy

        group = zarr.open_group(os.fspath(path), mode="w")
        for part, n_rows in (("train", n_train), ("test", n_test)):
            sizes = {"X": (self.n_columns,), "y": ()}
            arrays = {
                name: group.create_array(
                    f"{name}_{part}",
                    shape=(n_rows, *others),
                    chunks=(min(CHUNK_ROWS, n_rows), *others),
                    dtype="float32" if name == "X" else "int64",
                    compressors=None,  # noise does not get smaller
                )
                for name, others in sizes.items()
            }
            for first, X, y in self.chunks(part, n_rows):
                arrays["X"][first : first + len(X)] = X
                arrays["y"][first : first + len(y)] = y

    def _means(self) -> Doubles:
        """Return the means of the Gaussians in the subspace, (15, 4)."""
        rng = np.random.default_rng([self.seed, 0])
        return rng.standard_normal((N_CLASSES * PER_CLASS, N_FACTORS))

    def _basis(self) -> Doubles:
        """Return A, (p, 4)."""
        rng = np.random.default_rng([self.seed, 0, self.n_columns])
        Q, _ = np.linalg.qr(rng.standard_normal((self.n_columns, N_FACTORS)))
        return np.asarray(Q * np.sqrt(self.n_columns / N_FACTORS))
