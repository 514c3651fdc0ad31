"""Annealed importance sampling: the marginal likelihood without a Gaussian approximation.

A run draws latent values from a Gaussian q that can be integrated, and takes them through
q(u) (p(u) p(y|u) / q(u))^b for b from 0 to 1; the mean over runs of

    exp(sum (b_t - b_(t-1)) log r(u_(t-1)))        r(u) = p(u) p(y|u) / q(u)

is the marginal likelihood (Neal 2001). With the prior for q this is the reference of Kuss &
Rasmussen (2005) and Rasmussen & Williams (2006, figure 3.12), b_t = (t / T)^4 as well. Where the
prior is wide and the labels say much, that needs very many temperatures. With the posterior of a
dense method for q, q(u) = p(u) prod s_i(u_i) / Z_q, the ratio is Z_q prod p(y_i|u_i) / s_i(u_i): a
function of single rows that hardly varies. The estimate is unbiased whatever q is.

The transitions are elliptical slices (Murray, Adams & MacKay 2010) with q in the place of the
prior: nothing is to be tuned, and every one of them moves. Runs go side by side, `ROUND`
temperatures at a time. What is drawn is keyed by the seed, the run and the temperature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Problem, Watch
from sparsegp.dense.component import Component
from sparsegp.dense.precisions import FORMS, Full, of_latent
from sparsegp.errors import SettingsError
from sparsegp.math.linalg import jittered_cholesky, solve_lower
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.types import Doubles

KEY = 47
ROUND = 100


@dataclass(frozen=True)
class Ladder:
    """How the temperature falls.

    Parameters
    ----------
    runs : int
        Independent ones.
    temperatures : int
        T.
    slices : int
        Transitions at each of them.
    power : float
        b_t = (t / T)^power.

    Raises
    ------
    SettingsError
        If a number is out of range.
    """

    runs: int = 8
    temperatures: int = 2000
    slices: int = 1
    power: float = 4.0

    def __post_init__(self) -> None:
        for name, least in (("runs", 2), ("temperatures", 1), ("slices", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not 0.0 < self.power < np.inf:
            raise SettingsError(f"power must be positive, got {self.power}")

    def inverse(self, t: int) -> float:
        """Return b_t."""
        return float((t / self.temperatures) ** self.power)


@dataclass(frozen=True)
class LogMarginal:
    """An estimate of the log marginal likelihood.

    Attributes
    ----------
    value : float
        In nats. Its expectation is not above the truth.
    error : float
        Standard error, to first order.
    effective_runs : float
        (sum w)^2 / sum w^2 of the weights: near one, a single run decides and `error` tells little.
    log_weights : Doubles (runs,)
    jitter : float
        What was added to the diagonal of a covariance at most, relative to its mean.
    """

    value: float
    error: float
    effective_runs: float
    log_weights: Doubles
    jitter: float

    @classmethod
    def of(cls, log_weights: Doubles, jitter: float) -> "LogMarginal":
        """Return the estimate by the log weights of runs, (runs,)."""
        count = len(log_weights)
        value = float(log_sum_exp(log_weights)) - np.log(count)
        relative = np.exp(log_weights - value)
        error = float(relative.std(ddof=1) / np.sqrt(count))
        effective = count**2 / float(np.square(relative).sum())
        return cls(float(value), error, effective, log_weights, jitter)


@dataclass(frozen=True)
class Run:
    """Where a run is.

    Attributes
    ----------
    latent : Doubles (n, R)
    done : int
        Temperatures behind it.
    log_weight : float
    """

    latent: Doubles
    done: int
    log_weight: float


class Base:
    """The Gaussian q = N(mean, (K^-1 + P)^-1) = p(u) exp(h'u - u'P u / 2) / Z_q.

    Parameters
    ----------
    problem : Problem
    component : Component, optional
        The posterior that it is; without one it is the prior.

    Attributes
    ----------
    mean : Doubles (n, R)
    log_integral : float
        log Z_q.
    jitter : float
        What was added to the diagonal of a prior covariance at most, relative to its mean.
    """

    def __init__(self, problem: Problem, component: Component | None) -> None:
        covariances = problem.covariances()
        pairs = [jittered_cholesky(each, "the prior covariance") for each in covariances]
        self.jitter = max(jitter for _, jitter in pairs)
        self._shape = (len(problem.x), problem.n_latent)
        self._factors = np.stack([factor for factor, _ in pairs])
        self._sites: Full | None = None
        self._shift = self.mean = np.zeros(self._shape)
        self.log_integral = 0.0
        if component is not None:
            coefficients = component.coefficients[0]
            every = of_latent(covariances, problem.n_latent)
            self.mean = np.einsum("rij,jr->ir", every, coefficients, optimize=True)
            self._sites = _full(component, covariances, problem.n_latent)
            self._shift = self._sites.weigh(self.mean) + coefficients
            square = float(np.sum(self._shift * self.mean))
            self.log_integral = 0.5 * (square - self._sites.log_det)

    def away(self, rng: np.random.Generator) -> Doubles:
        """Return a draw minus the mean, (n, R)."""
        prior = self._times_factor(rng.standard_normal(self._shape))
        if self._sites is None:
            return prior
        # u - K P^(1/2) B^-1 (P^(1/2) u + e) with B = I + P^(1/2) K P^(1/2), u and e independent
        root, factor = self._sites.root, self._sites.factor
        right = np.einsum("irs,is->ir", root, prior) + rng.standard_normal(self._shape)
        solved = solve_lower(factor, solve_lower(factor, right.ravel()), transposed=True)
        back = np.einsum("irs,is->ir", root, solved.reshape(self._shape))
        return prior - self._times_factor(self._times_factor(back, transposed=True))

    def log_sites(self, latent: Doubles) -> float:
        """Return h'u - u'P u / 2."""
        if self._sites is None:
            return 0.0
        return float(np.sum(latent * (self._shift - 0.5 * self._sites.weigh(latent))))

    def _times_factor(self, right: Doubles, transposed: bool = False) -> Doubles:
        """Return L, or L', applied to (n, R), with L L' = K."""
        factors = self._factors.swapaxes(1, 2) if transposed else self._factors
        every = of_latent(factors, self._shape[1])
        return np.asarray((every @ right.T[..., np.newaxis])[..., 0].T)


def _full(component: Component, covariances: Doubles, n_latent: int) -> Full:
    """Return the sites of a component as blocks."""
    sites = FORMS[component.form](component.precision, covariances, n_latent)
    units = np.broadcast_to(
        np.eye(n_latent)[:, np.newaxis], (n_latent, len(component.precision), n_latent)
    )
    blocks = np.stack([sites.weigh(unit) for unit in units], axis=2)
    return Full(0.5 * (blocks + blocks.swapaxes(1, 2)), covariances, n_latent)


@dataclass(frozen=True)
class Annealing:
    """What all runs share.

    Attributes
    ----------
    problem : Problem
    base : Base
    ladder : Ladder
    """

    problem: Problem
    base: Base
    ladder: Ladder

    def log_ratio(self, latent: Doubles) -> float:
        """Return log r(u) - log Z_q."""
        density = self.problem.likelihood.log_density(latent, self.problem.target)
        return float(density.sum()) - self.base.log_sites(latent)


def log_marginal(
    problem: Problem,
    watch: Watch | None = None,
    ladder: Ladder | None = None,
    component: Component | None = None,
) -> LogMarginal:
    """Return the log marginal likelihood of a problem's labels.

    Parameters
    ----------
    problem : Problem
    watch : Watch, optional
    ladder : Ladder, optional
    component : Component, optional
        A posterior of the same rows, with one mean, for the runs to start at: best that of ``ep``
        or ``softmax_ep``; where the prior is wide that of ``laplace`` can be worse than the prior.
        Without one they start at the prior.

    Raises
    ------
    NumericalError
        If a covariance is not positive definite, a thousandth of its diagonal added.
    Interrupted
        If the watch asks for it.
    """
    watch, ladder = watch or Alone(), ladder or Ladder()
    annealing = Annealing(problem, Base(problem, component), ladder)
    runs = _former(watch.former) or [_begin(annealing, number) for number in range(ladder.runs)]
    total = ladder.runs * ladder.temperatures
    while sum(run.done for run in runs) < total:
        for number, run in watch.map(_round, annealing, list(enumerate(runs))):
            runs[number] = run
        state = _state(runs)
        watch.say(sum(run.done for run in runs), total, state.copy)
    weights = np.array([run.log_weight for run in runs]) + annealing.base.log_integral
    return LogMarginal.of(weights, annealing.base.jitter)


def _begin(annealing: Annealing, number: int) -> Run:
    base = annealing.base
    return Run(base.mean + base.away(_generator(annealing, number, 0)), 0, 0.0)


def _round(annealing: Annealing, task: tuple[int, Run]) -> Run:
    """Return a run after some more temperatures."""
    number, run = task
    latent, log_weight, ladder = run.latent, run.log_weight, annealing.ladder
    last = min(run.done + ROUND, ladder.temperatures)
    log_ratio = annealing.log_ratio(latent)
    for t in range(run.done + 1, last + 1):
        log_weight += (ladder.inverse(t) - ladder.inverse(t - 1)) * log_ratio
        rng = _generator(annealing, number, t)
        for _ in range(ladder.slices):
            latent, log_ratio = _slice(annealing, latent, log_ratio, ladder.inverse(t), rng)
    return Run(latent, last, log_weight)


def _slice(
    annealing: Annealing,
    latent: Doubles,
    log_ratio: float,
    inverse: float,
    rng: np.random.Generator,
) -> tuple[Doubles, float]:
    """Return latent values and their log ratio after an elliptical slice."""
    mean = annealing.base.mean
    away, other = latent - mean, annealing.base.away(rng)
    bar = inverse * log_ratio + np.log1p(-rng.uniform())
    angle = 2.0 * np.pi * rng.uniform()
    low, high = angle - 2.0 * np.pi, angle
    while True:
        new = mean + away * np.cos(angle) + other * np.sin(angle)
        found = annealing.log_ratio(new)
        if inverse * found >= bar:
            return new, found
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        if angle == 0.0 or low == high:  # the point itself, but for rounding
            return latent, log_ratio
        angle = low + (high - low) * rng.uniform()


def _generator(annealing: Annealing, number: int, t: int) -> np.random.Generator:
    return np.random.default_rng([annealing.problem.seed, KEY, number, t])


def _state(runs: Sequence[Run]) -> dict[str, NDArray[Any]]:
    return {
        "annealing_latent": np.array([run.latent for run in runs]),
        "annealing_done": np.array([run.done for run in runs]),
        "annealing_log_weight": np.array([run.log_weight for run in runs]),
    }


def _former(former: Mapping[str, NDArray[Any]]) -> list[Run]:
    """Return the runs of `_state`, or none."""
    if "annealing_done" not in former:
        return []
    columns = (former["annealing_" + name] for name in ("latent", "done", "log_weight"))
    return [Run(u, int(t), float(w)) for u, t, w in zip(*columns, strict=True)]
