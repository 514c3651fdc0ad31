"""Variational inference for the multinomial probit and the probit (Girolami & Rogers 2006; GR).

With the kernel fixed it is the maximum of a concave bound (bound.py). Length scales can be learnt
by importance sampling (length_scales.py), in rounds of an ascent and a choice of length scales; or,
as in the paper, of a few updates of the means and a choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.bound import Bound, ascend, left
from sparsegp.dense.component import Component
from sparsegp.dense.length_scales import WEIGHTS, Hyperprior, LengthScales
from sparsegp.errors import SettingsError
from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles

PATIENCE = 3
"""Rounds of which one must raise the bound."""


@dataclass
class Course:
    """What a fit has come to.

    Attributes
    ----------
    logs : Doubles (q,)
        Parameters of the kernels of the last round; of the highest bound so far for `site`.
    rates : Doubles (s,)
        Means of psi, where length scales are learnt.
    site, latent : Doubles (n, R)
        Their y~ and m~.
    rounds : list of (bound, effective draws, phi ...)
        Of the importance sampling; the first is that of the kernels given.
    bounds : list of float
        Along the last ascent.
    ascent : Ascent, optional
    """

    logs: Doubles
    rates: Doubles
    site: Doubles
    latent: Doubles
    rounds: list[list[float]] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    ascent: Ascent | None = None

    @classmethod
    def begin(
        cls, problem: Problem, rates: Doubles, former: Mapping[str, NDArray[Any]]
    ) -> "Course":
        """Return the one that was interrupted, or a new one."""
        if not former:
            zero = np.zeros((len(problem.x), problem.n_latent))
            return cls(problem.parameters(), rates, zero, zero)
        course = cls(former["logs"], former["rates"], former["site"], former["latent"])
        course.rounds, course.bounds = former["rounds"].tolist(), former["bounds"].tolist()
        if "point" in former:
            course.ascent = Ascent.from_arrays(former)
        return course

    @property
    def reached(self) -> list[float]:
        """Bounds of the rounds."""
        return [bound for bound, *_ in self.rounds]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it, to go on from."""
        return {
            "logs": self.logs,
            "rates": self.rates,
            "site": self.site,
            "latent": self.latent,
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
    weights : str
        Of these draws: "latent", as in the program of GR, or "site", with which the rounds climb
        the bound: one that lowers it is made again (length_scales.py).
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

    tolerance: float = 1e-8
    steps: int = 1000
    importance: int = 0
    weights: str = "latent"
    updates: int = 0
    rounds: int = 50
    rise: float = 0.02
    shape: float = 1e-3
    rate: float = 1e-3

    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "multinomial_probit")

    def __post_init__(self) -> None:
        for name in ("tolerance", "steps", "rounds", "shape", "rate"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("importance", "updates"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.weights not in WEIGHTS:
            raise SettingsError(f"weights must be {' or '.join(WEIGHTS)}, got {self.weights!r}")

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior; its log evidence is the bound."""
        course = self._learn(problem, watch)
        if self.importance:  # a kernel that stays is the one given, to the last bit
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
        course = Course(problem.parameters(), np.empty(0), site, site)
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

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds, gradients of the bound the most."""
        return 3 * n_kernels + 3

    def _learn(self, problem: Problem, watch: Watch) -> Course:
        """Make the rounds of importance sampling that are left, if any are wanted."""
        if not self.importance:
            return Course.begin(problem, np.empty(0), watch.former)
        scales, prior = LengthScales.of(problem), Hyperprior(self.shape, self.rate)
        rates = prior.rates(scales.inverse(problem.parameters()))
        course = Course.begin(problem, rates, watch.former)
        while course.ascent is None:
            number, logs, effective = len(course.rounds), course.logs, 0.0
            if number:
                phi, effective = scales.mean(
                    problem.with_parameters(logs),
                    course.latent if self.weights == "latent" else course.site,
                    course.rates,
                    self.importance,
                    number,
                    watch,
                    self.weights,
                )
                logs = scales.put(logs, phi)
            bound = Bound(problem.with_parameters(logs))
            value, point = self._round(bound, course)
            phi = scales.inverse(logs)
            if not number or self.weights != "site" or value > max(course.reached):
                course.logs, course.rates = logs, prior.rates(phi)
                course.site, course.latent = bound.site(point), bound.mean(point)
            course.rounds.append([value, effective, *phi.tolist()])
            if number == self.rounds or self._settled(course):
                break
            watch.say(number + 1, self.rounds + 1, course.arrays, log_evidence=max(course.reached))
        return course

    def _round(self, bound: Bound, course: Course) -> tuple[float, Doubles]:
        """Return the bound and its point after the ascent or the updates of a round."""
        point = bound.regressed(course.site)
        if not self.updates:
            ascent = ascend(bound, Ascent.at(point, bound), self.tolerance, self.steps)
            return ascent.value, ascent.point
        more = self.updates - 1 if course.rounds else self.updates  # the first point is m = 0
        for _ in range(more):
            point = bound.regressed(bound.site(point))
        return bound(point)[0], point

    def _settled(self, course: Course) -> bool:
        """Return whether the last rounds have raised the bound too little to go on.

        Not while the kernel tells as little as that of the start: where rows are too far from each
        other all draws weigh alike, and phi wanders until an input is found that matters.
        """
        before, last = course.reached[:-PATIENCE], course.reached[-PATIENCE:]
        enough = self.rise * len(course.site)
        if not before or max(course.reached) - course.reached[0] < enough:
            return False
        return max(last) - max(before) < enough

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
