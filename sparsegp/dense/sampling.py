"""Hybrid Monte Carlo over the parameters of kernels, with priors of these.

The target is the evidence of a dense method times the hyperprior (Williams & Barber 1998, section 3
and appendix B; Neal 1997). Some of the draws are kept, evenly spaced; the posteriors that the
method finds for them are the components of a mixture, so that predictions are averaged over the
parameters. How good that is depends on how good the evidence is: "exact" leaves no error, "ep" a
small one, "laplace" a larger one.

Chains go side by side, `ROUND` steps at a time. What a step draws is keyed by the seed, the chain
and the step, so results depend neither on how chains are dealt out nor on interruptions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Fit, Method, Problem, Watch
from sparsegp.dense.chains import effective_draws, r_hat
from sparsegp.dense.component import Component
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.learning.hyperpriors import Hyperprior, parse
from sparsegp.learning.objective import parameter_names
from sparsegp.math.hmc import Chain, Plan, Point, advance
from sparsegp.types import Booleans, Doubles

KEY, KEY_OF_STARTS = 41, 43
ROUND = 10
SPREAD = 0.5
"""Standard deviation of the starts of chains, but for the first one, about the given parameters."""
RETREATS = 10
LEAST_DRAWS = 4
"""Of a chain, for the figures of its halves."""


@dataclass(frozen=True)
class Schedule:
    """How long chains are.

    Parameters
    ----------
    chains : int
    burn_in : int
        Steps of each chain that are not drawn from, in which step size and masses are adapted.
    draws : int
        Steps of each chain after these.
    kept : int
        Draws of all chains together from which predictions are made.
    leapfrogs : int
        Evaluations of the evidence in a step, at most.
    acceptance : float
        Rate at which the step size aims.

    Raises
    ------
    SettingsError
        If a number is out of range.
    """

    chains: int = 4
    burn_in: int = 100
    draws: int = 250
    kept: int = 100
    leapfrogs: int = 10
    acceptance: float = 0.8

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("draws", LEAST_DRAWS), ("kept", 1), ("leapfrogs", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.burn_in < 0:
            raise SettingsError(f"burn_in must not be negative, got {self.burn_in}")
        if not 0.0 < self.acceptance < 1.0:
            raise SettingsError(f"acceptance must be between 0 and 1, got {self.acceptance}")
        if self.kept > self.chains * self.draws:
            raise SettingsError(
                f"kept={self.kept} must not exceed chains={self.chains} times draws={self.draws}"
            )

    @property
    def steps(self) -> int:
        """Steps of a chain."""
        return self.burn_in + self.draws

    def plan(self) -> Plan:
        """Return how chains move."""
        return Plan(self.burn_in, self.leapfrogs, self.acceptance)


@dataclass(frozen=True)
class Target:
    """Minus the log posterior density of kernel parameters, up to a constant."""

    method: Method
    problem: Problem
    prior: Hyperprior

    def __call__(self, position: Doubles, hint: NDArray[Any]) -> Point:
        """Return the energy at log parameters (q,); infinite where the method fails."""
        try:
            with np.errstate(over="ignore", under="ignore"):
                penalty, slope = self.prior(position)
                found = self.method.evidence(
                    self.problem.with_parameters(position), hint if hint.size else None
                )
        except (NumericalError, SettingsError):  # parameters beyond the range of numbers
            return Point(position, np.inf, np.zeros_like(position), hint)
        energy, gradient = penalty - found.value, slope - found.gradient
        if not (np.isfinite(energy) and np.isfinite(gradient).all()):
            return Point(position, np.inf, np.zeros_like(position), hint)
        return Point(position, energy, gradient, np.asarray(found.start))


@dataclass(frozen=True)
class History:
    """A chain and what it has done.

    Attributes
    ----------
    chain : Chain
    positions : Doubles (steps, q)
    figures : Doubles (steps, 3)
        Log posterior density up to a constant, whether accepted, step size.
    """

    chain: Chain
    positions: Doubles
    figures: Doubles

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as arrays."""
        return {**self.chain.arrays(), "positions": self.positions, "figures": self.figures}


def kernel_prior(text: str, problem: Problem) -> Hyperprior:
    """Return the hyperprior of a text, for the kernels of a problem.

    Raises
    ------
    SettingsError
        If the text cannot be read, or a quantity is not one of the kernels.
    """
    return parse(text, _names(problem), problem.x.shape[1])


def sample(
    method: Method,
    problem: Problem,
    prior: Hyperprior,
    watch: Watch,
    schedule: Schedule | None = None,
) -> Fit:
    """Return the posterior as a mixture over draws of the kernels' parameters.

    Parameters
    ----------
    method : Method
        One with an evidence.
    problem : Problem
        Its kernels are where the first chain starts.
    prior : Hyperprior
        Of every one of `Problem.parameters`, as `kernel_prior` gives it: without one, the posterior
        may have no integral.
    watch : Watch
    schedule : Schedule, optional

    Returns
    -------
    Fit
        The trace has a row for every step of every chain. The report tells acceptance rate and step
        size of each chain, and mean, standard deviation, effective number of draws and R-hat of
        each parameter, which is a logarithm.

    Raises
    ------
    SettingsError
        If the method has no evidence, or a parameter no prior.
    NumericalError
        If the method fails at the start.
    Interrupted
        If the watch asks for it.
    """
    schedule = schedule or Schedule()
    _check(method, problem, prior)
    target = Target(method, problem, prior)
    histories = _former(watch.former) or _starts(target, schedule, watch)
    total = schedule.chains * schedule.steps
    while sum(len(each.positions) for each in histories) < total:
        tasks = list(enumerate(histories))
        for number, history in watch.map(_round, (target, schedule), tasks):
            histories[number] = history
        arrays = _state(histories)
        figures = [history.figures[-1] for history in histories]
        watch.say(
            sum(len(each.positions) for each in histories),
            total,
            arrays.copy,
            log_posterior=float(np.mean([row[0] for row in figures])),
            accepted=float(np.mean([each.figures[-ROUND:, 1].mean() for each in histories])),
        )
    draws = np.array([each.positions[schedule.burn_in :] for each in histories])
    components = _components(method, problem, draws, schedule, watch)
    return Fit(
        components,
        trace=[
            {
                "chain": c,
                "step": k,
                "log_posterior": row[0],
                "accepted": row[1],
                "step_size": row[2],
            }
            for c, each in enumerate(histories)
            for k, row in enumerate(each.figures.tolist())
        ],
        report=_report(target, schedule, histories, draws),
    )


def _names(problem: Problem) -> list[str]:
    every = parameter_names(problem.kernels, problem.likelihood)
    return list(every[: len(problem.parameters())])


def _check(method: Method, problem: Problem, prior: Hyperprior) -> None:
    if not method.has_evidence:
        method.evidence(problem)  # says which methods have one
    names = _names(problem)
    without: Booleans = np.ones(len(names), dtype=bool)
    for term in prior.terms:
        without[term.index] = False
    if without.any():
        missing = ", ".join(name for name, lacks in zip(names, without, strict=True) if lacks)
        raise SettingsError(
            f"every parameter of the kernels must have a hyperprior, or the posterior may have no "
            f"integral; got none of {missing}; give for example 'v: lognormal(0, 4); "
            "l: lognormal(0, 1)'"
        )


def _starts(target: Target, schedule: Schedule, watch: Watch) -> list[History]:
    """Return the chains before their first step."""
    tasks = list(range(schedule.chains))
    found: dict[int, History] = dict(watch.map(_start, (target, schedule), tasks))
    return [found[number] for number in tasks]


def _start(shared: tuple[Target, Schedule], number: int) -> History:
    target, schedule = shared
    here = target.problem.parameters()
    away = np.zeros_like(here)
    if number:
        rng = np.random.default_rng([target.problem.seed, KEY_OF_STARTS, number])
        away = SPREAD * rng.standard_normal(len(here))
    for _ in range(RETREATS):
        point = target(here + away, np.empty(0))
        if np.isfinite(point.energy):
            chain = Chain.begin(point, schedule.plan())
            return History(chain, np.empty((0, len(here))), np.empty((0, 3)))
        away = away / 2
    target.method.evidence(target.problem)  # fails, and says why
    raise NumericalError(
        f"the log evidence of {target.method} and its gradient must be finite where chains start; "
        "start from other kernels"
    )


def _round(shared: tuple[Target, Schedule], task: tuple[int, History]) -> History:
    """Return a chain after some more steps."""
    (target, schedule), (number, history) = shared, task
    chain, positions, figures = history.chain, [], []
    for _ in range(min(ROUND, schedule.steps - chain.number)):
        chain, move = advance(target, chain, schedule.plan(), (target.problem.seed, KEY, number))
        positions.append(chain.point.position)
        figures.append([-chain.point.energy, float(move.accepted), move.step_size])
    return History(
        chain,
        np.concatenate([history.positions, positions]),
        np.concatenate([history.figures, figures]),
    )


def _state(histories: Sequence[History]) -> dict[str, NDArray[Any]]:
    return {
        f"hmc_{number}_{name}": array
        for number, history in enumerate(histories)
        for name, array in history.arrays().items()
    }


def _former(former: Mapping[str, NDArray[Any]]) -> list[History]:
    """Return the chains of `_state`, or none."""
    histories: list[History] = []
    while f"hmc_{len(histories)}_number" in former:
        start = f"hmc_{len(histories)}_"
        own = {k.removeprefix(start): v for k, v in former.items() if k.startswith(start)}
        histories.append(History(Chain.from_arrays(own), own["positions"], own["figures"]))
    return histories


def _components(
    method: Method, problem: Problem, draws: Doubles, schedule: Schedule, watch: Watch
) -> list[Component]:
    """Return the posteriors of the draws that are kept; one that was not left is found once."""
    every = draws.reshape(-1, draws.shape[2])
    kept = (2 * np.arange(schedule.kept) + 1) * len(every) // (2 * schedule.kept)
    distinct, numbers = np.unique(every[kept], axis=0, return_inverse=True)
    found = dict(watch.map(_posterior, (method, problem), list(distinct)))
    return [component for number in numbers.ravel() for component in found[int(number)]]


def _posterior(shared: tuple[Method, Problem], position: Doubles) -> Sequence[Component]:
    method, problem = shared
    return method.fit(problem.with_parameters(position), Alone()).components


def _report(
    target: Target, schedule: Schedule, histories: Sequence[History], draws: Doubles
) -> dict[str, Any]:
    figures = np.array([each.figures[schedule.burn_in :] for each in histories])
    pooled = draws.reshape(-1, draws.shape[2])
    rows = zip(
        _names(target.problem),
        pooled.mean(axis=0).tolist(),
        pooled.std(axis=0, ddof=1).tolist(),
        effective_draws(draws).tolist(),
        r_hat(draws).tolist(),
        strict=True,
    )
    fields = ("name", "mean", "sd", "effective_draws", "r_hat")
    return {
        "method": str(target.method),
        "chains": schedule.chains,
        "burn_in": schedule.burn_in,
        "draws": schedule.draws,
        "kept": schedule.kept,
        "acceptance": figures[:, :, 1].mean(axis=1).tolist(),
        "step_size": figures[:, -1, 2].tolist(),
        "parameters": [dict(zip(fields, row, strict=True)) for row in rows],
    }
