"""Gaussian sites of all rows, and the Gaussian posterior given by prior and sites.

Row i has the site exp(h_i' u_i - u_i' P_i u_i / 2) with a precision P_i over its R latent values.
With K the block diagonal prior covariance of all latent values, the posterior covariance of the
latent values u* of a new row is

    k** - k*' V k*        V = (K + P^-1)^-1 = P^(1/2) (I + P^(1/2) K P^(1/2))^-1 P^(1/2)

The cost of V depends on the form of P: n^3 per latent value if latent values are independent; the
same for the softmax, where the rows of P_i sum to zero (Rasmussen & Williams 2006, eqs. 3.44-3.47;
RW below); (n R)^3 in general.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.math.linalg import inverse_of_factored, lower_cholesky, solve_factored, solve_lower
from sparsegp.registry import Registry
from sparsegp.texts import Member
from sparsegp.types import Doubles

NAME = "the covariance of the rows with their sites"


FORMS: Registry[type["Precisions"]] = Registry("form of site precisions")


class Precisions(Member, ABC):
    """Site precisions, factored for a given prior.

    Parameters
    ----------
    precision : Doubles
        Precisions; their shape depends on the form.
    covariances : Doubles (C, n, n)
        Prior covariances: one for all latent values (C = 1), or one each.
    n_latent : int
        R.
    """

    family: ClassVar[Registry[Any]] = FORMS
    precision: Doubles
    log_det: float  # log |I + K P|

    @abstractmethod
    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None: ...

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R); the default assumes precisions (n, R, R)."""
        return np.asarray(np.einsum("irs,is->ir", self.precision, right))

    @abstractmethod
    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return the posterior covariance of new latent values.

        Parameters
        ----------
        cross : Doubles (C, n, m)
            Prior covariances of the training rows with m new ones.
        prior : Doubles (C, m)
            Prior variances of the new rows.

        Returns
        -------
        Doubles (m, R) or (m, R, R)
            Variances if the latent values of a row are independent, otherwise covariances.
        """

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R), if the form supports it."""
        raise NotImplementedError

    def block(self, r: int) -> Doubles:
        """Return the diagonal block of V for latent value r, (n, n), if the form supports it."""
        raise NotImplementedError


def broadcast_kernels(values: Doubles, n_latent: int) -> Doubles:
    """Broadcast values of C kernels, (C, ...), to R latent values, (R, ...)."""
    return np.broadcast_to(values, (n_latent, *values.shape[1:]))


def times(matrices: Doubles, right: Doubles) -> Doubles:
    """Multiply matrices (C, n, n) by the columns of (n, R): each by its own, or one by all."""
    if len(matrices) == 1:
        return np.asarray(matrices[0] @ right)
    return np.stack([some @ column for some, column in zip(matrices, right.T, strict=True)], axis=1)


def with_prior(covariances: Doubles, prior: Doubles) -> Doubles:
    """Add the prior variances (R, m) to the diagonals of covariances (m, R, R), in place."""
    every = np.arange(len(prior))
    covariances[:, every, every] += prior.T
    return covariances


class Independent(Precisions, name="independent"):
    """Precisions (n, C) of independent latent values; with C = 1 they are shared."""

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        if (precision < 0.0).any():
            raise NumericalError(
                f"site precisions must not be negative, found {precision.min():g}; use a "
                "log-concave likelihood"
            )
        self.precision, self.n_latent = precision, n_latent
        self.root = np.sqrt(precision).T  # (C, n)
        self.factors = [
            _factor(root[:, np.newaxis] * covariance * root)
            for root, covariance in zip(self.root, covariances, strict=True)
        ]
        self.log_det = float(sum(map(_log_det, self.factors))) * n_latent / len(self.factors)

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""
        return np.asarray(self.precision * right)

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R)."""
        out = np.empty_like(right)
        for r in range(self.n_latent):
            factor, root = self.factors[r % len(self.factors)], self.root[r % len(self.factors)]
            out[:, r] = root * solve_factored(factor, root * right[:, r])
        return out

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        c = r % len(self.factors)
        inverse = inverse_of_factored(self.factors[c])
        inverse *= self.root[c]
        inverse *= self.root[c][:, np.newaxis]
        return inverse

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return variances (m, R)."""
        triples = zip(self.factors, self.root[..., np.newaxis], cross, strict=True)
        halves = [solve_lower(factor, root * some) for factor, root, some in triples]
        explained = np.array([np.square(half).sum(axis=0) for half in halves])
        return np.asarray(broadcast_kernels(prior - explained, self.n_latent).T)


class Simplex(Precisions, name="simplex"):
    """Precisions D - D 1 1' D / (1' D 1) with D = diag(d_i), given as d (n, R).

    For the softmax d are the class probabilities, which sum to one.
    """

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision = precision
        self.explained = np.empty((n_latent, len(precision), len(precision)))
        self.log_det = -float(np.log(precision.sum(axis=1)).sum())
        every = broadcast_kernels(covariances, n_latent)
        for r in range(n_latent):  # E_r = (K_r + D_r^-1)^-1 (RW algorithm 3.3)
            one = Independent(precision[:, r : r + 1], every[r : r + 1], 1)
            self.explained[r] = one.block(0)
            self.log_det += one.log_det
        self.factor = lower_cholesky(self.explained.sum(axis=0), NAME)
        self.log_det += _log_det(self.factor)  # |I + K P| = |I + K D| |sum_r E_r| / |1' D 1|

    def weigh(self, right: Doubles) -> Doubles:
        """Return P applied to (n, R)."""
        total = self.precision.sum(axis=1, keepdims=True)
        mean = (self.precision * right).sum(axis=1, keepdims=True) / total
        return np.asarray(self.precision * (right - mean))

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R): E - E 1 (sum_r E_r)^-1 1' E (RW eq. 3.47)."""
        first = self.explained @ right.T[..., np.newaxis]
        common = solve_factored(self.factor, first.sum(axis=0))
        return np.asarray((first - self.explained @ common)[..., 0].T)

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        half = solve_lower(self.factor, self.explained[r])
        return np.asarray(self.explained[r] - half.T @ half)

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return covariances (m, R, R) (RW algorithm 3.4)."""
        cross, prior = (broadcast_kernels(some, len(self.explained)) for some in (cross, prior))
        b = self.explained @ cross
        c = np.stack([solve_lower(self.factor, some) for some in b])
        common = np.asarray(np.einsum("rim,sim->mrs", c, c))
        return with_prior(common, prior - np.einsum("rim,rim->rm", cross, b))


class Full(Precisions, name="full"):
    """General positive semidefinite precisions, (n, R, R)."""

    def __init__(self, precision: Doubles, covariances: Doubles, n_latent: int) -> None:
        self.precision, size = precision, len(precision) * n_latent
        values, vectors = np.linalg.eigh(precision)
        spread = np.abs(values).max(axis=1, keepdims=True)
        if (values < -1e-9 * np.maximum(spread, 1.0)).any():
            raise NumericalError(
                f"site precisions must be positive semidefinite, found an eigenvalue "
                f"{values.min():g}; use a log-concave likelihood"
            )
        rooted = vectors * np.sqrt(np.maximum(values, 0.0))[:, np.newaxis]  # clips rounding errors
        self.root = rooted @ vectors.transpose(0, 2, 1)
        every = broadcast_kernels(covariances, n_latent)
        inner = np.einsum("irs,sij,jst->irjt", self.root, every, self.root, optimize=True)
        self.factor = _factor(inner.reshape(size, size))
        self.log_det = _log_det(self.factor)

    def apply(self, right: Doubles) -> Doubles:
        """Return V applied to (n, R)."""
        inner = np.einsum("irs,is->ir", self.root, right)
        back = solve_factored(self.factor, inner.ravel()).reshape(right.shape)
        return np.asarray(np.einsum("irs,is->ir", self.root, back))

    def block(self, r: int) -> Doubles:
        """Return the block of V that belongs to latent value r, (n, n)."""
        half = self.half_solve(r, np.eye(len(self.root)))
        return np.asarray(half.T @ half)

    def covariance(self, cross: Doubles, prior: Doubles) -> Doubles:
        """Return covariances (m, R, R)."""
        cross, prior = (broadcast_kernels(some, self.root.shape[-1]) for some in (cross, prior))
        halves = [self.half_solve(r, k) for r, k in enumerate(cross)]
        explained = np.einsum("rim,sim->mrs", halves, halves, optimize=True)
        return with_prior(np.asarray(-explained), prior)

    def half_solve(self, r: int, right: Doubles) -> Doubles:
        """Return H = L^-1 P^(1/2) R, (n R, q), with H' H = R' V R.

        Parameters
        ----------
        r : int
        right : Doubles (n, q)
            Part of R for latent value r; the other parts are zero.
        """
        inner = self.root[:, :, r, np.newaxis] * right[:, np.newaxis]
        return solve_lower(self.factor, inner.reshape(-1, right.shape[-1]))


@dataclass(eq=False)
class SitePosterior:
    """The prior times sites exp(h_i' z_i - z_i' P_i z_i / 2) in combinations z_i = B_i' u_i."""

    prior: Doubles  # (C, n, n)
    sites: Doubles  # P, with h as an additional column, (n, d, d + 1)
    basis: Doubles  # B (n, R, d)

    def __post_init__(self) -> None:
        basis, sites = self.basis, self.sites
        across, n_latent = basis.swapaxes(1, 2), basis.shape[1]
        every = broadcast_kernels(self.prior, n_latent)
        self.full = Full(basis @ sites[..., :-1] @ across, self.prior, n_latent)  # precisions in u
        shift = (basis @ sites[..., -1:])[..., 0]
        smoothed = np.einsum("rij,jr->ir", every, shift, optimize=True)
        self.coefficients = shift - self.full.apply(smoothed)  # K^-1 times the mean of u (n, R)
        mean = np.einsum("rij,jr->ir", every, self.coefficients, optimize=True)
        self.mean = (across @ mean[..., np.newaxis])[..., 0]  # of z (n, d)
        square = float(np.sum(sites[..., -1] * self.mean))
        self.log_integral = 0.5 * square - 0.5 * self.full.log_det

    @cached_property
    def covariance(self) -> Doubles:
        """Posterior covariance of z for each row, (n, d, d)."""
        variances = np.diagonal(self.prior, axis1=1, axis2=2)
        inner = self.full.covariance(self.prior, variances)
        return np.asarray(self.basis.swapaxes(1, 2) @ inner @ self.basis)

    def pull_back(self) -> Iterator[tuple[int, Doubles]]:
        """Yield r and (a a' - V) / 2, the gradient of the log integral in the prior covariances."""
        for r, a in enumerate(self.coefficients.T):
            yield r, 0.5 * (np.outer(a, a) - self.full.block(r))


def _factor(matrix: Doubles) -> Doubles:
    """Return the lower Cholesky factor of I + matrix; the matrix is overwritten."""
    matrix[np.diag_indices_from(matrix)] += 1.0
    return lower_cholesky(matrix, NAME)


def _log_det(factor: Doubles) -> float:
    """Return log |L L'|."""
    return 2.0 * float(np.log(np.diag(factor)).sum())
