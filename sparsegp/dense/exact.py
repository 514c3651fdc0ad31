"""Gaussian noise: posterior and marginal likelihood in closed form."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.dense.base import Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.component import Component
from sparsegp.dense.precisions import Independent
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Exact(Method, name="exact"):
    """Regression with Gaussian noise, without approximation.

    With A = K + s I the log marginal likelihood is -y' A^-1 y / 2 - log |A| / 2 - n log(2 pi) / 2
    (Rasmussen & Williams 2006, eq. 2.30); its gradient is that of tr((a a' - A^-1) K) / 2 with
    a = A^-1 y (eq. 5.9), and that in log s is s times the trace of (a a' - A^-1) / 2.
    """

    likelihoods: ClassVar[tuple[str, ...]] = ("gaussian",)

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior."""
        precision, sites, coefficients = _solved(problem)
        component = Component(
            problem.kernels,
            problem.likelihood,
            coefficients[np.newaxis, :, np.newaxis],
            sites.name,
            precision,
        )
        return Fit([component], _log_evidence(problem, sites, coefficients))

    def evidence(self, problem: Problem, start: Any = None) -> Evidence:
        """Return the log marginal likelihood and its gradient."""
        _, sites, coefficients = _solved(problem)
        inverse = sites.apply(np.eye(len(problem.x))[:, np.newaxis])[:, 0]
        weights = 0.5 * (np.outer(coefficients, coefficients) - inverse)
        gradient = problem.pull_back([weights])
        if problem.learns_likelihood:
            noise: Any = problem.likelihood
            gradient = np.append(gradient, noise.noise_variance * np.trace(weights))
        return Evidence(_log_evidence(problem, sites, coefficients), gradient, np.empty(0))


def _solved(problem: Problem) -> tuple[Doubles, Independent, Doubles]:
    """Return site precisions (n, 1), their form, and A^-1 y, (n,)."""
    likelihood: Any = problem.likelihood
    precision = np.full((len(problem.x), 1), 1.0 / likelihood.noise_variance)
    sites = Independent(precision, problem.covariances(), 1)
    y = np.asarray(problem.target, np.float64)
    return precision, sites, sites.apply(y[:, np.newaxis, np.newaxis])[:, 0, 0]


def _log_evidence(problem: Problem, sites: Independent, coefficients: Doubles) -> float:
    likelihood: Any = problem.likelihood
    n = len(problem.x)
    log_det = sites.log_det + n * np.log(likelihood.noise_variance)
    fit = float(np.asarray(problem.target) @ coefficients)
    return float(-0.5 * (fit + log_det + n * np.log(2.0 * np.pi)))
