"""Variational inference for the multinomial probit and the probit (Girolami & Rogers 2006; GR).

Each latent value m has a noisy copy y ~ N(m, 1), and the label is the index of the largest y of a
row (for the probit: the sign of y). With Q(Y) Q(M) approximating the posterior, and y~ the mean of
Y, Q(M) is the posterior of regression on y~: covariances K (I + K)^-1 and means m = K (I + K)^-1 y~
(eq. 4.1). The bound on the log marginal likelihood (appendix C) is then

    L = sum_n log Z_n(m_n) - sum_k [m_k' K_k^-1 m_k + log |I + K_k|] / 2

once the traces are combined. The constant (1 - K) N log(2 pi) / 2 in the paper's last formula is an
error: the last term of its (C.8) lacks a factor K.

The bound is concave in m. Its maximum is the fixed point m <- K (I + K)^-1 (m + p(m)) of eq. 4.6
and 4.9, with p = d log Z / dm. Here that fixed-point iteration provides the metric of a
quasi-Newton ascent, which reaches the same point in far fewer iterations. With v = K^(-1/2) m the
bound is -|v|^2 / 2 plus a concave function, so with a gradient g at most |g|^2 / 2 nats remain to
be gained: this is the stopping criterion.

Length scales can be learnt by importance sampling (length_scales.py). Each iteration draws length
scales and then climbs to the maximum or, as in the paper, updates the means a few times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem, RunTasks, Status
from sparsegp.dense.length_scales import KEY, LengthScales
from sparsegp.dense.spectrum import Spectrum
from sparsegp.errors import NumericalError
from sparsegp.fields import setting
from sparsegp.likelihoods.base import Moments
from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles

PATIENCE = 3
"""Number of iterations within which the bound must rise by `rise`."""
STALLED = 1e-4
"""Maximum gain, in nats, that may remain when rounding ends the ascent."""


class Bound:
    """The bound as a function of v, (n, R), with m = U l^(1/2) v where K = U diag(l) U'."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.spectrum = problem, Spectrum(problem)
        self.root = np.sqrt(self.spectrum.values)

    def __call__(self, v: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient."""
        moments = self.moments(self.mean(v))
        value = float(moments.log_z.sum() - 0.5 * np.vdot(v, v)) - 0.5 * self.spectrum.log_det
        return value, self.root * self.spectrum.to_eigenbasis(moments.slope) - v

    def moments(self, mean: Doubles) -> Moments:
        """Return log Z_n, p and the curvature of log Z at m."""
        return self.problem.likelihood.moments(mean, np.zeros_like(mean), self.problem.target)

    def mean(self, v: Doubles) -> Doubles:
        """Return the means m, (n, R)."""
        return self.spectrum.from_eigenbasis(self.root * v)

    def site(self, v: Doubles) -> Doubles:
        """Return y~ = m + p (GR eq. 4.3, 4.4)."""
        mean = self.mean(v)
        return mean + self.moments(mean).slope

    def regressed(self, site: Doubles) -> Doubles:
        """Return the v for m = K (I + K)^-1 y~ (GR eq. 4.6)."""
        return self.root / (1.0 + self.spectrum.values) * self.spectrum.to_eigenbasis(site)

    def climb(self, site: Doubles, tolerance: float, steps: int) -> tuple[Ascent, list[float]]:
        """Climb to the maximum, and return the ascent and the bounds along the way.

        Parameters
        ----------
        site : Doubles (n, R)
            Initial y~.
        tolerance : float
            Maximum gain that may remain, in nats.
        steps : int
            Maximum number of iterations. Their metric I + diag(l) bounds minus the Hessian.

        Raises
        ------
        NumericalError
            If the steps do not reach the maximum.
        """
        ascent = Ascent.at(self.regressed(site), self)
        bounds = [ascent.value]
        while _rest(ascent) > tolerance and len(bounds) <= steps:
            if ascent.step(self, lambda right: right / (1.0 + self.spectrum.values)) == 0.0:
                break
            bounds.append(ascent.value)
        if _rest(ascent) > max(tolerance, STALLED):
            raise NumericalError(
                f"the bound must come within tolerance={tolerance:g} nats of its maximum, found "
                f"that {_rest(ascent):.2g} may be left; raise steps={steps}, or use a kernel "
                "of smaller variance"
            )
        return ascent, bounds


@dataclass(frozen=True)
class VariationalState:
    """State of the importance sampling."""

    logs: Doubles  # log parameters of the kernels
    site: Doubles  # y~ for these (n, R)
    latent: Doubles  # m~ for these (n, R)
    # (bound, effective draws, phi ...) of each round; the first is for the initial kernels
    rounds: tuple[Doubles, ...] = ()


@dataclass(frozen=True)
class Variational(Method, name="variational"):
    """Variational inference, optionally with importance-sampled length scales.

    Parameters
    ----------
    tolerance : float
        The ascent ends when the bound is certain to be within this many nats of its maximum.
    steps : int
        Maximum number of iterations of one ascent.
    importance : int
        Number of draws of the length scales in an iteration; with 0 the kernel is fixed.
    updates : int
        Updates of the means (GR eq. 4.3, 4.4 and 4.6) after each draw of length scales; with 0, an
        ascent to the maximum. With 1, as in GR, the first draws see means that are still small.
    rounds : int
        Maximum number of iterations of the importance sampling.
    rise : float
        In nats per row. Once the bound has risen by this much above its initial value, the
        importance sampling ends when three iterations together raise it by less. GR's criterion
        (section 6.5), one percent of the bound, is similar. With -1 all iterations are made.
    shape, rate : float
        Parameters of the gamma prior on the rate of an inverse length scale; vague if small.
    """

    State: ClassVar[type] = VariationalState
    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "multinomial_probit")

    tolerance: float = setting(1e-8, above=0.0)
    steps: int = setting(1000, above=0)
    importance: int = setting(0, least=0)
    updates: int = setting(0, least=0)
    rounds: int = setting(50, above=0)
    rise: float = 0.02
    shape: float = setting(1e-3, above=0.0)
    rate: float = setting(1e-3, above=0.0)

    @property
    def learns_kernels(self) -> bool:
        """Whether there is importance sampling of length scales."""
        return self.importance > 0

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> VariationalState:
        """Return y~ of zero, or that for nearby parameters; see `Method`."""
        none = np.zeros((len(problem.x), problem.n_latent))
        return VariationalState(problem.parameters(), none if near is None else near, none)

    def step(
        self, problem: Problem, state: VariationalState, run_tasks: RunTasks
    ) -> VariationalState:
        """Choose length scales, except in the first iteration, then climb or update the means."""
        scales, number = LengthScales(problem), len(state.rounds)
        logs, effective = state.logs, 0.0
        if number:
            former = problem.with_parameters(logs)
            # the mean of psi given phi (GR eq. 4.8), and draws of phi given that
            rates = (self.shape + 1.0) / (self.rate + scales.inverse(logs))
            rng = np.random.default_rng([problem.seed, KEY, number])
            draws = rng.standard_exponential((self.importance, len(rates))) / rates
            phi, effective = scales.mean(former, state.latent, draws, run_tasks)
            logs = scales.put(logs, phi)
        bound = Bound(problem.with_parameters(logs))
        if self.updates:
            point = bound.regressed(state.site)
            for _ in range(self.updates - (number > 0)):  # the first point is m = 0
                point = bound.regressed(bound.site(point))
            value = bound(point)[0]
        else:
            ascent, _ = bound.climb(state.site, self.tolerance, self.steps)
            value, point = ascent.value, ascent.point
        rounds = (*state.rounds, np.array([value, effective, *scales.inverse(logs)]))
        return VariationalState(logs, bound.site(point), bound.mean(point), rounds)

    def status(self, state: VariationalState) -> Status:
        """Return the progress, finished after `rounds` or once the bound rises too little.

        The latter does not apply while the kernel explains as little as the initial one: if all
        rows are too far apart, the draws have equal weights, and phi wanders until a relevant input
        is found.
        """
        if not self.importance or not state.rounds:
            return Status(0, 0, finished=not self.importance)
        bounds = [float(row[0]) for row in state.rounds]
        done, enough = len(bounds), self.rise * len(state.site)
        risen = max(bounds) - bounds[0] >= enough
        settled = done > PATIENCE and max(bounds[-PATIENCE:]) - max(bounds[:-PATIENCE]) < enough
        figures = {"log_evidence": max(bounds)}
        return Status(done, self.rounds + 1, done > self.rounds or (risen and settled), figures)

    def finish(self, problem: Problem, state: VariationalState, run_tasks: RunTasks) -> Fit:
        """Climb once more and return the posterior, with the bound as its log evidence."""
        problem = problem.with_parameters(state.logs)
        bound = Bound(problem)
        ascent, bounds = bound.climb(state.site, self.tolerance, self.steps)
        coefficients = bound.spectrum.smooth(bound.site(ascent.point))
        precision = np.ones((len(problem.x), len(problem.kernels)))
        component = problem.posterior(coefficients[np.newaxis], "independent", precision)
        report: dict[str, Any] = {"bound_within": _rest(ascent), "steps": len(bounds)}
        if state.rounds:
            report["kernels"] = [str(kernel) for kernel in problem.kernels]
        trace = [
            {"log_evidence": value, "effective_draws": effective}
            | {f"phi_{j}": each for j, each in enumerate(phi)}
            for value, effective, *phi in (row.tolist() for row in state.rounds)
        ]
        trace += [{"log_evidence": value} for value in bounds]
        return Fit([component], ascent.value, trace, report)

    def gradient(self, problem: Problem, state: VariationalState) -> LogEvidence:
        """Return the bound and its gradient: (c_k c_k' - (I + K_k)^-1) / 2 in K_k, with m = K c."""
        bound = Bound(problem)
        ascent, _ = bound.climb(state.site, self.tolerance, self.steps)
        site, spectrum = bound.site(ascent.point), bound.spectrum
        coefficients = spectrum.smooth(site)
        share = problem.n_latent // len(problem.kernels)

        def parts() -> Iterator[tuple[int, Doubles]]:
            for c, vectors in enumerate(spectrum.vectors):
                own = coefficients[:, c : c + share]
                inverse = vectors / (1.0 + spectrum.values[:, c]) @ vectors.T
                yield c, 0.5 * (own @ own.T - share * inverse)

        return LogEvidence(ascent.value, problem.pull_back(parts()), site)


def _rest(ascent: Ascent) -> float:
    """Return the maximum gain, in nats, that may remain."""
    return 0.5 * float(np.vdot(ascent.gradient, ascent.gradient))
