"""Posterior and marginal likelihood for Gaussian noise, in closed form."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem
from sparsegp.dense.precisions import Independent
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Solved:
    """Coefficients A^-1 y, (n,), with A = K + s I; factored site precisions 1 / s; log evidence."""

    coefficients: Doubles
    sites: Independent
    log_evidence: float


@dataclass(frozen=True)
class Exact(Method, name="exact"):
    """Exact regression with Gaussian noise.

    With A = K + s I the log marginal likelihood is -y' A^-1 y / 2 - log |A| / 2 - n log(2 pi) / 2
    (Rasmussen & Williams 2006, eq. 2.30). With a = A^-1 y its gradient in K is (a a' - A^-1) / 2
    (eq. 5.9), and its derivative in log s is s times the trace of that matrix.
    """

    likelihoods: ClassVar[tuple[str, ...]] = ("gaussian",)

    def start(self, problem: Problem, near: Any = None) -> Solved:
        """Return the solution; see `Method`."""
        likelihood: Any = problem.likelihood
        y, noise = np.asarray(problem.target, np.float64), likelihood.noise_variance
        sites = Independent(np.full((len(y), 1), 1.0 / noise), problem.covariances(), 1)
        coefficients = sites.apply(y[:, np.newaxis])[:, 0]
        log_det = sites.log_det + len(y) * np.log(noise)
        log_evidence = -0.5 * (float(y @ coefficients) + log_det + len(y) * np.log(2.0 * np.pi))
        return Solved(coefficients, sites, float(log_evidence))

    def finish(self, problem: Problem, state: Solved, run_tasks: Any) -> Fit:
        """Return the posterior; see `Method`."""
        sites, coefficients = state.sites, state.coefficients[np.newaxis, :, np.newaxis]
        component = problem.posterior(coefficients, sites.name, sites.precision)
        return Fit([component], state.log_evidence)

    def gradient(self, problem: Problem, state: Solved) -> LogEvidence:
        """Return the log marginal likelihood and its gradient; see `Method`."""
        outer = np.outer(state.coefficients, state.coefficients)
        weights = 0.5 * (outer - state.sites.block(0))
        gradient = problem.pull_back([(0, weights)])
        if problem.learns_likelihood:
            likelihood: Any = problem.likelihood
            gradient = np.append(gradient, likelihood.noise_variance * np.trace(weights))
        return LogEvidence(state.log_evidence, gradient, np.empty(0))
