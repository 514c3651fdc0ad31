"""Variational inference for the multinomial probit and the probit (Girolami & Rogers 2006; GR).

Each latent value m has a noisy copy y ~ N(m, 1), and the label is the number of the largest y of a
row (of two classes: the sign of y). With Q(Y) Q(M) in place of the posterior, and y~ the mean
of Y, Q(M) is that of regression on y~: covariances K (I + K)^-1 and means m = K (I + K)^-1 y~
(eq. 4.1). The bound on the log marginal likelihood (appendix C) then is

    L = sum_n log Z_n(m_n) - sum_k [m_k' K_k^-1 m_k + log |I + K_k|] / 2

once the traces are added up. The constant (1 - K) N log(2 pi) / 2 of the paper's last formula is
too much: the last term of its (C.8) lacks a factor K.

In m the bound is concave. Its maximum is the fixed point m <- K (I + K)^-1 (m + p(m)) of eq. 4.6
and 4.9, p = d log Z / dm. Here that iteration is the metric of a quasi-Newton ascent, which ends at
the same point in far fewer rounds. With v = K^(-1/2) m the bound is -|v|^2 / 2 plus a concave
function, so that where its gradient is g no more than |g|^2 / 2 nats are left to gain: this ends
the ascent.

Length scales can be learnt by importance sampling (length_scales.py), in rounds of an ascent and a
choice of length scales; or, as in the paper, of a few updates of the means and a choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem
from sparsegp.dense.driver import RunTasks, Status
from sparsegp.dense.length_scales import KEY, LengthScales
from sparsegp.dense.spectrum import Spectrum
from sparsegp.errors import NumericalError
from sparsegp.fields import setting
from sparsegp.likelihoods.base import Moments
from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles

PATIENCE = 3
"""Rounds of which one must raise the bound."""
STALLED = 1e-4
"""Nats that may be left to gain where rounding ends the ascent."""


class Bound:
    """The bound as a function of v, (n, R), with m = U l^(1/2) v where K = U diag(l) U'."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.spectrum = problem, Spectrum(problem)
        self.root = np.sqrt(self.spectrum.values)

    def __call__(self, v: Doubles) -> tuple[float, Doubles]:
        """Return value and gradient."""
        moments = self.moments(self.mean(v))
        value = float(moments.log_z.sum() - 0.5 * np.vdot(v, v)) - 0.5 * self.spectrum.log_det
        return value, self.root * self.spectrum.turn(moments.slope) - v

    def moments(self, mean: Doubles) -> Moments:
        """Return log Z_n, p and the curvature of log Z at m."""
        return self.problem.likelihood.moments(mean, np.zeros_like(mean), self.problem.target)

    def mean(self, v: Doubles) -> Doubles:
        """Return m."""
        return self.spectrum.back(self.root * v)

    def site(self, v: Doubles) -> Doubles:
        """Return y~ = m + p (GR eq. 4.3, 4.4)."""
        mean = self.mean(v)
        return mean + self.moments(mean).slope

    def regressed(self, site: Doubles) -> Doubles:
        """Return the v of m = K (I + K)^-1 y~ (GR eq. 4.6)."""
        return self.root / (1.0 + self.spectrum.values) * self.spectrum.turn(site)

    def climb(self, site: Doubles, tolerance: float, steps: int) -> tuple[Ascent, list[float]]:
        """Climb to the maximum, and return the ascent and the bounds on the way.

        Parameters
        ----------
        site : Doubles (n, R)
            The y~ to start from.
        tolerance : float
            Nats that may be left to gain.
        steps : int
            At most. Their metric I + diag(l) is minus the Hessian where p rises fastest.

        Raises
        ------
        NumericalError
            If the steps do not lead there.
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
    """What the rounds of the importance sampling have come to.

    Attributes
    ----------
    logs : Doubles (q,)
        Parameters of the kernels of the last round.
    site, latent : Doubles (n, R)
        Their y~ and m~.
    rounds : tuple of (bound, effective draws, phi ...)
        The first is that of the kernels given.
    """

    logs: Doubles
    site: Doubles
    latent: Doubles
    rounds: tuple[Doubles, ...] = ()

    @property
    def bounds(self) -> list[float]:
        """Those of the rounds."""
        return [float(row[0]) for row in self.rounds]


@dataclass(frozen=True)
class Variational(Method, name="variational"):
    """Variational inference, with importance-sampled length scales if wanted.

    Parameters
    ----------
    tolerance : float
        Nats: the ascent ends where the bound is certain to be no further below its maximum.
    steps : int
        At most, of one ascent.
    importance : int
        Draws of the length scales in a round; with 0 the kernel stays.
    updates : int
        Of the means (GR eq. 4.3, 4.4 and 4.6) in a round. With 0 a round climbs to the maximum.
        With 1, as GR have it, length scales are first chosen while the means are still small.
    rounds : int
        Of the importance sampling, at most.
    rise : float
        Nats a row by which three rounds together must raise the bound, or they are the last, once
        it has risen as much above that of the start. One percent of the bound, as GR (section 6.5)
        have it, comes to about as much. With a negative number all rounds are made.
    shape, rate : float
        Of the gamma prior of the rate of an inverse length scale; vague if small.
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

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> VariationalState:
        """Return means of zero, or those that follow from y~ nearby; see `Method`."""
        none = np.zeros((len(problem.x), problem.n_latent))
        return VariationalState(problem.parameters(), none if near is None else near, none)

    def step(
        self, problem: Problem, state: VariationalState, run_tasks: RunTasks
    ) -> VariationalState:
        """Choose length scales, but for the first round, and climb or update the means."""
        scales, number = LengthScales.of(problem), len(state.rounds)
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
        """Return the progress: the end is the last round, or one that raised the bound too little.

        Not while the kernel explains as little as that of the start: where rows are too distant all
        draws weigh alike, and phi wanders until a relevant input is found.
        """
        if not self.importance or not state.rounds:
            return Status(0, 0, finished=not self.importance)
        done, bounds, enough = len(state.rounds), state.bounds, self.rise * len(state.site)
        risen = max(bounds) - bounds[0] >= enough
        settled = done > PATIENCE and max(bounds[-PATIENCE:]) - max(bounds[:-PATIENCE]) < enough
        figures = {"log_evidence": max(bounds)}
        return Status(done, self.rounds + 1, done > self.rounds or (risen and settled), figures)

    def finish(self, problem: Problem, state: VariationalState, run_tasks: RunTasks) -> Fit:
        """Climb once more, and return the posterior; its log evidence is the bound."""
        if self.importance:  # a kernel that stays is the one given, to the last bit
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

    def evidence(self, problem: Problem, near: NDArray[Any] | None = None) -> LogEvidence:
        """Return the bound, of the kernels as they are, and its gradient; see `Method`."""
        return self.gradient(problem, self.start(problem, near))

    def gradient(self, problem: Problem, state: VariationalState) -> LogEvidence:
        """Return the bound and its gradient, from K_k: (c_k c_k' - (I + K_k)^-1) / 2, m = K c."""
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
    """Return how many nats below its maximum the bound is, at most."""
    return 0.5 * float(np.vdot(ascent.gradient, ascent.gradient))
