"""Variational inference for the multinomial probit and the probit (Girolami & Rogers 2006; GR).

Each latent value m has a noisy copy y ~ N(m, 1), and the label says which of the y of a row is the
largest (of two classes: the sign of y). With Q(Y) Q(M) in place of the posterior, and y~ the mean
of Y, Q(M) is that of regression on y~: covariances K (I + K)^-1, means m = K (I + K)^-1 y~ (eq. 4.1).
The bound on the log marginal likelihood (appendix C) then is

    L = sum_n log Z_n(m_n) - sum_k [m_k' K_k^-1 m_k + log |I + K_k|] / 2

once the traces are added up. The constant (1 - K) N log(2 pi) / 2 of the paper's last formula is
too much: the last term of its (C.8) lacks a factor K.

In m the bound is concave. Its maximum is the fixed point m <- K (I + K)^-1 (m + p(m)) of eq. 4.6 and
4.9, p = d log Z / dm. Here that iteration is the metric of a quasi-Newton ascent, which ends at the
same point in far fewer rounds. With v = K^(-1/2) m the bound is -|v|^2 / 2 plus a concave function,
so that where its gradient is g no more than |g|^2 / 2 nats are left to gain: this ends the ascent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.component import Component
from sparsegp.dense.length_scales import Hyperprior, LengthScales
from sparsegp.dense.spectrum import Spectrum
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles

STALLED = 1e-4
"""Nats that may be left to gain where rounding ends the ascent."""


class Bound:
    """The bound as a function of v, (n, R), with m = U l^(1/2) v for the kernel K = U diag(l) U'."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.spectrum = Spectrum(problem.covariances(), problem.n_latent)
        self.root = np.sqrt(self.spectrum.values)

    def __call__(self, v: Doubles) -> tuple[float, Doubles]:
        """Return value and gradient."""
        log_z, slope = self._pull(self.mean(v))
        value = log_z - 0.5 * float(np.vdot(v, v)) - 0.5 * self.spectrum.log_det
        return value, self.root * self.spectrum.turn(slope) - v

    def mean(self, v: Doubles) -> Doubles:
        """Return m."""
        return self.spectrum.back(self.root * v)

    def site(self, v: Doubles) -> Doubles:
        """Return y~ = m + p (GR eq. 4.3, 4.4)."""
        mean = self.mean(v)
        return mean + self._pull(mean)[1]

    def regressed(self, site: Doubles) -> Doubles:
        """Return the v of m = K (I + K)^-1 y~ (GR eq. 4.6)."""
        return self.root / (1.0 + self.spectrum.values) * self.spectrum.turn(site)

    def solve(self, right: Doubles) -> Doubles:
        """Return (I + diag(l))^-1 R: I + diag(l) is minus the Hessian, where p rises fastest."""
        return right / (1.0 + self.spectrum.values)

    def _pull(self, mean: Doubles) -> tuple[float, Doubles]:
        """Return sum_n log Z_n and p."""
        likelihood, target = self.problem.likelihood, self.problem.target
        moments = likelihood.moments(mean, np.zeros_like(mean), target)
        return float(moments.log_z.sum()), moments.slope


def left(ascent: Ascent) -> float:
    """Return how many nats below its maximum the bound is, at most."""
    return 0.5 * float(np.vdot(ascent.gradient, ascent.gradient))


@dataclass
class Course:
    """What a fit has come to.

    Attributes
    ----------
    logs : Doubles (q,)
        Parameters of the kernels.
    rates : Doubles (s,)
        Means of psi, where length scales are learnt.
    site : Doubles (n, R)
        y~ at the end of the last round.
    rounds : list of (bound, effective draws, phi ...)
        Of the importance sampling.
    bounds : list of float
        Along the last ascent.
    ascent : Ascent, optional
    """

    logs: Doubles
    rates: Doubles
    site: Doubles
    rounds: list[list[float]] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    ascent: Ascent | None = None

    @classmethod
    def begin(cls, problem: Problem, rates: Doubles, former: Mapping[str, NDArray[Any]]) -> "Course":
        """Return the one that was interrupted, or a new one."""
        if not former:
            site = np.zeros((len(problem.x), problem.n_latent))
            return cls(problem.parameters(), rates, site)
        course = cls(former["logs"], former["rates"], former["site"])
        course.rounds, course.bounds = former["rounds"].tolist(), former["bounds"].tolist()
        if "point" in former:
            course.ascent = Ascent.from_arrays(former)
        return course

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it, to go on from."""
        return {
            "logs": self.logs,
            "rates": self.rates,
            "site": self.site,
            "rounds": np.array(self.rounds).reshape(len(self.rounds), 2 + len(self.rates)),
            "bounds": np.array(self.bounds),
        } | (self.ascent.arrays() if self.ascent else {})


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
    rounds : int
        Of the importance sampling.
    shape, rate : float
        Of the gamma prior of the rate of an inverse length scale; vague if small.
    """

    tolerance: float = 1e-8
    steps: int = 1000
    importance: int = 0
    rounds: int = 50
    shape: float = 1e-3
    rate: float = 1e-3

    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "multinomial_probit")

    def __post_init__(self) -> None:
        for name in ("tolerance", "steps", "rounds", "shape", "rate"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}")
        if self.importance < 0:
            raise SettingsError(f"importance must not be negative, got {self.importance}")

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior; its log evidence is the bound."""
        course = self._learn(problem, watch)
        problem = problem.with_parameters(course.logs)
        bound = Bound(problem)
        ascent = self._climb(bound, course, watch)
        component = Component(
            problem.kernels,
            problem.likelihood,
            bound.spectrum.smooth(bound.site(ascent.point))[np.newaxis],
            "independent",
            np.ones((len(problem.x), len(problem.kernels))),
        )
        report: dict[str, Any] = {"bound_within": left(ascent), "steps": len(course.bounds)}
        if course.rounds:
            report["kernels"] = [str(kernel) for kernel in problem.kernels]
        return Fit([component], ascent.value, _trace(course), report)

    def evidence(self, problem: Problem, start: NDArray[Any] | None = None) -> Evidence:
        """Return the bound and its gradient, from K_k: (c_k c_k' - (I + K_k)^-1) / 2, m = K c."""
        bound = Bound(problem)
        site = np.zeros((len(problem.x), problem.n_latent)) if start is None else start
        course = Course(problem.parameters(), np.empty(0), site)
        ascent = self._climb(bound, course, Alone())
        site = bound.site(ascent.point)
        coefficients, spectrum = bound.spectrum.smooth(site), bound.spectrum
        share = problem.n_latent // len(problem.kernels)
        weights = []
        for c, vectors in enumerate(spectrum.vectors):
            own = coefficients[:, c : c + share]
            inverse = vectors / (1.0 + spectrum.values[:, c]) @ vectors.T
            weights.append(0.5 * (own @ own.T - share * inverse))
        return Evidence(ascent.value, problem.pull_back(weights), site)

    def matrices(self, n_kernels: int, n_latent: int) -> int:
        """Return how many (n, n) matrices it holds: covariances, vectors, and what LAPACK needs."""
        return 2 * n_kernels + 3

    def _learn(self, problem: Problem, watch: Watch) -> Course:
        """Make the rounds of importance sampling that are left, if any are wanted."""
        if not self.importance:
            return Course.begin(problem, np.empty(0), watch.former)
        scales, prior = LengthScales.of(problem), Hyperprior(self.shape, self.rate)
        rates = prior.rates(scales.inverse(problem.parameters()))
        course = Course.begin(problem, rates, watch.former)
        while len(course.rounds) < self.rounds:
            here = problem.with_parameters(course.logs)
            bound = Bound(here)
            ascent = self._ascend(bound, Ascent.at(bound.regressed(course.site), bound))
            course.site = bound.site(ascent.point)
            phi, effective = scales.mean(
                here, course.site, course.rates, self.importance, len(course.rounds), watch
            )
            course.rounds.append([ascent.value, effective, *scales.inverse(course.logs).tolist()])
            course.logs, course.rates = scales.put(course.logs, phi), prior.rates(phi)
            done = len(course.rounds)
            watch.say(done, self.rounds, course.arrays, log_evidence=ascent.value)
        return course

    def _climb(self, bound: Bound, course: Course, watch: Watch) -> Ascent:
        """Make the last ascent, or what is left of it, and tell of every step."""
        if course.ascent is None:
            course.ascent = Ascent.at(bound.regressed(course.site), bound)
            course.bounds = [course.ascent.value]

        def tell(ascent: Ascent) -> None:
            course.bounds.append(ascent.value)
            watch.say(len(course.bounds), 0, course.arrays, log_evidence=ascent.value)

        return self._ascend(bound, course.ascent, tell)

    def _ascend(
        self, bound: Bound, ascent: Ascent, tell: Callable[[Ascent], None] = lambda ascent: None
    ) -> Ascent:
        """Climb to the maximum of the bound.

        Raises
        ------
        NumericalError
            If the steps allowed do not lead there.
        """
        for _ in range(self.steps):
            if left(ascent) <= self.tolerance:
                return ascent
            if ascent.step(bound, bound.solve) == 0.0:
                break
            tell(ascent)
        if left(ascent) > max(self.tolerance, STALLED):
            raise NumericalError(
                f"the bound must come within tolerance={self.tolerance:g} nats of its maximum, "
                f"found that {left(ascent):.2g} may be left; raise steps={self.steps}, or use a "
                "kernel of smaller variance"
            )
        return ascent


def _trace(course: Course) -> list[dict[str, float]]:
    """Return the figures of the rounds, then of the steps of the last ascent."""
    rounds = [
        {"log_evidence": bound, "effective_draws": effective}
        | {f"phi_{j}": value for j, value in enumerate(phi)}
        for bound, effective, *phi in course.rounds
    ]
    return rounds + [{"log_evidence": value} for value in course.bounds]
