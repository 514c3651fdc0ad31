"""Marginal likelihood criterion of the informative vector machine, and its gradient (SLH 3.3, C.2).

Processes c = 1..R, one for each latent value, are independent in the posterior but share the
likelihood. Let one of them have active rows I, site precisions Pi and site shifts b (N^U(u | b, pi)
in the paper). With s = Pi^(-1/2) b, which is accurate even for small precisions,

    I + Pi^(1/2) K_I Pi^(1/2) = L L^T     root = Pi^(1/2) L^-T     M = K_.I root     beta = L^-1 s
    h = M beta     a = diag K - diag M M^T     W = root root^T     v = root beta = (I + Pi K_I)^-1 b

The cavity of an active row follows from c = diag (L L^T)^-1 = 1 - pi a without subtracting large
numbers, since pi h - b = -v:

    a_cavity = a / c        h_cavity = h - a_cavity v

and so does the criterion, where u = L^-T beta and Z is computed from the cavity:

    phi = - sum over rows of log Z + sum over processes of phi_c
    phi_c = log|L| + |beta|^2 / 2 + sum over I of (log c - u^2 / c) / 2

For one process this is eq. 11. For several, log Z is joint: it uses the cavity in the processes for
which the row is active, and the marginals in the others, where pi = v = u = 0 and c = 1.

Row weights, for Gaussian noise, multiply log Z of rows that are not active; for an active row Z is
the expectation of p(y|u)^w, which is equivalent to w active copies.

Rows that count but are not active for any process need K_JI; the blocks that hold them compute
their sums (ivm/evidence_rows.py). The D rows that are active for some process are handled here, in
O(D d^2) for each process.

The gradient for fixed sites is given by eq. 14 and eq. 12. With respect to the sites it is

    d phi / db  = (h_tilted - h) - r / pi
    d phi / dpi = (a + h^2 - a_tilted - h_tilted^2) / 2 + h r / pi - diag(G) / pi^2

with r = root M^T rho and G = root M^T E2 M root^T over all rows: the first terms vanish where
expectation propagation has converged on I, the others do not. This gradient is needed where the
sites are known functions of the parameters, as for Gaussian noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparsegp.errors import NumericalError
from sparsegp.ivm.evidence_rows import Process, ProcessSums, RowSums
from sparsegp.kernels import Kernel
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.math.linalg import inverse_lower, lower_cholesky
from sparsegp.math.summation import LevelSum
from sparsegp.types import Doubles, Floats, Integers

SumRows = Callable[[Sequence[Process], Likelihood], list[RowSums]]
"""Returns `evidence_rows.row_sums` of each block, in order of rows."""


@dataclass(frozen=True)
class Evidence:
    """Value of the criterion phi = -log Q(D), in nats, and its gradient.

    The gradient in the sites is zero for sites of precision zero, and loses digits where precisions
    differ by many orders of magnitude.
    """

    phi: float
    kernels: Doubles  # in the parameters of all kernels in turn, for fixed sites (q,) (eq. 14)
    likelihood: Doubles  # in the parameters of the likelihood, for fixed sites (r,) (eq. 12)
    sites: Doubles  # in the precisions and shifts of the sites (2, d)


@dataclass(frozen=True)
class Members:
    """D rows that are active for at least one process, and which rows are active for each process.

    The sites of all processes are stored in one array (2, d), process by process, each in the order
    of its places.
    """

    x: Floats  # (D, p)
    target: Any  # (D,)
    places: Sequence[Integers]  # indices of each process's active rows (d_c,), among the D rows
    weight: Doubles | None = None  # row weights (D,), for Gaussian noise only

    @classmethod
    def of_sites(
        cls, x: Floats, target: Any, mean: Doubles, precision: Doubles, weight: Doubles | None
    ) -> tuple[Self, Doubles]:
        """Create from the sites of all D rows; also return these sites as one array, (2, d).

        Site means and precisions are (D, R); a row with precision 0 is not active for that process.
        """
        places = [np.flatnonzero(column) for column in precision.T]
        sites = [
            np.stack([pi[own], pi[own] * m[own]])
            for pi, m, own in zip(precision.T, mean.T, places, strict=True)
        ]
        return cls(x, target, places, weight), np.concatenate(sites, axis=1)

    def split(self, sites: Doubles) -> list[Doubles]:
        """Return the sites of each process, (2, d_c)."""
        ends = np.cumsum([len(places) for places in self.places])
        return np.split(sites, ends[:-1], axis=1)


class ActivePart:
    """Posterior of one process at all rows that are active for some process (SLH eq. 4).

    The active rows of this process are at `places` (d,) among these rows x (D, p), and have the
    sites (2, d). `precision`, `mean`, `variance` and `kept` are pi, h, a and c, (D,) each.

    Raises
    ------
    NumericalError
        If a site is not log-concave, or the kernel does not suit the inputs.
    """

    def __init__(self, kernel: Kernel, x: Floats, sites: Doubles, places: Integers) -> None:
        _check(*sites)
        self.x, self.places = np.asarray(x, np.float64), places
        own, (tight, shift) = self.x[places], sites
        covariance, scale = np.asarray(kernel(self.x, own), np.float64), np.sqrt(tight)
        scaled = np.divide(shift, scale, out=np.zeros_like(shift), where=scale > 0)
        factor = lower_cholesky(
            np.eye(len(own)) + scale[:, np.newaxis] * covariance[places] * scale,
            "I + Pi^1/2 K Pi^1/2",
        )
        self.log_determinant = float(np.log(np.diagonal(factor)).sum())  # log |L|
        inverse = inverse_lower(factor)
        root = scale[:, np.newaxis] * inverse.T
        beta = inverse @ scaled
        self.process, self.M = Process(kernel, own, root, beta), covariance @ root
        self.kept, (self.u, self.precision) = np.ones(len(x)), np.zeros((2, len(x)))
        self.kept[places] = np.square(inverse).sum(axis=0)
        self.u[places], self.precision[places] = inverse.T @ beta, tight
        self.v = np.sqrt(self.precision) * self.u
        prior = kernel.diag(self.x)
        sharp = self.precision * prior > 1.0  # chooses the more accurate of two differences
        variance = prior - np.square(self.M).sum(axis=1)
        self.variance = np.divide(1.0 - self.kept, self.precision, out=variance, where=sharp)
        self.mean = self.M @ beta

    def cavity(self) -> tuple[Doubles, Doubles]:
        """Return the cavity mean and variance of each row (without its own site), (D,) each."""
        variance = self.variance / self.kept
        return self.mean - variance * self.v, variance

    def own(self) -> float:
        """Return phi_c, the contribution of the active rows to phi besides log Z."""
        beta = self.process.beta
        fit = np.log(self.kept) - np.square(self.u) / self.kept
        return self.log_determinant + 0.5 * float(beta @ beta) + 0.5 * float(fit.sum())

    def slopes(self, alpha: Doubles, nu: Doubles) -> tuple[Doubles, Doubles]:
        """Return rho and E2 from the derivatives of log Z at the cavity, (D,) each."""
        rho = (alpha - self.v) / self.kept
        # (rho^2 - Delta / l^2) / -2 of the paper, with pi c = pi (1 - a pi)
        E2 = (nu - self.precision * self.kept - np.square(alpha - self.v)) / 2
        return rho, E2 / np.square(self.kept)


def evidence(
    kernels: Sequence[Kernel],
    likelihood: Likelihood,
    members: Members,
    sites: Doubles,
    sum_rows: SumRows,
) -> Evidence:
    """Compute the criterion and its gradients for given active rows and sites.

    Parameters
    ----------
    kernels : sequence of Kernel
        One for each process.
    likelihood : Likelihood
        With the same number of latent values.
    members : Members
        The active rows.
    sites : Doubles (2, d)
        Precisions pi, and shifts b: precision times site mean.
    sum_rows : callable
        Computes the sums over all other rows that count.

    Raises
    ------
    NumericalError
        If the criterion is not finite.
    """
    triples = zip(kernels, members.split(sites), members.places, strict=True)
    parts = [ActivePart(kernel, members.x, own, places) for kernel, own, places in triples]
    cavities = [part.cavity() for part in parts]
    mean, variance = (np.stack(columns, axis=1) for columns in zip(*cavities, strict=True))
    at_cavity: list[Any] = [mean, variance, members.target]
    if members.weight is not None:
        assert isinstance(likelihood, Gaussian)  # for which weights are exact
        at_cavity.append(members.weight)
    found, own = likelihood.moments(*at_cavity), likelihood.parameter_gradient(*at_cavity)
    blocks = sum_rows([part.process for part in parts], likelihood)
    log_z = np.concatenate([block.log_z for block in blocks])
    phi = sum(part.own() for part in parts)
    phi -= float(found.log_z.sum()) + float(log_z.sum())
    if not np.isfinite(phi):
        texts = ", ".join(f"'{kernel}'" for kernel in kernels)
        raise NumericalError(
            f"the evidence must be finite, got {phi} with kernel {texts}; "
            "use a kernel of smaller variance or other length scales"
        )
    moments = zip(mean.T, variance.T, found.slope.T, found.curvature.T, strict=True)
    sums = zip(*(block.processes for block in blocks), strict=True)
    gradients = [_gradients(*each) for each in zip(parts, sums, moments, strict=True)]
    by_likelihood = np.concatenate([block.likelihood for block in blocks])
    return Evidence(
        phi=phi,
        kernels=np.concatenate([by_kernel for by_kernel, _ in gradients]),
        likelihood=by_likelihood.sum(axis=0) - own.sum(axis=0),
        sites=np.concatenate([by_site for _, by_site in gradients], axis=1),
    )


def _gradients(
    part: ActivePart, sums: Sequence[ProcessSums], cavity: tuple[Doubles, ...]
) -> tuple[Doubles, Doubles]:
    """Return the gradient in the parameters of a kernel, (q,), and in its sites, (2, d).

    `sums` has one entry per block; `cavity` holds mean, variance, alpha and nu, (D,) each.
    """
    mean, variance, alpha, nu = cavity
    rho, E2 = part.slopes(alpha, nu)
    kernel, root, M, v = part.process.kernel, part.process.root, part.M, part.v[part.places]
    slope = LevelSum.total([each.slope for each in sums])
    square = LevelSum.total([each.square for each in sums])
    r = root @ (slope + M.T @ rho)
    G = root @ (square + M.T @ (E2[:, np.newaxis] * M)) @ root.T
    weights = part.process.weights(M, rho, E2)
    weights[part.places] += G + 0.5 * (root @ root.T) + np.outer(r - 0.5 * v, v)
    by_kernel = np.concatenate([each.kernel for each in sums]).sum(axis=0)
    by_kernel += kernel.pull_back(part.x, part.process.x, weights)
    by_kernel += kernel.pull_back_diag(part.x, E2)
    tilted = mean + variance * alpha, variance * (1.0 - variance * nu)
    columns = part.mean, part.variance, part.precision, *tilted
    h, a, pi, mean, variance = (column[part.places] for column in columns)
    some = pi > 0
    pi = np.where(some, pi, 1.0)
    second = a + np.square(h) - variance - np.square(mean)
    with np.errstate(all="ignore"):  # for the smallest precisions
        by_precision = second / 2.0 + h * r / pi - np.diagonal(G) / np.square(pi)
        return by_kernel, np.where(some, np.stack([by_precision, mean - h - r / pi]), 0.0)


def _check(precision: Doubles, shift: Doubles) -> None:
    """Raise NumericalError unless every site is a proper Gaussian, or has precision zero."""
    wrong = ~(np.isfinite(shift) & np.isfinite(precision) & (precision >= 0))
    wrong |= (precision == 0) & (shift != 0)
    if wrong.any():
        j = int(np.flatnonzero(wrong)[0])
        raise NumericalError(
            f"sites must have a finite precision above zero, or be zero, got precision "
            f"{precision[j]} and shift {shift[j]} of active row {j}; use a log-concave likelihood"
        )
