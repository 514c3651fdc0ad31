"""Problems, and integrals over the latent values of one to three rows to compare methods with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from sparsegp.dense import Problem
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.math.gaussian_quadrature import product_rule
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.types import Doubles

POINTS = 2**13


def problem(
    likelihood: Likelihood, n: int, kernels: Sequence[Kernel], n_classes: int = 3, seed: int = 1
) -> Problem:
    """Return rows whose class has the largest of noisy linear scores, or with numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    scores = x @ rng.normal(size=(2, n_classes)) + 0.5 * rng.normal(size=(n, n_classes))
    target = scores[:, 0].copy() if likelihood.numeric else scores.argmax(axis=1)
    return Problem(x, target, kernels, likelihood, likelihood.n_latent(n_classes), seed=seed)


def integrated(problem: Problem, new: Doubles, n_classes: int) -> tuple[float, Doubles]:
    """Return the log marginal likelihood, and class probabilities (m, K) of new rows (m, p).

    Sobol points of the prior of all latent values, those of the new rows too, weighed by the
    likelihood of the rows.
    """
    n, m, n_latent = len(problem.x), len(new), problem.n_latent
    both = np.concatenate([problem.x, new])
    uniform = qmc.Sobol((n + m) * n_latent, rng=1).random(POINTS)
    points = ndtri(uniform).reshape(POINTS, -1, n_latent)
    latent = np.empty_like(points)
    for r in range(n_latent):
        kernel = problem.kernels[r % len(problem.kernels)]
        factor = np.linalg.cholesky(kernel(both, both) + 1e-12 * np.eye(n + m))
        latent[:, :, r] = points[:, :, r] @ factor.T
    log_density = problem.likelihood.log_density
    log_p = log_density(latent[:, :n], problem.target).sum(axis=1)
    weight = np.exp(log_p - log_sum_exp(log_p))
    each = [log_density(latent[:, n:], np.full(m, code)) for code in range(n_classes)]
    probabilities = np.einsum("s,csm->mc", weight, np.exp(each))
    return float(log_sum_exp(log_p) - np.log(POINTS)), probabilities


def by_product_rule(some: Problem, count: int) -> tuple[float, Doubles, Doubles]:
    """Return the log marginal likelihood, and means and variances of the latent values (n, R).

    By so many nodes of Gauss and Hermite for every latent value, under their prior.
    """
    n, n_latent = len(some.x), some.n_latent
    points, log_weights = product_rule(count, n * n_latent)
    factors = np.linalg.cholesky(some.covariances())
    latent = np.einsum("cij,qjc->qic", factors, points.reshape(-1, n, n_latent))
    log_p = some.likelihood.log_density(latent, some.target).sum(axis=1) + log_weights
    log_z = float(log_sum_exp(log_p))
    weight = np.exp(log_p - log_z)
    mean = np.einsum("q,qir->ir", weight, latent)
    return log_z, mean, np.einsum("q,qir->ir", weight, (latent - mean) ** 2)


def interleaved(covariances: Any) -> Any:
    """Return covariances (n R, m R), row by row, from those of each latent value, (R, n, m)."""
    units = np.eye(len(covariances))
    return sum(np.kron(each, np.diag(unit)) for each, unit in zip(covariances, units, strict=True))
