"""The evidence criterion of the informative vector machine and its gradient (SLH 3.3 and C.2).

One process with active rows I, site precisions Pi and site shifts b, N^U(u | b, pi) in the paper.
With s = Pi^(-1/2) b, which no small precision can spoil,

    I + Pi^(1/2) K_I Pi^(1/2) = L L^T     root = Pi^(1/2) L^-T     M = K_.I root     beta = L^-1 s
    h = M beta     a = diag K - diag M M^T     W = root root^T     v = root beta = (I + Pi K_I)^-1 b

The cavity of an active row follows from c = diag (L L^T)^-1 = 1 - pi a without a difference of
large numbers, for pi h - b = -v:

    a_cavity = a / c        h_cavity = h - a_cavity v

and so does the criterion (eq. 11), where u = L^-T beta and Z is that of the cavity:

    phi = - sum over I and J of log Z + log|L| + |beta|^2 / 2 + sum over I of (log c - u^2 / c) / 2

J are the rows that count besides. They need K_JI, and are summed by the blocks that hold them
(ivm/evidence_rows.py); all that is of the active rows alone is done here, in O(d^3).

The gradient at fixed sites is eq. 14 and eq. 12. With respect to the sites it is

    d phi / db  = (h_tilted - h) - r / pi
    d phi / dpi = (a + h^2 - a_tilted - h_tilted^2) / 2 + h r / pi - diag(G) / pi^2

with r = root M^T rho and G = root M^T E2 M root^T over all rows: the first terms vanish where
expectation propagation has converged on I, the others do not. It is of use where the sites are
known functions of the parameters, as they are for Gaussian noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.ivm.evidence_rows import Representation, RowSums
from sparsegp.kernels import Kernel
from sparsegp.likelihoods.base import Likelihood
from sparsegp.math.levels import LevelSum
from sparsegp.math.linalg import inverse_lower, lower_cholesky
from sparsegp.types import Doubles, Floats

SumRows = Callable[[Representation], list[RowSums]]
"""Asks the blocks, in order of their rows, for `evidence_rows.row_sums`."""


@dataclass(frozen=True)
class Evidence:
    """The criterion phi at some parameters, and its gradient.

    Attributes
    ----------
    phi : float
        -log Q(D), in nats.
    kernel : Doubles (q,)
        By `kernel.parameters()`, the sites held fixed (eq. 14).
    likelihood : Doubles (r,)
        By `likelihood.parameters()`, the sites held fixed (eq. 12).
    sites : Doubles (2, d) or None
        By precisions and shifts of the sites, if that was asked for.
    """

    phi: float
    kernel: Doubles
    likelihood: Doubles
    sites: Doubles | None


@dataclass(frozen=True)
class ActivePart:
    """What the active rows know of themselves under their sites.

    Attributes
    ----------
    representation : Representation
    M : Doubles (d, d)
    log_determinant : float
        log |L|.
    precision, mean, variance, kept, u, v : Doubles (d,)
        pi, h, a, c, u and v.
    """

    representation: Representation
    M: Doubles
    log_determinant: float
    precision: Doubles
    mean: Doubles
    variance: Doubles
    kept: Doubles
    u: Doubles
    v: Doubles = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "v", np.sqrt(self.precision) * self.u)

    @classmethod
    def of(cls, kernel: Kernel, likelihood: Likelihood, x: Floats, sites: Doubles) -> "ActivePart":
        """Compute everything directly, (SLH eq. 4); x (d, p), sites (2, d).

        Raises
        ------
        NumericalError
            If a site is not that of a log-concave term, or the kernel does not suit the inputs.
        """
        precision, shift = sites
        _check(precision, shift)
        wide = np.asarray(x, np.float64)
        covariance, scale = np.asarray(kernel(wide, wide), np.float64), np.sqrt(precision)
        scaled = np.divide(shift, scale, out=np.zeros_like(shift), where=scale > 0)
        factor = lower_cholesky(
            np.eye(len(x)) + scale[:, np.newaxis] * covariance * scale, "I + Pi^1/2 K Pi^1/2"
        )
        inverse = inverse_lower(factor)
        root = scale[:, np.newaxis] * inverse.T
        beta = inverse @ scaled
        M = covariance @ root
        kept = np.square(inverse).sum(axis=0)
        prior = np.diagonal(covariance)
        sharp = precision * prior > 1.0  # of two differences take the one that keeps more digits
        variance = prior - np.square(M).sum(axis=1)
        variance = np.divide(1.0 - kept, precision, out=variance, where=sharp)
        return cls(
            representation=Representation(kernel, likelihood, wide, root, beta),
            M=M,
            log_determinant=float(np.log(np.diagonal(factor)).sum()),
            precision=precision,
            mean=M @ beta,
            variance=variance,
            kept=kept,
            u=inverse.T @ beta,
        )

    def cavity(self) -> tuple[Doubles, Doubles]:
        """Return mean and variance without the row's own site, (d,) each."""
        variance = self.variance / self.kept
        return self.mean - variance * self.v, variance

    def own(self) -> float:
        """Return what the active rows add to phi besides their log Z."""
        beta = self.representation.beta
        fit = np.log(self.kept) - np.square(self.u) / self.kept
        return self.log_determinant + 0.5 * float(beta @ beta) + 0.5 * float(fit.sum())


def evidence(
    kernel: Kernel,
    likelihood: Likelihood,
    x: Floats,
    target: Any,
    sites: Doubles,
    sum_rows: SumRows,
    by_sites: bool = False,
) -> Evidence:
    """Return the criterion and its gradients for given active rows and sites.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood
        Of one latent value.
    x : Floats (d, p)
        Scaled inputs of the active rows.
    target : array (d,)
    sites : Doubles (2, d)
        Precisions pi, and shifts b: precision times site mean.
    sum_rows : callable
        The sums over all other rows that count.
    by_sites : bool
        Whether the gradient by sites is wanted. It is zero for sites of no precision, and
        loses digits where precisions differ by many orders of magnitude.

    Raises
    ------
    NumericalError
        If the criterion is not finite.
    """
    active = ActivePart.of(kernel, likelihood, x, sites)
    mean, variance = active.cavity()
    columns = mean[:, np.newaxis], variance[:, np.newaxis]
    found = likelihood.moments(*columns, target)
    alpha, nu = found.slope[:, 0], found.curvature[:, 0]
    rho = (alpha - active.v) / active.kept
    # (rho^2 - Delta / l^2) / -2 of the paper, with pi c = pi (1 - a pi)
    E2 = (nu - active.precision * active.kept - np.square(alpha - active.v)) / 2
    E2 /= np.square(active.kept)

    rows = _joined(sum_rows(active.representation), len(x))
    phi = active.own() - float(found.log_z.sum()) - float(rows.log_z.sum())
    if not np.isfinite(phi):
        raise NumericalError(
            f"the evidence must be finite, got {phi} with kernel '{kernel}'; "
            "use a kernel of smaller variance or other length scales"
        )
    root = active.representation.root
    M = active.M
    r = root @ (rows.slope.total() + M.T @ rho)
    G = root @ (rows.square.total() + M.T @ (E2[:, np.newaxis] * M)) @ root.T
    weights = _weights(active, rho, E2, r, G)
    wide = active.representation.x
    by_kernel = rows.kernel.sum(axis=0) + kernel.pull_back(wide, wide, weights)
    by_kernel += kernel.pull_back_diag(wide, E2)
    own = likelihood.parameter_gradient(*columns, target)
    tilted = mean + variance * alpha, variance * (1.0 - variance * nu)
    return Evidence(
        phi=phi,
        kernel=by_kernel,
        likelihood=rows.likelihood.sum(axis=0) - own.sum(axis=0),
        sites=_by_sites(active, *tilted, r, np.diagonal(G)) if by_sites else None,
    )


def _weights(active: ActivePart, rho: Doubles, E2: Doubles, r: Doubles, G: Doubles) -> Doubles:
    """Return what multiplies dK_I in eq. 14, (d, d)."""
    root, v = active.representation.root, active.v
    weights = G + 0.5 * (root @ root.T)
    weights -= 2.0 * E2[:, np.newaxis] * (active.M @ root.T)
    weights += np.outer(r - 0.5 * v - rho, v)
    return weights


def _by_sites(
    active: ActivePart, mean: Doubles, variance: Doubles, r: Doubles, G: Doubles
) -> Doubles:
    """Return the gradient by precisions and shifts; tilted mean and variance, (d,) each."""
    h, a, some = active.mean, active.variance, active.precision > 0
    pi = np.where(some, active.precision, 1.0)
    second = a + np.square(h) - variance - np.square(mean)
    by_precision = second / 2.0 + h * r / pi - G / np.square(pi)
    return np.where(some, np.stack([by_precision, mean - h - r / pi]), 0.0)


def _joined(answers: list[RowSums], d: int) -> RowSums:
    """Return the sums of several blocks, in order."""
    spare = answers[0].square.spare
    square, slope = LevelSum((d, d), spare), LevelSum((d,), spare)
    for answer in answers:
        square.merge(answer.square)
        slope.merge(answer.slope)
    return RowSums(
        np.concatenate([answer.log_z for answer in answers]),
        np.concatenate([answer.kernel for answer in answers]),
        np.concatenate([answer.likelihood for answer in answers]),
        square,
        slope,
    )


def _check(precision: Doubles, shift: Doubles) -> None:
    """Raise unless every site is a proper Gaussian, or none at all."""
    wrong = ~(np.isfinite(shift) & np.isfinite(precision) & (precision >= 0))
    wrong |= (precision == 0) & (shift != 0)
    if wrong.any():
        j = int(np.flatnonzero(wrong)[0])
        raise NumericalError(
            f"sites must have a finite precision above zero, or be zero, got precision "
            f"{precision[j]} and shift {shift[j]} of active row {j}; use a log-concave likelihood"
        )
