"""Laplace's approximation: a Gaussian about the mode of the posterior, by its curvature there.

Rasmussen & Williams 2006, sections 3.4 and 3.5, algorithms 3.1-3.4 (RW); for the multinomial probit
likelihood Girolami & Rogers 2006, appendix E. All likelihoods share the algorithm. With K the prior
covariance of all latent values, u = K a the latent values, g and P first and minus second
derivatives of the log likelihood, and V = (K + P^-1)^-1 (precisions.py), a Newton step is

    b = P u + g        a <- b - V K b        u <- K a

and at the mode, where a = g,

    log Z = log p(y|u) - a'u / 2 - log|I + K P| / 2
    d log Z = a' dK a / 2 - tr(V dK) / 2 + s' (I + K P)^-1 dK a        s_i = -d tr(S_i P_i) / 2 du_i

with S_i the posterior covariance of row i. The last term is there because the mode moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.component import TILE, Component
from sparsegp.dense.expansions import EXPANSIONS, Expansion
from sparsegp.dense.precisions import FORMS, Precisions
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.likelihoods import MultinomialProbit
from sparsegp.types import Doubles

SETTLED = 1e-14
"""Gain, in nats, that a step promises when the mode is found; it is half its squared length in
units of the posterior."""
NEAR = 1e-6
"""Promised gain, relative to what is maximised, below which whole steps are taken unseen."""
SUFFICIENT = 1e-4
HALVINGS = 40


@dataclass(frozen=True)
class Mode:
    """The mode of the posterior.

    Attributes
    ----------
    coefficients : Doubles (n, R)
        a = g; the latent values are K a.
    latent : Doubles (n, R)
    sites : Precisions
    log_evidence : float
    steps : int
        Newton steps.
    """

    coefficients: Doubles
    latent: Doubles
    sites: Precisions
    log_evidence: float
    steps: int


@dataclass(frozen=True)
class Laplace(Method, name="laplace"):
    """A Gaussian about the mode.

    Parameters
    ----------
    max_steps : int
        Newton steps, at most.
    """

    likelihoods: ClassVar[tuple[str, ...]] = (
        "logistic",
        "probit",
        "softmax",
        "multinomial_probit",
    )

    max_steps: int = 100

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise SettingsError(f"max_steps of laplace must be at least 1, got {self.max_steps}")

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior; see `Method`."""
        expansion = _expansion(problem)
        mode = self._mode(problem, expansion, problem.covariances(), None, watch)
        component = Component(
            problem.kernels,
            problem.likelihood,
            mode.coefficients[np.newaxis],
            expansion.form,
            mode.sites.precision,
        )
        return Fit([component], mode.log_evidence, report={"newton_steps": mode.steps})

    def evidence(self, problem: Problem, start: NDArray[Any] | None = None) -> Evidence:
        """Return the log marginal likelihood and its gradient; see `Method`."""
        expansion, covariances = _expansion(problem), problem.covariances()
        mode = self._mode(problem, expansion, covariances, start, Alone())
        a, sites = mode.coefficients, mode.sites
        s = -0.5 * expansion.bend(mode.latent, row_covariances(sites, covariances, a.shape[1]))
        pull = s - _columns(sites, times(covariances, s))  # (I - V K) s
        weights = np.zeros_like(covariances)
        for r in range(a.shape[1]):
            weights[r % len(weights)] += np.outer(0.5 * a[:, r] + pull[:, r], a[:, r])
            weights[r % len(weights)] -= 0.5 * sites.block(r)
        return Evidence(mode.log_evidence, problem.pull_back(list(weights)), a)

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds; see `Method`."""
        if likelihood == MultinomialProbit.name:
            return 3 * n_latent**2 + n_kernels + 2
        return (n_latent if n_latent > 1 else 0) + 2 * n_kernels + 6

    def _mode(
        self,
        problem: Problem,
        expansion: Expansion[Any],
        covariances: Doubles,
        start: NDArray[Any] | None,
        watch: Watch,
    ) -> Mode:
        climb = Climb.begin(expansion, covariances, problem.n_latent, start, watch.former)
        while climb.steps <= self.max_steps:
            precision = expansion.precision(climb.latent)
            sites = FORMS[expansion.form](precision, covariances, problem.n_latent)
            if climb.step(sites):
                evidence = climb.height - 0.5 * sites.log_det
                return Mode(climb.coefficients, climb.latent, sites, evidence, climb.steps)
            watch.say(climb.steps, 0, climb.arrays, height=climb.height)
            del sites  # before the next ones are made: with several classes they are the memory
        raise NumericalError(
            f"the posterior mode must be found in max_steps={self.max_steps} Newton steps, found "
            f"log p(y|u) - a'u/2 = {climb.height:g} still rising; allow more, or use a kernel of "
            "smaller variance"
        )


class Climb:
    """Newton's method with halved steps.

    Attributes
    ----------
    coefficients, latent : Doubles (n, R)
        a and u = K a.
    height : float
        log p(y|u) - a'u / 2.
    steps : int
    """

    def __init__(
        self, expansion: Expansion[Any], covariances: Doubles, a: Doubles, steps: int = 0
    ) -> None:
        self.expansion, self.covariances, self.steps = expansion, covariances, steps
        self._go(a)

    @classmethod
    def begin(
        cls,
        expansion: Expansion[Any],
        covariances: Doubles,
        n_latent: int,
        start: NDArray[Any] | None,
        former: Mapping[str, NDArray[Any]],
    ) -> "Climb":
        """Go on where it was, or begin at zero, or at a start that lies higher."""
        if "laplace_coefficients" in former:
            steps = int(former["laplace_steps"])
            return cls(expansion, covariances, former["laplace_coefficients"], steps)
        climb = cls(expansion, covariances, np.zeros((covariances.shape[1], n_latent)))
        if start is not None and start.shape == climb.coefficients.shape:
            other = cls(expansion, covariances, start)
            return max(climb, other, key=lambda each: each.height)
        return climb

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return where it is as arrays."""
        steps = np.array(self.steps)
        return {"laplace_coefficients": self.coefficients, "laplace_steps": steps}

    def _go(self, a: Doubles) -> None:
        self.coefficients, self.latent = a, times(self.covariances, a)
        self.height = self._height(a, self.latent)

    def _height(self, a: Doubles, latent: Doubles) -> float:
        return self.expansion.log_density(latent) - 0.5 * float(np.vdot(a, latent))

    def step(self, sites: Precisions) -> bool:
        """Make a step, and return whether it was the last, too small to change the sites.

        Raises
        ------
        NumericalError
            If no step along Newton's direction leads up.
        """
        slope = self.expansion.slope(self.latent)
        b = sites.weigh(self.latent) + slope
        ahead = b - _columns(sites, times(self.covariances, b))
        step = ahead - self.coefficients
        move = times(self.covariances, step)
        gain = 0.5 * float(np.vdot(slope - self.coefficients, move))
        if gain <= SETTLED:
            self._go(ahead)
            return True
        length = 1.0
        if gain > NEAR * (1.0 + abs(self.height)):
            length = self._length(step, move, gain)
        self._go(self.coefficients + length * step)
        self.steps += 1
        return False

    def _length(self, step: Doubles, move: Doubles, gain: float) -> float:
        """Return the longest of 1, 1/2, 1/4, ... that leads up far enough."""
        for halvings in range(HALVINGS):
            length = 0.5**halvings
            height = self._height(self.coefficients + length * step, self.latent + length * move)
            if height >= self.height + SUFFICIENT * length * gain:
                return length
        raise NumericalError(
            f"a Newton step must lead up, found none from log p(y|u) - a'u/2 = {self.height:g} "
            f"that promises {gain:g}; use a kernel of smaller variance"
        )


def times(covariances: Doubles, right: Doubles) -> Doubles:
    """Return K R, (n, R): one covariance (C = 1) for all latent values, or one each."""
    if len(covariances) == 1:
        return np.asarray(covariances[0] @ right)
    each = [covariance @ column for covariance, column in zip(covariances, right.T, strict=True)]
    return np.stack(each, axis=1)


def row_covariances(sites: Precisions, covariances: Doubles, n_latent: int) -> Doubles:
    """Return the posterior covariances of the rows themselves, (n, R, R)."""
    parts = []
    for start in range(0, covariances.shape[1], TILE):
        some = slice(start, start + TILE)
        prior = np.stack([np.diag(covariance)[some] for covariance in covariances])
        part = sites.covariance(covariances[:, :, some], prior)
        parts.append(part if part.ndim == 3 else part[:, :, np.newaxis] * np.eye(n_latent))
    return np.concatenate(parts)


def _columns(sites: Precisions, right: Doubles) -> Doubles:
    """Return V applied to one (n, R)."""
    return sites.apply(right[:, :, np.newaxis])[:, :, 0]


def _expansion(problem: Problem) -> Expansion[Any]:
    if problem.likelihood.name not in EXPANSIONS:
        raise SettingsError(
            f"method=laplace is for likelihood={' or '.join(EXPANSIONS)}, got "
            f"{problem.likelihood.name}; use ep"
        )
    return EXPANSIONS[problem.likelihood.name](problem.likelihood, problem.target)
