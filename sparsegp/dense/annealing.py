"""Annealed importance sampling: the marginal likelihood without a Gaussian approximation.

A run draws latent values from a normalised Gaussian q, and moves them through the densities
q(u) (p(u) p(y|u) / q(u))^b for b from 0 to 1; the mean over runs of

    exp(sum (b_t - b_(t-1)) log r(u_(t-1)))        r(u) = p(u) p(y|u) / q(u)

is the marginal likelihood (Neal 2001). With the prior as q this is the reference method of Kuss &
Rasmussen (2005) and Rasmussen & Williams (2006, figure 3.12), also with b_t = (t / T)^4. If the
prior is wide and the labels are informative, this needs very many temperatures. If q is a dense
method's posterior, q(u) = p(u) prod s_i(u_i) / Z_q, then r is Z_q prod p(y_i|u_i) / s_i(u_i), a
product of functions of single rows that hardly varies. The estimate is unbiased for any q.

The transitions are elliptical slice sampling steps (Murray, Adams & MacKay 2010) with q in place of
the prior: there is nothing to tune, and every transition moves. Random numbers are keyed by the
seed, the run and the temperature.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from sparsegp.dense.base import Problem
from sparsegp.dense.mixture import Component
from sparsegp.dense.precisions import Full, broadcast_kernels, times
from sparsegp.errors import SettingsError
from sparsegp.math.linalg import jittered_cholesky, solve_factored
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.types import Doubles

KEY = 47


class Bridge:
    """Annealing path from a Gaussian q to the posterior.

    q = N(mean, (K^-1 + P)^-1) = p(u) exp(h'u - u'P u / 2) / Z_q.

    Parameters
    ----------
    problem : Problem
    component : Component, optional
        Posterior with a single mean, used as q; default: the prior. ``ep`` and ``softmax_ep`` give
        the best q; if the prior is wide, the posterior of ``laplace`` can be worse than the prior.

    Raises
    ------
    NumericalError
        If a covariance is not positive definite even with a jitter of a thousandth.
    """

    def __init__(self, problem: Problem, component: Component | None = None) -> None:
        covariances, n_latent = problem.covariances(), problem.n_latent
        factors = [jittered_cholesky(each, "the prior covariance")[0] for each in covariances]
        self.problem, self._factors = problem, broadcast_kernels(np.stack(factors), n_latent)
        self._sites: Full | None = None
        self.mean = np.zeros((len(problem.x), n_latent))
        self.log_integral = 0.0  # log Z_q
        if component is not None:
            coefficients = component.coefficients[0]
            every = broadcast_kernels(covariances, n_latent)
            self.mean = np.einsum("rij,jr->ir", every, coefficients, optimize=True)
            sites = component.sites(problem.x)
            units = np.eye(n_latent)[:, np.newaxis].repeat(len(problem.x), axis=1)
            blocks = np.stack([sites.weigh(unit) for unit in units], axis=2)
            self._sites = Full(0.5 * (blocks + blocks.swapaxes(1, 2)), covariances, n_latent)
            self._shift = self._sites.weigh(self.mean) + coefficients
            square = float(np.sum(self._shift * self.mean))
            self.log_integral = 0.5 * (square - self._sites.log_det)

    def generator(self, number: int, t: int) -> np.random.Generator:
        """Return the random number generator for a run at a temperature."""
        return np.random.default_rng([self.problem.seed, KEY, number, t])

    def deviation(self, rng: np.random.Generator) -> Doubles:
        """Return a draw from q minus its mean, (n, R)."""
        shape, lower, upper = self.mean.shape, self._factors, self._factors.swapaxes(1, 2)
        prior = times(lower, rng.standard_normal(shape))
        if self._sites is None:
            return prior
        # u - K P^(1/2) B^-1 (P^(1/2) u + e) with B = I + P^(1/2) K P^(1/2), u and e independent
        root, factor = self._sites.root, self._sites.factor
        right = np.einsum("irs,is->ir", root, prior) + rng.standard_normal(shape)
        solved = solve_factored(factor, right.ravel())
        back = np.einsum("irs,is->ir", root, solved.reshape(shape))
        return prior - times(lower, times(upper, back))

    def log_ratio(self, latent: Doubles) -> float:
        """Return log r(u) - log Z_q = log p(y|u) - h'u + u'P u / 2."""
        log_p = float(self.problem.likelihood.log_density(latent, self.problem.target).sum())
        if self._sites is None:
            return log_p
        return log_p - float(np.sum(latent * (self._shift - 0.5 * self._sites.weigh(latent))))


@dataclass(frozen=True)
class LogMarginal:
    """An estimate of the log marginal likelihood.

    Attributes
    ----------
    value : float
        In nats. Its expectation is at most the true value.
    error : float
        Standard error, to first order.
    effective_runs : float
        (sum w)^2 / sum w^2 for the weights; if it is near one, a single run dominates, and `error`
        is unreliable.
    log_weights : Doubles (runs,)
    """

    value: float
    error: float
    effective_runs: float
    log_weights: Doubles

    @classmethod
    def of(cls, log_weights: Doubles) -> Self:
        """Return the estimate from the log weights of independent runs."""
        count = len(log_weights)
        value = float(log_sum_exp(log_weights) - np.log(count))
        relative = np.exp(log_weights - value)
        error = float(relative.std(ddof=1) / np.sqrt(count))
        return cls(value, error, count**2 / float(np.square(relative).sum()), log_weights)


def log_marginal(bridge: Bridge, runs: int = 8, temperatures: int = 2000) -> LogMarginal:
    """Return an estimate of the log marginal likelihood.

    Parameters
    ----------
    bridge : Bridge
    runs : int
        Number of independent runs, two or more.
    temperatures : int
        T, one or more.

    Raises
    ------
    SettingsError
        If either number is too small.
    """
    if runs < 2 or temperatures < 1:
        raise SettingsError(
            f"annealing needs 2 runs and 1 temperature at least, got {runs} and {temperatures}"
        )
    inverse = [(t / temperatures) ** 4.0 for t in range(temperatures + 1)]
    log_weights = np.array([_log_weight(bridge, number, inverse) for number in range(runs)])
    return LogMarginal.of(log_weights + bridge.log_integral)


def _log_weight(bridge: Bridge, number: int, inverse: Sequence[float]) -> float:
    """Return the log weight of a run through these inverse temperatures, without log Z_q."""
    latent = bridge.mean + bridge.deviation(bridge.generator(number, 0))
    log_weight, log_ratio = 0.0, bridge.log_ratio(latent)
    for t, (former, new) in enumerate(pairwise(inverse), 1):
        log_weight += (new - former) * log_ratio
        latent, log_ratio = slice_step(bridge, latent, log_ratio, new, bridge.generator(number, t))
    return log_weight


def slice_step(
    bridge: Bridge, latent: Doubles, log_ratio: float, inverse: float, rng: np.random.Generator
) -> tuple[Doubles, float]:
    """Return latent values and their log ratio after an elliptical slice sampling step."""
    deviation, other = latent - bridge.mean, bridge.deviation(rng)
    level = inverse * log_ratio + np.log1p(-rng.uniform())
    angle = 2.0 * np.pi * rng.uniform()
    low, high = angle - 2.0 * np.pi, angle
    while True:
        new = bridge.mean + deviation * np.cos(angle) + other * np.sin(angle)
        found = bridge.log_ratio(new)
        if inverse * found >= level:
            return new, found
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        if angle == 0.0 or low == high:  # the current point, up to rounding
            return latent, log_ratio
        angle = low + (high - low) * rng.uniform()
