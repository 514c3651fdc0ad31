"""Noisy latent values in the cones of their labels: exact draws, and the marginal likelihood.

In the cone of i, value i exceeds all others (Girolami & Rogers 2006, section 3). For
y_k ~ N(m_k, v_k^2) in the cone of i, u = (y_i - m_i) / v_i has the log density, up to a constant,

    f(u) = -u^2 / 2 + sum_{j != i} log Phi((v_i u + m_i - m_j) / v_j)

and given y_i the others are independent, each below y_i. As f'' <= -1, the parabola with second
derivative -1 that is tangent to f at any point lies above f. This allows rejection sampling with
proposals from a normal density of variance one. With the tangent near the mode, this needs on
average at most 1 + sum_j (v_i / v_j)^2 proposals, mostly far fewer.

p(t) is the probability that noisy latent values Y ~ N(0, I + K) lie in the cones of their labels.
Particles hold draws of Y for the rows so far. Each is weighted by the probability of the next label
given these, which is known, and then draws the next y in its cone (the simulator of Geweke,
Hajivassiliou & Keane). Particles are resampled if few carry the weight. The estimate of p(t) is
unbiased for any number of particles and any order of the rows. Its variance is lowest, by a factor
of three in standard deviation, in the reverse order of a pivoted Cholesky factorisation: rows that
others determine well come first.
"""

import numpy as np
from scipy.linalg.lapack import dpstrf
from scipy.special import log_ndtr, ndtri_exp

from sparsegp.dense.base import Problem
from sparsegp.dense.precisions import NAME, broadcast_kernels
from sparsegp.likelihoods import Probit
from sparsegp.likelihoods.binary import sign
from sparsegp.math.linalg import lower_cholesky
from sparsegp.math.normal import hazard, log_cdf
from sparsegp.math.quadrature import log_sum_exp, product_mode
from sparsegp.types import Doubles, Integers

KEY = 29


def draw_given_labels(
    problem: Problem, mean: Doubles, scale: Doubles, target: Integers, rng: np.random.Generator
) -> Doubles:
    """Draw noisy latent values given their labels, (n, R).

    Parameters
    ----------
    problem : Problem
        Problem with a probit or multinomial probit likelihood.
    mean, scale : Doubles (n, R)
        Means and standard deviations before conditioning on the labels.
    target : Integers (n,)
        Labels.
    rng : Generator
    """
    centre = mean + problem.biases
    if isinstance(problem.likelihood, Probit):
        side = sign(target)[:, np.newaxis]
        return centre - side * scale * _below(side * centre / scale, rng) - problem.biases
    return _cone(centre, scale, target, rng) - problem.biases


def _below(bound: Doubles, rng: np.random.Generator) -> Doubles:
    """Draw standard normal values below bounds, of the same shape.

    The distribution function is inverted in the log domain, which is accurate far into the tail.
    """
    log_share = np.log1p(-rng.random(bound.shape))
    return np.minimum(ndtri_exp(log_share + log_ndtr(bound)), bound)


def _cone(mean: Doubles, scale: Doubles, target: Integers, rng: np.random.Generator) -> Doubles:
    """Draw values from N(mean, scale^2), (n, K), given the index of each row's largest, (n,)."""
    every = np.arange(len(mean))
    others = np.asarray(np.arange(mean.shape[1]) != target[:, np.newaxis])
    rival, spread = (some[others].reshape(len(mean), -1).T for some in (mean, scale))  # (K - 1, n)
    own, width = mean[every, target], scale[every, target]
    gap, ratio = (own - rival) / spread, width / spread
    u = _largest(gap, ratio, rng)
    out = np.empty_like(mean)
    out[every, target] = own + width * u
    out[others] = (rival + spread * _below(ratio * u + gap, rng)).T.ravel()
    return out


def _largest(gap: Doubles, ratio: Doubles, rng: np.random.Generator) -> Doubles:
    """Draw u (n,) from the density exp(f), with gaps and ratios (K - 1, n)."""
    mode = np.asarray(product_mode(gap, ratio)[0], np.float64)
    z = np.asarray(ratio * mode + gap)
    slope = np.asarray((ratio * hazard(z)).sum(axis=0) - mode)
    # f(u) - f(mode) <= slope (u - mode) - (u - mode)^2 / 2, a parabola about mode + slope
    height = log_cdf(z).sum(axis=0) - 0.5 * mode**2 + 0.5 * slope**2
    centre = mode + slope
    out, rest = np.empty_like(mode), np.arange(len(mode))
    while len(rest):
        step = rng.standard_normal(len(rest))
        u = centre[rest] + step
        log_f = log_cdf(ratio[:, rest] * u + gap[:, rest]).sum(axis=0) - 0.5 * u**2
        accepted = np.log1p(-rng.random(len(rest))) <= log_f - height[rest] + 0.5 * step**2
        out[rest[accepted]] = u[accepted]
        rest = rest[~accepted]
    return out


def log_evidence(shared: tuple[Problem, int], number: int) -> float:
    """Return an estimate of log p(t); different numbers give independent estimates.

    Parameters
    ----------
    shared : (Problem, int)
        Problem, and number of particles.
    number : int
        Key of the random numbers.
    """
    problem, count = shared
    rng = np.random.default_rng([problem.seed, KEY, number])
    covariances, identity = problem.covariances(), np.eye(len(problem.x))
    order = np.asarray(dpstrf(identity + covariances.sum(axis=0), lower=1)[1])[::-1] - 1
    ordered = covariances[:, order][:, :, order]
    factors = np.stack([lower_cholesky(identity + some, NAME) for some in ordered])  # (C, n, n)
    innovations = np.empty((len(order), count, problem.n_latent))
    log_weight, total = np.zeros(count), 0.0
    for i, row in enumerate(order):
        pull, former = factors[:, i, :i], innovations[:i]
        if len(pull) == 1:
            mean = np.asarray(np.tensordot(pull[0], former, 1))  # (S, R)
        else:
            mean = np.asarray(np.einsum("ri,isr->sr", pull, former))
        width, target = factors[:, i, i], np.full(count, problem.target[row])
        variance = np.broadcast_to(np.maximum(np.square(width) - 1.0, 0.0), (count, len(width)))
        log_weight += problem.likelihood.log_z(mean, variance, target)
        level = float(log_sum_exp(log_weight))
        share = np.exp(log_weight - level)
        if np.square(share).sum() > 2.0 / count:
            kept = np.searchsorted(np.cumsum(share), (np.arange(count) + rng.random()) / count)
            kept = np.minimum(kept, count - 1)
            innovations[:i], mean = innovations[:i, kept], mean[kept]
            log_weight, total = np.zeros(count), total + level - np.log(count)
        scale = np.broadcast_to(broadcast_kernels(width, problem.n_latent), mean.shape)
        drawn = draw_given_labels(problem, mean, scale, target, rng)
        innovations[i] = (drawn - mean) / scale
    return total + float(log_sum_exp(log_weight) - np.log(count))
