"""Annealed importance sampling: the marginal likelihood without a Gaussian approximation.

A run draws latent values from the prior and takes them through p(u) p(y|u)^b for b from 0 to 1; the
mean over runs of exp(sum (b_t - b_(t-1)) log p(y|u_(t-1))) is the marginal likelihood (Neal 2001;
Kuss & Rasmussen 2005, the reference of Rasmussen & Williams 2006, figure 3.12). As there
b_t = (t / T)^4. The transitions are elliptical slices (Murray, Adams & MacKay 2010): nothing is to
be tuned, and every one of them moves.

Runs go side by side, `ROUND` temperatures at a time. What is drawn is keyed by the seed, the run
and the temperature. It is for any likelihood of class codes or numbers, and any number of latent
values a row; a step costs n^2 for each of these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Problem, Watch
from sparsegp.dense.precisions import of_latent
from sparsegp.errors import SettingsError
from sparsegp.math.linalg import jittered_cholesky
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


@dataclass(frozen=True)
class Annealing:
    """What all runs share.

    Attributes
    ----------
    problem : Problem
    factors : Doubles (C, n, n)
        Of the prior covariances.
    ladder : Ladder
    """

    problem: Problem
    factors: Doubles
    ladder: Ladder

    def prior(self, rng: np.random.Generator) -> Doubles:
        """Return latent values from the prior, (n, R)."""
        normal = rng.standard_normal((len(self.problem.x), self.problem.n_latent))
        every = of_latent(self.factors, self.problem.n_latent)
        return np.asarray((every @ normal.T[..., np.newaxis])[..., 0].T)

    def log_likelihood(self, latent: Doubles) -> float:
        """Return log p(y|u)."""
        return float(self.problem.likelihood.log_density(latent, self.problem.target).sum())


def log_marginal(
    problem: Problem, watch: Watch | None = None, ladder: Ladder | None = None
) -> LogMarginal:
    """Return the log marginal likelihood of a problem's labels.

    Parameters
    ----------
    problem : Problem
    watch : Watch, optional
    ladder : Ladder, optional

    Raises
    ------
    NumericalError
        If a covariance is not positive definite, a thousandth of its diagonal added.
    Interrupted
        If the watch asks for it.
    """
    watch, ladder = watch or Alone(), ladder or Ladder()
    pairs = [jittered_cholesky(each, "the prior covariance") for each in problem.covariances()]
    annealing = Annealing(problem, np.stack([factor for factor, _ in pairs]), ladder)
    runs = _former(watch.former) or [_begin(annealing, number) for number in range(ladder.runs)]
    total = ladder.runs * ladder.temperatures
    while sum(run.done for run in runs) < total:
        for number, run in watch.map(_round, annealing, list(enumerate(runs))):
            runs[number] = run
        state = _state(runs)
        watch.say(sum(run.done for run in runs), total, state.copy)
    weights = np.array([run.log_weight for run in runs])
    return LogMarginal.of(weights, max(jitter for _, jitter in pairs))


def _begin(annealing: Annealing, number: int) -> Run:
    return Run(annealing.prior(_generator(annealing, number, 0)), 0, 0.0)


def _round(annealing: Annealing, task: tuple[int, Run]) -> Run:
    """Return a run after some more temperatures."""
    number, run = task
    latent, log_weight, ladder = run.latent, run.log_weight, annealing.ladder
    last = min(run.done + ROUND, ladder.temperatures)
    log_likelihood = annealing.log_likelihood(latent)
    for t in range(run.done + 1, last + 1):
        log_weight += (ladder.inverse(t) - ladder.inverse(t - 1)) * log_likelihood
        rng = _generator(annealing, number, t)
        for _ in range(ladder.slices):
            latent, log_likelihood = _slice(
                annealing, latent, log_likelihood, ladder.inverse(t), rng
            )
    return Run(latent, last, log_weight)


def _slice(
    annealing: Annealing,
    latent: Doubles,
    log_likelihood: float,
    inverse: float,
    rng: np.random.Generator,
) -> tuple[Doubles, float]:
    """Return latent values and their log likelihood after an elliptical slice."""
    other = annealing.prior(rng)
    bar = inverse * log_likelihood + np.log1p(-rng.uniform())
    angle = 2.0 * np.pi * rng.uniform()
    low, high = angle - 2.0 * np.pi, angle
    while True:
        new = latent * np.cos(angle) + other * np.sin(angle)
        found = annealing.log_likelihood(new)
        if inverse * found >= bar:
            return new, found
        low, high = (angle, high) if angle < 0.0 else (low, angle)
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
