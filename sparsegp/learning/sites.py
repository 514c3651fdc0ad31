"""Sites of given active rows, set in the order of inclusion, and their derivatives.

This is what selection does to the sites (assumed-density filtering, SLH algorithm 1 and appendix
C.1), with the rows given and nothing computed for others: O(d^3) for d rows. With it sites are a
function of the parameters.

The paper takes the sites for constants (SLH 3.3), since there is no formula for their derivatives,
but the chain rule can be followed backwards. Site j is a function of the mean and variance of row j
under the sites before it,

    h_j = K_jB v      a_j = K_jj - K_jB W K_Bj      B: the rows before j

v and W as in learning/evidence.py, for these rows alone, so that with E = K_jB W, A_jB = E / pi

    dh_j = (dK_jB - E dK_B) v + A_jB (db - h dpi)
    da_j = dK_jj - 2 E dK_Bj + E dK_B E^T - A_jB^2 dpi

From the last row to the first, what the criterion loses or gains by h_j and a_j goes to the sites
before. It takes a few products of (d, d) matrices. The derivatives of one site by its own mean,
variance and the likelihood's parameters are differences of five points, good to eleven digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.learning.evidence import ActivePart
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.sites import RULES, Sites
from sparsegp.types import Doubles, Floats

STEP = 1e-3
"""Of differences, in natural units: their error is about its fourth power."""


def sites_in_order(kernel: Kernel, likelihood: Likelihood, x: Floats, target: Any) -> Doubles:
    """Return precisions and shifts of the sites that match moments, (2, d).

    A row of which log Z does not bend keeps a site of zero.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood
        Of one latent value.
    x : Floats (d, p)
        Scaled inputs in the order of inclusion.
    target : array (d,)
    """
    wide, labels = np.asarray(x, np.float64), np.asarray(target)
    covariance = np.asarray(kernel(wide, wide), np.float64)
    d = len(wide)
    stub, sites = np.zeros((d, d)), np.zeros((2, d))
    mean, variance = np.zeros((d, 1)), np.diagonal(covariance).copy()[:, np.newaxis]
    for j in range(d):
        one, rest = slice(j, j + 1), slice(j, d)
        site = RULES["moments"](likelihood, mean[one], variance[one], labels[one])
        sites[:, j] = _natural(site)[:, 0]
        column = covariance[rest, j] - stub[:j, j] @ stub[:j, rest]
        column /= site.length[0, 0]
        stub[j, rest] = column
        mean[rest, 0] += column * site.step[0, 0]
        variance[rest, 0] -= np.square(column)
    return sites


def moment_sites(likelihood: Likelihood, mean: Doubles, variance: Doubles, target: Any) -> Doubles:
    """Return the sites of rows with these marginals, each by itself, (2, d)."""
    columns = mean[:, np.newaxis], variance[:, np.newaxis]
    return _natural(RULES["moments"](likelihood, *columns, target))


def _natural(sites: Sites) -> Doubles:
    """Return precisions and shifts."""
    precision = sites.precision[:, 0]
    return np.stack([precision, precision * sites.mean[:, 0]])


def noise_sites(
    likelihood: Gaussian, target: Doubles, weight: Doubles | None = None
) -> tuple[Doubles, Doubles]:
    """Return the sites of Gaussian noise, (2, d), and their derivatives by log sigma^2.

    In whatever order they are set they are 1 / sigma^2 and y / sigma^2, times the weight of a row.
    """
    sites = np.stack([np.ones_like(target), target]) / likelihood.noise_variance
    sites = sites if weight is None else weight * sites
    return sites, -sites


def through_sites(
    active: ActivePart, likelihood: Likelihood, target: Any, by_sites: Doubles
) -> tuple[Doubles, Doubles]:
    """Return what a criterion gains by kernel (q,) and likelihood (r,) parameters through sites.

    Parameters
    ----------
    active : ActivePart
        Of a single process, with the sites that `adf.sites_in_order` sets.
    likelihood : Likelihood
    target : array (d,)
    by_sites : Doubles (2, d)
        Gradient of the criterion by precisions and shifts.
    """
    q, pi = active.process, active.precision[:, np.newaxis]
    E = np.tril(active.M, -1) @ q.root.T
    V, H = _before(q.root * q.beta), _before(active.M * q.beta)  # row j: v and h of the rows before
    A = np.divide(E, pi.T, out=np.zeros_like(E), where=pi.T > 0)
    mean = np.diagonal(H)
    variance = q.kernel.diag(q.x) - np.square(np.tril(active.M, -1)).sum(axis=1)
    by_mean, by_variance, by_likelihood = _slopes(likelihood, mean, variance, target)

    d = len(mean)
    total, h, a = by_sites.copy(), np.zeros(d), np.zeros(d)
    for j in reversed(range(d)):
        later, column = slice(j + 1, d), A[j + 1 :, j]
        total[0, j] -= (h[later] * H[later, j]) @ column + a[later] @ np.square(column)
        total[1, j] += h[later] @ column
        h[j], a[j] = total[:, j] @ by_mean[:, j], total[:, j] @ by_variance[:, j]

    own = h[:, np.newaxis] * V - a[:, np.newaxis] * E
    weights = own - E.T @ own - a[:, np.newaxis] * E
    by_kernel = q.kernel.pull_back(q.x, q.x, weights) + q.kernel.pull_back_diag(q.x, a)
    return by_kernel, np.einsum("rsd,sd->r", by_likelihood, total)


def _before(terms: Doubles) -> Doubles:
    """Return sum_k<j t_ik at [j, i]."""
    return np.asarray((np.cumsum(terms, axis=1) - terms).T)


def _slopes(
    likelihood: Likelihood, mean: Doubles, variance: Doubles, target: Any
) -> tuple[Doubles, Doubles, Doubles]:
    """Return derivatives of the sites by mean and variance, (2, d), and parameters, (r, 2, d)."""
    scale, parameters = np.sqrt(variance), likelihood.parameters()

    def along(unit: Doubles) -> Callable[[float], Doubles]:
        return lambda t: moment_sites(
            likelihood.with_parameters(parameters + t * unit), mean, variance, target
        )

    by_mean = _difference(lambda t: moment_sites(likelihood, mean + t * scale, variance, target))
    by_variance = _difference(
        lambda t: moment_sites(likelihood, mean, variance * np.exp(t), target)
    )
    by_parameters = [_difference(along(unit)) for unit in np.eye(len(parameters))]
    return by_mean / scale, by_variance / variance, np.reshape(by_parameters, (-1, 2, len(mean)))


def _difference(function: Callable[[float], Doubles]) -> Doubles:
    """Return the derivative at zero."""
    near = function(STEP) - function(-STEP)
    wide = function(2.0 * STEP) - function(-2.0 * STEP)
    return np.asarray((8.0 * near - wide) / (12.0 * STEP))
