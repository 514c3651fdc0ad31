"""Exact draws of Gaussian values, given which of them is the largest, or the sign of one.

A cone is where value i exceeds all others (Girolami & Rogers 2006, section 3). Of y_k ~ N(m_k,
v_k^2) in the cone of i, u = (y_i - m_i) / v_i has a density of the logarithm, up to a constant,

    f(u) = -u^2 / 2 + sum_{j != i} log Phi((v_i u + m_i - m_j) / v_j)

and given y_i the others are independent, each below y_i. As f'' <= -1, the tangent parabola of
curvature one at any point lies above f: rejection from a normal density of variance one, which near
the mode accepts one draw of at most 1 + sum_j (v_i / v_j)^2 on average, and mostly far fewer.
"""

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from sparsegp.likelihoods import Likelihood, Probit
from sparsegp.likelihoods.binary import sign
from sparsegp.math.normal import hazard, log_cdf
from sparsegp.math.quadrature import product_mode
from sparsegp.types import Doubles, Integers


def biases(likelihood: Likelihood, n_latent: int) -> Doubles:
    """Return what a probit or multinomial probit adds to latent values, (R,)."""
    found = likelihood.parameters()
    return found if len(found) else np.zeros(n_latent)


def labelled(
    likelihood: Likelihood,
    mean: Doubles,
    scale: Doubles,
    target: Integers,
    rng: np.random.Generator,
) -> Doubles:
    """Return noisy latent values N(mean, scale^2) of rows (n, R) given their labels (n,)."""
    shift = biases(likelihood, mean.shape[1])
    if isinstance(likelihood, Probit):
        return signed(mean + shift, scale, sign(target)[:, np.newaxis], rng) - shift
    return cone(mean + shift, scale, target, rng) - shift


def below(bound: Doubles, rng: np.random.Generator) -> Doubles:
    """Return standard normal values given that they are below bounds, of the same shape.

    The distribution function is inverted by its logarithm, which holds as far in the tail as
    numbers go.
    """
    log_share = np.log1p(-rng.random(bound.shape))
    return np.minimum(ndtri_exp(log_share + log_ndtr(bound)), bound)


def signed(mean: Doubles, scale: Doubles, side: Doubles, rng: np.random.Generator) -> Doubles:
    """Return values N(mean, scale^2), (n, R), given their signs, -1 or +1, (n, 1)."""
    return mean - side * scale * below(side * mean / scale, rng)


def cone(mean: Doubles, scale: Doubles, target: Integers, rng: np.random.Generator) -> Doubles:
    """Return values N(mean, scale^2) given which of a row is the largest.

    Parameters
    ----------
    mean, scale : Doubles (n, K)
    target : Integers (n,)
        The number of the largest.
    rng : Generator

    Returns
    -------
    Doubles (n, K)
    """
    every = np.arange(len(mean))
    others = np.asarray(np.arange(mean.shape[1]) != target[:, np.newaxis])
    rival, spread = (some[others].reshape(len(mean), -1).T for some in (mean, scale))  # (K - 1, n)
    own, width = mean[every, target], scale[every, target]
    gap, ratio = (own - rival) / spread, width / spread
    u = _largest(gap, ratio, rng)
    out = np.empty_like(mean)
    out[every, target] = own + width * u
    out[others] = (rival + spread * below(ratio * u + gap, rng)).T.ravel()
    return out


def _largest(gap: Doubles, ratio: Doubles, rng: np.random.Generator) -> Doubles:
    """Return u (n,) from exp(f), with gaps and ratios (K - 1, n)."""
    mode = np.asarray(product_mode(gap, ratio)[0], np.float64)
    z = np.asarray(ratio * mode + gap)
    slope = np.asarray((ratio * hazard(z)).sum(axis=0) - mode)
    # f(u) - f(mode) <= slope (u - mode) - (u - mode)^2 / 2, a parabola about mode + slope
    height = log_cdf(z).sum(axis=0) - 0.5 * mode**2 + 0.5 * slope**2
    centre = mode + slope
    out, left = np.empty_like(mode), np.arange(len(mode))
    while len(left):
        step = rng.standard_normal(len(left))
        u = centre[left] + step
        log_f = log_cdf(ratio[:, left] * u + gap[:, left]).sum(axis=0) - 0.5 * u**2
        accepted = np.log1p(-rng.random(len(left))) <= log_f - height[left] + 0.5 * step**2
        out[left[accepted]] = u[accepted]
        left = left[~accepted]
    return out
