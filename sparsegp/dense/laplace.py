"""Laplace's approximation: a Gaussian about the posterior mode, with the curvature there.

Rasmussen & Williams 2006, sections 3.4 and 3.5, algorithms 3.1-3.4 (RW); for the multinomial probit
Girolami & Rogers 2006, appendix E. All likelihoods share the algorithm. With K the prior covariance
of all latent values, u = K a the latent values, g and P the first and minus the second derivatives
of the log likelihood, and V = (K + P^-1)^-1 (precisions.py), a Newton step is

    b = P u + g        a <- b - V K b        u <- K a

and at the mode, where a = g,

    log Z = log p(y|u) - a'u / 2 - log|I + K P| / 2
    d log Z = a' dK a / 2 - tr(V dK) / 2 + s' (I + K P)^-1 dK a        s_i = -d tr(S_i P_i) / 2 du_i

with S_i the posterior covariance of row i. The last term accounts for the shift of the mode.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem, Status
from sparsegp.dense.mixture import TILE
from sparsegp.dense.precisions import FORMS, Precisions, times
from sparsegp.errors import NumericalError
from sparsegp.fields import setting
from sparsegp.state import UNSAVED
from sparsegp.types import Doubles

SETTLED = 1e-14
"""Predicted gain of a step, in nats, at which the mode counts as found: half the squared length of
the step in units of the posterior scale."""
NEAR = 1e-6
"""Predicted gain, relative to the objective, up to which full steps need no line search."""
SUFFICIENT = 1e-4
HALVINGS = 40


@dataclass(frozen=True)
class LaplaceState:
    """State of Newton's method."""

    coefficients: Doubles  # a (n, R)
    height: float  # the objective there
    steps: int = 0  # number of steps made
    # the `Precisions` P at the mode; None until it is found
    sites: Any = field(default=None, metadata=UNSAVED)

    @property
    def log_evidence(self) -> float:
        """Log Z at the mode."""
        return self.height - 0.5 * float(self.sites.log_det)


@dataclass(frozen=True)
class Laplace(Method, name="laplace"):
    """Laplace's approximation.

    Parameters
    ----------
    max_steps : int
        Maximum number of Newton steps.
    """

    State: ClassVar[type] = LaplaceState
    likelihoods: ClassVar[tuple[str, ...]] = ("logistic", "probit", "softmax", "multinomial_probit")

    max_steps: int = setting(100, least=1)

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> LaplaceState:
        """Return zero coefficients, or `near` if its objective is higher; see `Method`."""
        none = np.zeros((len(problem.x), problem.n_latent))
        starts = [none] if near is None or near.shape != none.shape else [none, near]
        climbs = [LaplaceState(a, _height(problem, a)) for a in starts]
        return max(climbs, key=lambda each: each.height)

    def step(self, problem: Problem, state: LaplaceState, run_tasks: Any) -> LaplaceState:
        """Make a Newton step; a step with a negligible gain is the last.

        Raises
        ------
        NumericalError
            If there are too many steps, or none in Newton's direction increases the objective.
        """
        if state.steps > self.max_steps:
            raise NumericalError(
                f"the posterior mode must be found in max_steps={self.max_steps} Newton steps, "
                f"found log p(y|u) - a'u/2 = {state.height:g} still rising; allow more, or use a "
                "kernel of smaller variance"
            )
        likelihood: Any = problem.likelihood
        a, prior = state.coefficients, problem.prior
        latent = times(prior, a)
        curvature = likelihood.curvature(latent, problem.target)
        sites = FORMS[likelihood.curvature_form](curvature, prior, problem.n_latent)
        slope = likelihood.gradient(latent, problem.target)[1]
        b = sites.weigh(latent) + slope
        newton = b - sites.apply(times(prior, b))
        direction = newton - a
        move = times(prior, direction)
        gain = 0.5 * float(np.vdot(slope - a, move))
        if gain <= SETTLED:
            return LaplaceState(newton, _height(problem, newton), state.steps, sites)

        def height_at(length: float) -> float:
            return _height(problem, a + length * direction, latent + length * move)

        length = 1.0
        if gain > NEAR * (1.0 + abs(state.height)):
            length = _length(height_at, state.height, gain)
        reached = a + length * direction
        return LaplaceState(reached, _height(problem, reached), state.steps + 1)

    def status(self, state: LaplaceState) -> Status:
        """Return the progress, which is finished at the mode."""
        return Status(state.steps, 0, state.sites is not None, {"height": state.height})

    def finish(self, problem: Problem, state: LaplaceState, run_tasks: Any) -> Fit:
        """Return the posterior; see `Method`."""
        form, coefficients = state.sites.name, state.coefficients[np.newaxis]
        component = problem.posterior(coefficients, form, state.sites.precision)
        return Fit([component], state.log_evidence, report={"newton_steps": state.steps})

    def gradient(self, problem: Problem, state: LaplaceState) -> LogEvidence:
        """Return the log marginal likelihood and its gradient; see `Method`."""
        likelihood: Any = problem.likelihood
        a, sites, prior = state.coefficients, state.sites, problem.prior
        spread = _row_covariances(sites, prior, a.shape[1])
        s = -0.5 * likelihood.curvature_gradient(times(prior, a), problem.target, spread)
        pull = s - sites.apply(times(prior, s))  # (I - V K) s

        def parts() -> Iterator[tuple[int, Doubles]]:
            for r in range(a.shape[1]):
                yield r, np.outer(0.5 * a[:, r] + pull[:, r], a[:, r])
                yield r, -0.5 * sites.block(r)

        return LogEvidence(state.log_evidence, problem.pull_back(parts()), a)

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return the peak number of (n, n) matrices; see `Method`."""
        if likelihood == "multinomial_probit":
            return 3 * n_latent**2 + n_kernels + 2
        return (n_latent if n_latent > 1 else 0) + 2 * n_kernels + 6


def _height(problem: Problem, a: Doubles, latent: Doubles | None = None) -> float:
    """Return log p(y|u) - a'u / 2 for coefficients a and, if known, latent values u, (n, R)."""
    u = times(problem.prior, a) if latent is None else latent
    log_p = problem.likelihood.log_density(u, problem.target).sum()
    return float(log_p) - 0.5 * float(np.vdot(a, u))


def _length(height_at: Callable[[float], float], height: float, gain: float) -> float:
    """Return the largest step length among 1, 1/2, 1/4, ... with a sufficient increase."""
    for length in (0.5 ** np.arange(HALVINGS)).tolist():
        if height_at(length) >= height + SUFFICIENT * length * gain:
            return float(length)
    raise NumericalError(
        f"a Newton step must lead up, found none from log p(y|u) - a'u/2 = {height:g} "
        f"that promises {gain:g}; use a kernel of smaller variance"
    )


def _row_covariances(sites: Precisions, covariances: Doubles, n_latent: int) -> Doubles:
    """Return the posterior covariance of the latent values of each training row, (n, R, R)."""
    parts = []
    for start in range(0, covariances.shape[1], TILE):
        some = slice(start, start + TILE)
        prior = np.stack([np.diag(covariance)[some] for covariance in covariances])
        part = sites.covariance(covariances[:, :, some], prior)
        parts.append(part if part.ndim == 3 else part[:, :, np.newaxis] * np.eye(n_latent))
    return np.concatenate(parts)
