"""One-dimensional quadrature of log-concave functions, each row about its own mode.

A fixed rule about zero misses the integrand where a probability is small; here the nodes follow it:
a few Newton steps to the mode, then Gauss-Hermite nodes in units of the curvature there. With 12
nodes log E_u[prod_j Phi(u + gap_j)] is right to 1e-6 for up to 26 classes, in the tails to 1e-9.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from sparsegp.math.normal import hazard, log_cdf_and_hazard
from sparsegp.types import Doubles

HALF_LOG_TWO_PI = 0.5 * np.log(2.0 * np.pi)
NEWTON_STEPS = 4


@cache
def hermite(count: int) -> tuple[Doubles, Doubles]:
    """Return nodes and log weights, both (count,), of sum_q w_q f(x_q) = int f(x) dx.

    Gauss-Hermite for the weight exp(-x^2/2), the inverse of which is multiplied in.
    """
    x, w = np.polynomial.hermite_e.hermegauss(count)
    log_w = np.log(w) + 0.5 * x**2
    x.flags.writeable = log_w.flags.writeable = False
    return x, log_w


def ordered_sum(values: Doubles, axis: int = 0) -> Doubles:
    """Return the sum over one axis, added up in order.

    numpy's own sum groups the terms by the shape of the array: a row alone and the same row among
    others would differ in the last bit. Running sums are always taken in order.
    """
    return np.asarray(np.add.accumulate(values, axis=axis).take(-1, axis=axis))


def log_sum_exp(terms: Doubles) -> Doubles:
    """Return log sum_q exp(terms_q) over the first axis, added up in order."""
    top = terms.max(axis=0)
    return np.asarray(top + np.log(ordered_sum(np.exp(terms - top))))


def product_mode(gap: Doubles, ratio: Doubles) -> tuple[Doubles, Doubles]:
    """Return mode and scale of exp(-u^2/2) prod_j Phi(ratio_j u + gap_j), a column each.

    The derivative of the logarithm is convex and falling in u, so Newton's method from zero, where
    it is positive, climbs to the root from below and cannot overshoot. The number of steps is
    fixed: what one column gets does not depend on its neighbours.

    Parameters
    ----------
    gap : Doubles (j, n)
    ratio : Doubles (j, n) or (j, 1)
        Positive.

    Returns
    -------
    mode : Doubles (n,)
    scale : Doubles (n,)
        (-f'')^(-1/2) of the logarithm f where the last step started.
    """
    mode, curvature = np.zeros(gap.shape[1]), np.ones(gap.shape[1])
    for _ in range(NEWTON_STEPS):
        z = ratio * mode + gap
        h = hazard(z)
        curvature = 1.0 + ordered_sum(ratio * ratio * h * (z + h))
        mode = mode + (ordered_sum(ratio * h) - mode) / curvature
    return mode, 1.0 / np.sqrt(curvature)


@dataclass(frozen=True)
class ProductTerms:
    """E_u[prod_j Phi(z_j)] term by term.

    Attributes
    ----------
    log_terms : Doubles (q, n)
        Their exponentials sum to the expectation.
    hazard : Doubles (j, q, n)
        phi(z_j) / Phi(z_j) at every node.
    """

    log_terms: Doubles
    hazard: Doubles


def product_terms(gap: Doubles, ratio: Doubles, count: int) -> ProductTerms:
    """Return the terms of E_u[prod_j Phi(ratio_j u + gap_j)], u ~ N(0, 1), a column each.

    Parameters
    ----------
    gap, ratio
        As for `product_mode`.
    count : int
        Number of nodes q.
    """
    mode, scale = product_mode(gap, ratio)
    x, log_w = hermite(count)
    u = mode + scale * x[:, np.newaxis]
    log_phi, h = log_cdf_and_hazard(ratio[:, np.newaxis] * u + gap[:, np.newaxis])
    terms = ordered_sum(log_phi)
    terms += log_w[:, np.newaxis] + (np.log(scale) - HALF_LOG_TWO_PI) - 0.5 * u**2
    return ProductTerms(terms, h)
