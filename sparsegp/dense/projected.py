"""Sites that act on the projections of latent values on those of a few rows, the basis.

With B the rows of the basis, L L' their prior covariance and phi_i = L^-1 k(B, x_i), the site of
row i acts on phi_i' w, w ~ N(0, I), in place of its latent value (Csato & Opper 2002): of the prior
covariance of the rows all that is used is its part of rank b. All costs n (b R)^2.
"""

import numpy as np

from sparsegp.dense.precisions import NAME, Precisions, of_latent
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.types import Doubles, Integers


def marked(blocks: Doubles, basis: Integers) -> Doubles:
    """Return precisions with the basis marked, (n, R + 1, R), from blocks (n, R, R)."""
    n, n_latent, _ = blocks.shape
    marks = np.zeros((n, 1, n_latent))
    marks[basis] = 1.0
    return np.concatenate([blocks, marks], axis=1)


class Projected(Precisions, name="projected"):
    """Positive semidefinite precisions (n, R, R), and below each ones if the row is in the basis.

    Attributes
    ----------
    basis : Integers (b,)
        Rows, ascending.
    features : Doubles (R, b, n)
        phi of all rows.
    factor : Doubles (R b, R b)
        Of A = I + sum_i phi_i phi_i' (x) P_i, the posterior precision of w.
    """

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision = precision[:, :-1]
        self.basis = np.flatnonzero(precision[:, -1, 0])
        self.lower = [
            lower_cholesky(each[np.ix_(self.basis, self.basis)], "the covariance of the basis")
            for each in covariances
        ]
        self.features = self._features(covariances)
        inner = np.einsum(
            "rbi,irs,sci->rbsc", self.features, self.precision, self.features, optimize=True
        )
        size = n_latent * len(self.basis)
        self.factor = lower_cholesky(np.eye(size) + inner.reshape(size, size), NAME)
        self.log_det = 2.0 * float(np.log(np.diag(self.factor)).sum())

    def _features(self, cross: Doubles) -> Doubles:
        """Return phi, (R, b, m), from covariances (C, n, m) of the rows with others."""
        pairs = zip(self.lower, cross[:, self.basis], strict=True)
        found = np.stack([solve_lower(lower, each) for lower, each in pairs])
        return of_latent(found, self.precision.shape[1])

    def mean(self, natural: Doubles) -> Doubles:
        """Return E[w], (R, b), for sites whose shifts are (n, R)."""
        right = np.einsum("rbi,ir->rb", self.features, natural, optimize=True)
        return self.solve(right.reshape(-1, 1)).reshape(right.shape)

    def coefficients(self, mean: Doubles) -> Doubles:
        """Return K^-1 of a mean of w (R, b) for all rows, (n, R); zero but for the basis."""
        out = np.zeros((len(self.precision), len(mean)))
        for r, each in enumerate(mean):
            lower = self.lower[r % len(self.lower)]
            out[self.basis, r] = solve_lower(lower, each, transposed=True)
        return out

    def solve(self, right: Doubles) -> Doubles:
        """Return A^-1 applied to (R b, q)."""
        return solve_lower(self.factor, solve_lower(self.factor, right), transposed=True)

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""
        return np.asarray(np.einsum("irs,is->ir", self.precision, right))

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R, q): P - P Phi' A^-1 Phi P."""
        weighed = self.precision @ right
        inner = np.einsum("rbi,irq->rbq", self.features, weighed, optimize=True)
        solved = self.solve(inner.reshape(-1, right.shape[-1])).reshape(inner.shape)
        back = np.einsum("rbi,rbq->irq", self.features, solved, optimize=True)
        return np.asarray(weighed - self.precision @ back)

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        n, n_latent = self.precision.shape[:2]
        right = np.zeros((n, n_latent, n))
        right[:, r] = np.eye(n)
        return self.apply(right)[:, r]

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return covariances (m, R, R)."""
        features = self._features(cross)
        n_latent, b, m = features.shape
        halves = []
        for r, each in enumerate(features):
            right = np.zeros((n_latent, b, m))
            right[r] = each
            halves.append(solve_lower(self.factor, right.reshape(-1, m)))
        out = np.asarray(np.einsum("rim,sim->mrs", halves, halves, optimize=True))
        every = np.arange(n_latent)
        out[:, every, every] += (of_latent(prior, n_latent) - np.square(features).sum(axis=1)).T
        return out
