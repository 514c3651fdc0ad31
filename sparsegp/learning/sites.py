"""Recompute the sites of given active rows in the order of inclusion.

These are the site updates of the selection (assumed-density filtering, SLH algorithm 1 and appendix
C.1), for the given rows only: O(d^3) for d rows. They make the sites a function of the parameters;
gradients treat them as constants (SLH 3.3).
"""

from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.sites import RULES
from sparsegp.types import Doubles, Floats


def sites_in_order(kernel: Kernel, likelihood: Likelihood, x: Floats, target: Any) -> Doubles:
    """Return the precisions and shifts of the sites, by moment matching, (2, d).

    The site of a row where log Z has no curvature is zero.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood
        With one latent value.
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
        sites[:, j] = site.precision[0, 0], site.precision[0, 0] * site.mean[0, 0]
        column = covariance[rest, j] - stub[:j, j] @ stub[:j, rest]
        column /= site.length[0, 0]
        stub[j, rest] = column
        mean[rest, 0] += column * site.step[0, 0]
        variance[rest, 0] -= np.square(column)
    return sites


def noise_sites(
    likelihood: Gaussian, target: Doubles, weight: Doubles | None = None
) -> tuple[Doubles, Doubles]:
    """Return the sites of Gaussian noise, (2, d), and their derivatives in log sigma^2.

    They are 1 / sigma^2 and y / sigma^2, times the row weight, in any order of inclusion.
    """
    sites = np.stack([np.ones_like(target), target]) / likelihood.noise_variance
    sites = sites if weight is None else weight * sites
    return sites, -sites
