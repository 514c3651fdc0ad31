"""Sites of given active rows, set in the order of inclusion.

This is what selection does to the sites (assumed-density filtering, SLH algorithm 1 and appendix
C.1), with the rows given and nothing computed for others: O(d^3) for d rows. With it sites are a
function of the parameters; where a gradient is wanted they are taken for constants (SLH 3.3).
"""

from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.sites import RULES
from sparsegp.types import Doubles, Floats


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
    """Return the sites of Gaussian noise, (2, d), and their derivatives by log sigma^2.

    In whatever order they are set they are 1 / sigma^2 and y / sigma^2, times the weight of a row.
    """
    sites = np.stack([np.ones_like(target), target]) / likelihood.noise_variance
    sites = sites if weight is None else weight * sites
    return sites, -sites
