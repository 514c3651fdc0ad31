"""Moments of likelihoods by other ways than the package's: adaptive and dense quadrature."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm

from sparsegp.likelihoods import (
    Gaussian,
    Likelihood,
    Logistic,
    MultinomialProbit,
    OrderedProbit,
    Probit,
    Softmax,
)

BIASES = (0.2, -0.5, 0.4)
THRESHOLDS = (-0.7, 0.2, 1.9)


def ordered(u, y):
    edges = (-np.inf, *THRESHOLDS, np.inf)
    return ndtr(edges[y + 1] - u) - ndtr(edges[y] - u)


def adaptive(density):
    """Return a function of one row to (log Z, slope, curvature), by Z and two moments."""

    def moments(mean, variance, y):
        scale = math.sqrt(variance[0])

        def integral(power):
            def integrand(x):
                return x**power * norm.pdf(x) * density(mean[0] + scale * x, y)

            jump = np.clip(-mean[0] / scale, -9.0, 9.0)
            return quad(integrand, -10, 10, points=[jump], epsabs=0, epsrel=1e-11, limit=500)[0]

        z, first, second = integral(0), integral(1), integral(2)
        shift = first / z
        spread = second / z - shift**2
        return math.log(z), [shift / scale], [(1 - spread) / variance[0]]

    return moments


def orthant(m, v, i, weight=lambda u: 1.0, j=None):
    """GR eq. 5.5 of means and scales (K,), or with the density of class j in place of its share."""
    others = [k for k in range(len(m)) if k not in (i, j)]

    def integrand(u):
        z = (u * v[i] + m[i] - m) / v
        value = weight(u) * norm.pdf(u) * ndtr(z[others]).prod()
        return value if j is None else value * norm.pdf(z[j])

    jumps = np.clip((m - m[i]) / v[i], -9.0, 9.0)
    return quad(integrand, -10, 10, points=jumps, epsabs=1e-13, epsrel=1e-11, limit=500)[0]


def multinomial(mean, variance, i):
    """Derivatives of GR eq. 5.5 under the integral sign."""
    m, v = np.add(mean, BIASES), np.sqrt(1.0 + variance)
    z = orthant(m, v, i)
    first, second = np.empty(len(m)), np.empty(len(m))
    for j in range(len(m)):
        if j == i:
            first[j] = orthant(m, v, i, lambda u: u) / v[i]
            second[j] = orthant(m, v, i, lambda u: u * u - 1) / v[i] ** 2
        else:
            gap = lambda u, j=j: (u * v[i] + m[i] - m[j]) / v[j]  # noqa: E731
            first[j] = -orthant(m, v, i, j=j) / v[j]
            second[j] = -orthant(m, v, i, gap, j) / v[j] ** 2
    return math.log(z), first / z, (first / z) ** 2 - second / z


def softmax(mean, variance, y):
    """The trapezoid rule on a dense grid in three dimensions."""
    x = np.linspace(-8.0, 8.0, 49)
    grid = np.stack(np.meshgrid(x, x, x, indexing="ij"))
    u = grid * np.sqrt(variance)[:, None, None, None] + np.add(mean, BIASES)[:, None, None, None]
    p = np.exp(u[y] - u.max(axis=0)) / np.exp(u - u.max(axis=0)).sum(axis=0)
    tilted = p * norm.pdf(grid).prod(axis=0) * (x[1] - x[0]) ** 3
    z = tilted.sum()
    shift = np.array([(tilted * g).sum() for g in grid]) / z
    spread = np.array([(tilted * g * g).sum() for g in grid]) / z - shift**2
    return math.log(z), shift / np.sqrt(variance), (1 - spread) / variance


class Case:
    """A likelihood, its number of classes, its moments by other ways, and what errors it may have.

    Parameters
    ----------
    error : float
        Bound for the errors of moments against the reference.
    largest : float
        Latent variances up to which that holds.
    """

    def __init__(self, likelihood: Likelihood, n_classes, reference, error, largest):
        self.likelihood, self.n_classes, self.reference = likelihood, n_classes, reference
        self.error, self.largest = error, largest
        self.n_latent = likelihood.n_latent(n_classes)

    def rows(self, n, seed=0, spread=2.0):
        rng = np.random.default_rng(seed)
        mean = spread * rng.normal(size=(n, self.n_latent))
        variance = self.largest * rng.uniform(0.02, 1.0, size=(n, self.n_latent))
        return mean, variance, self.targets(rng, n)

    def targets(self, rng, n):
        if self.likelihood.numeric:
            return 2.0 * rng.normal(size=n)
        return rng.integers(self.n_classes, size=n)


CASES = [
    Case(Probit(0.4), 2, adaptive(lambda u, y: ndtr((2 * y - 1) * (u + 0.4))), 1e-9, 20.0),
    Case(Logistic(-0.3), 2, adaptive(lambda u, y: expit((2 * y - 1) * (u - 0.3))), 1e-9, 100.0),
    Case(Gaussian(0.3), 0, adaptive(lambda u, y: norm.pdf(y, u, math.sqrt(0.3))), 1e-9, 5.0),
    Case(OrderedProbit(THRESHOLDS), 4, adaptive(ordered), 1e-9, 20.0),
    Case(MultinomialProbit(12, BIASES), 3, multinomial, 1e-6, 5.0),
    Case(Softmax(15, BIASES), 3, softmax, 1e-5, 2.0),
]
