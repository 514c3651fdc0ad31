"""Generated data of any size, drawn chunk by chunk, whose class probabilities are known."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import zarr
from scipy.special import log_softmax, logsumexp

from sparsegp.types import Doubles, Floats, Integers

CHUNK_ROWS = 4096
"""Number of rows drawn at a time; they depend on seed, part and the number of their chunk."""

PARTS = ("train", "test")
N_FACTORS, N_CLASSES, PER_CLASS = 4, 5, 3
SPREAD, NOISE = 0.4, 0.5


@dataclass(frozen=True)
class Mixture:
    r"""Five classes of three Gaussians each, in a subspace of four dimensions, with noise.

    .. math:: x = A s + e, \quad s \sim N(\mu_c, 0.4^2 I), \quad e \sim N(0, 0.5^2 I)

    with :math:`A^T A = (p / 4) I`, so a column has about the same variance for any p. A sufficient
    statistic is :math:`t = (4 / p) A^T x \sim N(\mu_c, (0.4^2 + 0.5^2 \cdot 4 / p) I)`, and the
    probability of every class given x is a ratio of sums of these densities. The means
    :math:`\mu_c` are drawn from N(0, I), and the 15 Gaussians are equally probable.
    """

    n_columns: int  # p, at least 4
    seed: int = 0  # of the means, of A and of all rows

    def draw(self, part: str, chunk: int) -> tuple[Floats, Integers]:
        """Return the rows (m, p) of one chunk of a part, in float32, and their classes (m,)."""
        rng = np.random.default_rng([self.seed, 1 + PARTS.index(part), chunk])
        means, basis = self.centres()
        which = rng.integers(0, len(means), CHUNK_ROWS)
        s = means[which] + SPREAD * rng.standard_normal((CHUNK_ROWS, N_FACTORS))
        X = rng.standard_normal((CHUNK_ROWS, self.n_columns), dtype=np.float32)
        X *= np.float32(NOISE)
        X += (s @ basis.T).astype(np.float32)
        return X, which % N_CLASSES

    def log_probabilities(self, X: Floats) -> Doubles:
        """Return the true log class probabilities (m, K) of rows (m, p)."""
        scale, (means, basis) = N_FACTORS / self.n_columns, self.centres()
        t = scale * (np.asarray(X, dtype=np.float64) @ basis)
        squared = ((t[:, np.newaxis] - means) ** 2).sum(axis=2)
        logs = -0.5 * squared / (SPREAD**2 + scale * NOISE**2)
        of_class = logs.reshape(len(X), PER_CLASS, N_CLASSES)  # component c is of class c mod K
        return np.asarray(log_softmax(logsumexp(of_class, axis=1), axis=1))

    def write(self, path: Path, n_train: int, n_test: int) -> None:
        """Write a zarr group of rows and classes chunk by chunk."""
        group = zarr.open_group(str(path), mode="w")
        for part, n in zip(PARTS, (n_train, n_test), strict=True):
            wide, chunk = (n, self.n_columns), min(CHUNK_ROWS, n)
            plain: Any = {"dtype": "f4", "compressors": None}  # noise cannot be compressed
            X = group.create_array(f"X_{part}", shape=wide, chunks=(chunk, wide[1]), **plain)
            y = group.create_array(f"y_{part}", shape=(n,), chunks=(chunk,), dtype="i8")
            for first in range(0, n, CHUNK_ROWS):
                rows, classes = self.draw(part, first // CHUNK_ROWS)
                X[first : first + CHUNK_ROWS] = rows[: n - first]
                y[first : first + CHUNK_ROWS] = classes[: n - first]

    def centres(self) -> tuple[Doubles, Doubles]:
        """Return the means of the Gaussians in the subspace, (15, 4), and A, (p, 4)."""
        rng = np.random.default_rng([self.seed, 0, self.n_columns])
        Q, _ = np.linalg.qr(rng.standard_normal((self.n_columns, N_FACTORS)))
        means = np.random.default_rng([self.seed, 0]).standard_normal((N_CLASSES * PER_CLASS, 4))
        return means, np.asarray(Q * np.sqrt(self.n_columns / N_FACTORS))


@dataclass
class Truth:
    """The optimal classifier, which knows the mixture of seed `random_state`."""

    random_state: int = 0

    def fit(self, X: Floats, y: Integers) -> Self:
        """Store the number of columns, and learn nothing."""
        del y
        self._mixture = Mixture(X.shape[1], self.random_state)
        return self

    def predict_proba(self, X: Floats) -> Doubles:
        """Return the true class probabilities, (n, K)."""
        return np.exp(self._mixture.log_probabilities(X))
