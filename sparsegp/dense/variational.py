"""Variational inference for the multinomial probit and the probit (Girolami & Rogers 2006; GR).

With the kernel fixed it is the maximum of a concave bound (bound.py). Length scales can be learnt
by importance sampling (length_scales.py), in rounds of an ascent and a choice of length scales.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.bound import Bound, ascend, left
from sparsegp.dense.component import Component
from sparsegp.dense.length_scales import Hyperprior, LengthScales
from sparsegp.errors import SettingsError
from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles


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
    def begin(
        cls, problem: Problem, rates: Doubles, former: Mapping[str, NDArray[Any]]
    ) -> "Course":
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
            ascent = ascend(
                bound, Ascent.at(bound.regressed(course.site), bound), self.tolerance, self.steps
            )
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

        return ascend(bound, course.ascent, self.tolerance, self.steps, tell)


def _trace(course: Course) -> list[dict[str, float]]:
    """Return the figures of the rounds, then of the steps of the last ascent."""
    rounds = [
        {"log_evidence": bound, "effective_draws": effective}
        | {f"phi_{j}": value for j, value in enumerate(phi)}
        for bound, effective, *phi in course.rounds
    ]
    return rounds + [{"log_evidence": value} for value in course.bounds]
