"""How sites that were set in order of inclusion change with the parameters: the whole gradient.

The paper takes the sites for constants (SLH 3.3), since there is no formula for their derivatives.
There is none to write down, but the chain rule can be followed backwards. Site j is a function of
the mean and variance of row j under the sites before it,

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
from sparsegp.learning.adf import moment_sites
from sparsegp.learning.evidence import ActivePart
from sparsegp.likelihoods.base import Likelihood
from sparsegp.types import Doubles

STEP = 1e-3
"""Of differences, in natural units: their error is about its fourth power."""


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
    return _kernel_part(q.kernel, q.x, weights, a), np.einsum("rsd,sd->r", by_likelihood, total)


def _kernel_part(kernel: Kernel, x: Doubles, weights: Doubles, diagonal: Doubles) -> Doubles:
    by_kernel = kernel.pull_back(x, x, weights)
    return np.asarray(by_kernel + kernel.pull_back_diag(x, diagonal))


def _before(terms: Doubles) -> Doubles:
    """Return sum_k<j t_ik at [j, i]."""
    return np.asarray((np.cumsum(terms, axis=1) - terms).T)


def _slopes(
    likelihood: Likelihood, mean: Doubles, variance: Doubles, target: Any
) -> tuple[Doubles, Doubles, Doubles]:
    """Return derivatives of the sites by mean and variance, (2, d), and parameters, (r, 2, d)."""
    by_mean = _difference(
        lambda t: moment_sites(likelihood, mean + t * np.sqrt(variance), variance, target)
    ) / np.sqrt(variance)
    by_variance = (
        _difference(lambda t: moment_sites(likelihood, mean, variance * np.exp(t), target))
        / variance
    )
    here = likelihood.parameters()
    by_likelihood = np.empty((len(here), 2, len(mean)))
    for r, unit in enumerate(np.eye(len(here))):
        by_likelihood[r] = _difference(
            lambda t, unit=unit: moment_sites(  # type: ignore[misc]
                likelihood.with_parameters(here + t * unit), mean, variance, target
            )
        )
    return by_mean, by_variance, by_likelihood


def _difference(function: Callable[[float], Doubles]) -> Doubles:
    """Return the derivative at zero."""
    near = function(STEP) - function(-STEP)
    far = function(2.0 * STEP) - function(-2.0 * STEP)
    return np.asarray((8.0 * near - far) / (12.0 * STEP))
