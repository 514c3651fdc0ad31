"""Gaussian sites of all rows, and the Gaussian posterior that they make of the prior.

Row i has the site exp(-(u_i' P_i u_i) / 2 + ...) with a precision P_i over its R latent values.
With K the block diagonal prior covariance of all latent values, the posterior covariance of the
latent values u* of a new row is

    k** - k*' V k*        V = (K + P^-1)^-1 = P^(1/2) (I + P^(1/2) K P^(1/2))^-1 P^(1/2)

The forms of P differ in what V costs: independent latent values, n^3 each; those of the softmax,
whose rows of P sum to zero, n^3 each too (Rasmussen & Williams 2006, eqs. 3.44-3.47; RW below); any
others, (n R)^3.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.math.linalg import inverse_of_factored, lower_cholesky, solve_lower
from sparsegp.registry import Registry
from sparsegp.types import Doubles

NAME = "the covariance of the rows with their sites"


class Precisions(ABC):
    """Site precisions under a prior, factored.

    Parameters
    ----------
    precision : Doubles
        Of a shape that depends on the form.
    covariances : Doubles (C, n, n)
        Prior covariances: one for all latent values (C = 1), or one each.
    n_latent : int
        R.

    Attributes
    ----------
    precision : Doubles
    log_det : float
        log |I + K P|.
    """

    name: ClassVar[str] = ""
    precision: Doubles
    log_det: float

    def __init_subclass__(cls, name: str) -> None:
        super().__init_subclass__()
        cls.name = name
        FORMS.register(name)(cls)

    @abstractmethod
    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None: ...

    @abstractmethod
    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""

    @abstractmethod
    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R, q)."""

    @abstractmethod
    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""

    @abstractmethod
    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return the posterior covariance of new latent values.

        Parameters
        ----------
        cross : Doubles (C, n, m)
            Prior covariances of the rows with m new ones.
        prior : Doubles (C, m)
            Prior variances of the new ones.

        Returns
        -------
        Doubles (m, R) or (m, R, R)
            Variances where the latent values of a row are independent.
        """


FORMS: Registry[type[Precisions]] = Registry("form of site precisions")


def of_latent(values: Doubles, n_latent: int) -> Doubles:
    """Return values of the C kernels, (C, ...), for each of R latent values, (R, ...)."""
    return np.broadcast_to(values, (n_latent, *values.shape[1:]))


class Independent(Precisions, name="independent"):
    """Precisions (n, C) of independent latent values; with C = 1 all share theirs."""

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision, self.n_latent = precision, n_latent
        self.root = _root(precision).T  # (C, n)
        self.factors = [
            _factor(root[:, np.newaxis] * covariance * root)
            for root, covariance in zip(self.root, covariances, strict=True)
        ]
        dets = [2.0 * np.log(np.diag(factor)).sum() for factor in self.factors]
        self.log_det = float(sum(dets)) * n_latent / len(dets)

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""
        return np.asarray(self.precision * right)

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R, q)."""
        out = np.empty_like(right)
        for r in range(self.n_latent):
            c = r % len(self.factors)
            inner = self.halved(c, right[:, r])
            out[:, r] = self.root[c][:, np.newaxis] * solve_lower(
                self.factors[c], inner, transposed=True
            )
        return out

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        c = r % len(self.factors)
        inverse = inverse_of_factored(self.factors[c])
        inverse *= self.root[c]
        inverse *= self.root[c][:, np.newaxis]
        return inverse

    def halved(self, c: int, right: Doubles) -> Doubles:
        """Return L^-1 P^(1/2) R, whose square is R' V R, for one kernel; R (n, q)."""
        return solve_lower(self.factors[c], self.root[c][:, np.newaxis] * right)

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return variances (m, R)."""
        explained = [np.square(self.halved(c, k)).sum(axis=0) for c, k in enumerate(cross)]
        return np.asarray(of_latent(prior - np.array(explained), self.n_latent).T)


class Simplex(Precisions, name="simplex"):
    """Precisions D - D 1 1' D / (1' D 1) with D = diag(d_i), given as d (n, R).

    That of the softmax has d = its probabilities, which sum to one.
    """

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision = precision
        self.explained = np.empty((n_latent, len(precision), len(precision)))
        self.log_det = -float(np.log(precision.sum(axis=1)).sum())
        every = of_latent(covariances, n_latent)
        for r in range(n_latent):  # E_r = (K_r + D_r^-1)^-1 (RW algorithm 3.3)
            one = Independent(precision[:, r : r + 1], every[r : r + 1], 1)
            self.explained[r] = one.block(0)
            self.log_det += one.log_det
        self.factor = _factor(self.explained.sum(axis=0), identity=False)
        # |I + K P| = |I + K D| |sum_r E_r| / |1' D 1|
        self.log_det += 2.0 * float(np.log(np.diag(self.factor)).sum())

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""
        total = self.precision.sum(axis=1, keepdims=True)
        mean = (self.precision * right).sum(axis=1, keepdims=True) / total
        return np.asarray(self.precision * (right - mean))

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R, q): E - E 1 (sum_r E_r)^-1 1' E (RW eq. 3.47)."""
        first = self.explained @ right.swapaxes(0, 1)
        common = solve_lower(self.factor, first.sum(axis=0))
        common = solve_lower(self.factor, common, transposed=True)
        return np.asarray((first - self.explained @ common).swapaxes(0, 1))

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        half = solve_lower(self.factor, self.explained[r])
        return np.asarray(self.explained[r] - half.T @ half)

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return covariances (m, R, R) (RW algorithm 3.4)."""
        n_latent = len(self.explained)
        cross, prior = of_latent(cross, n_latent), of_latent(prior, n_latent)
        b = self.explained @ cross
        c = np.stack([solve_lower(self.factor, some) for some in b])
        out = np.asarray(np.einsum("rim,sim->mrs", c, c))
        every = np.arange(n_latent)
        out[:, every, every] += prior.T - np.einsum("rim,rim->mr", cross, b)
        return out


class Full(Precisions, name="full"):
    """Any positive semidefinite precisions, (n, R, R)."""

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision, n = precision, len(precision)
        values, vectors = np.linalg.eigh(precision)
        spread = np.abs(values).max(axis=1, keepdims=True)
        if (values < -1e-9 * np.maximum(spread, 1.0)).any():
            raise NumericalError(
                f"site precisions must be positive semidefinite, found an eigenvalue "
                f"{values.min():g}"
            )
        rooted = vectors * np.sqrt(np.maximum(values, 0.0))[:, np.newaxis]  # zero within rounding
        self.root = rooted @ vectors.transpose(0, 2, 1)
        every = of_latent(covariances, n_latent)
        inner = np.einsum("irs,sij,jst->irjt", self.root, every, self.root, optimize=True)
        self.factor = _factor(inner.reshape(n * n_latent, n * n_latent))
        self.log_det = 2.0 * float(np.log(np.diag(self.factor)).sum())

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""
        return np.asarray(np.einsum("irs,is->ir", self.precision, right))

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R, q)."""
        half = self.halved(right)
        back = solve_lower(self.factor, half, transposed=True).reshape(right.shape)
        return np.asarray(np.einsum("irs,isq->irq", self.root, back))

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        half = self._halved_one(r, np.eye(len(self.root)))
        return np.asarray(half.T @ half)

    def _halved_one(self, r: int, right: Doubles) -> Doubles:
        """Return `halved` of values (n, q) in latent value r and zeros elsewhere."""
        every = np.zeros((len(right), self.root.shape[-1], right.shape[-1]))
        every[:, r] = right
        return self.halved(every)

    def halved(self, right: Doubles) -> Doubles:
        """Return L^-1 P^(1/2) R, (n R, q), whose square is R' V R, for R (n, R, q)."""
        inner = np.einsum("irs,isq->irq", self.root, right)
        return solve_lower(self.factor, inner.reshape(-1, right.shape[-1]))

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return covariances (m, R, R)."""
        n_latent = self.root.shape[-1]
        cross, prior = of_latent(cross, n_latent), of_latent(prior, n_latent)
        halves = [self._halved_one(r, k) for r, k in enumerate(cross)]
        out = np.asarray(-np.einsum("rim,sim->mrs", halves, halves, optimize=True))
        every = np.arange(n_latent)
        out[:, every, every] += prior.T
        return out


def _root(precision: Doubles) -> Doubles:
    if (precision < 0.0).any():
        raise NumericalError(
            f"site precisions must not be negative, found {precision.min():g}; use a log-concave "
            "likelihood"
        )
    return np.sqrt(precision)


def _factor(matrix: Doubles, identity: bool = True) -> Doubles:
    """Return the lower Cholesky factor of I + a matrix, or of the matrix."""
    if identity:
        matrix = matrix.copy()
        matrix[np.diag_indices_from(matrix)] += 1.0
    return lower_cholesky(matrix, NAME)
