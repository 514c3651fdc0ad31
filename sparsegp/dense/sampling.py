"""Hybrid Monte Carlo over kernel parameters with a hyperprior.

The target is the evidence of a dense method times the hyperprior (Williams & Barber 1998, section 3
and appendix B; Neal 1997). Some draws are kept, evenly spaced; the method's posteriors for them are
the components of a mixture, so that predictions are averaged over the parameters. The accuracy is
that of the evidence: "exact" has no error, "ep" a small one, "laplace" a larger one.

Chains run in parallel, `ROUND` steps at a time. Random numbers are keyed by the seed, the chain and
the step, so results depend neither on where chains run nor on interruptions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, Iterative, Method, Problem, RunTasks, Status
from sparsegp.dense.mixture import Component
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.learning.hyperpriors import Hyperprior, parse
from sparsegp.math.chains import effective_sample_size, r_hat
from sparsegp.math.hmc import Chain, Point, advance
from sparsegp.types import Doubles

KEY, KEY_OF_STARTS = 41, 43
ROUND = 10
SPREAD = 0.5
"""Standard deviation of initial log parameters about the given ones, except in the first chain."""
RETREATS = 10
MIN_DRAWS = 4
"""Minimum number of draws per chain, for the diagnostics of its halves."""


@dataclass(frozen=True)
class Target:
    """Minus the log posterior density of kernel parameters, up to a constant.

    Raises
    ------
    SettingsError
        If the method has no evidence, or a parameter has no prior.
    """

    method: Method  # a method with an evidence
    problem: Problem  # with the kernels at which the first chain starts
    prior: Hyperprior  # on all `Problem.parameters`: without one, the posterior may be improper

    def __post_init__(self) -> None:
        if not self.method.has_evidence:
            self.method.evidence(self.problem)  # raises, with the methods that have one
        known = {index for term in self.prior.terms for index in np.atleast_1d(term.index)}
        missing = [name for i, name in enumerate(self.problem.parameter_names) if i not in known]
        if missing:
            raise SettingsError(
                "every parameter of the kernels must have a hyperprior, or the posterior may have "
                f"no integral; got none of {', '.join(missing)}; give for example "
                "'v: lognormal(0, 4); l: lognormal(0, 1)'"
            )

    def __call__(self, position: Doubles, hint: NDArray[Any]) -> Point:
        """Return the point at log parameters (q,), with infinite energy if the method fails."""
        outside = Point(position, np.inf, np.zeros_like(position), hint)
        try:
            with np.errstate(over="ignore", under="ignore"):
                penalty, slope = self.prior(position)
                some = self.problem.with_parameters(position)
                found = self.method.evidence(some, hint if hint.size else None)
        except (NumericalError, SettingsError):  # also for parameters out of range
            return outside
        energy, gradient = penalty - found.value, slope - found.gradient
        finite = np.isfinite(energy) and np.isfinite(gradient).all()
        return Point(position, energy, gradient, found.near) if finite else outside


@dataclass(frozen=True)
class SamplingState:
    """State of the sampling.

    The three figures of a step are the log posterior density up to a constant, whether the step was
    accepted, and its size.
    """

    chains: tuple[Chain, ...]  # empty before the first step
    positions: Doubles  # (chains, steps, q)
    figures: Doubles  # (chains, steps, 3)


@dataclass(frozen=True)
class Schedule(Iterative[Target]):
    """Number and length of the chains, and of their steps."""

    State: ClassVar[type] = SamplingState

    chains: int = 4
    burn_in: int = 100  # initial steps of each chain, discarded; they adapt step size and masses
    draws: int = 250  # steps of each chain after the burn-in
    kept: int = 100  # draws, from all chains together, used for predictions; no more than there are
    leapfrogs: int = 10  # maximum number of evaluations of the evidence in a step

    def start(self, problem: Target, near: Any = None) -> SamplingState:
        """Return the state without chains."""
        size = len(problem.problem.parameters())
        return SamplingState((), np.empty((self.chains, 0, size)), np.empty((self.chains, 0, 3)))

    def step(self, problem: Target, state: SamplingState, run_tasks: RunTasks) -> SamplingState:
        """Make up to `ROUND` steps of each chain."""
        left = self.burn_in + self.draws - state.positions.shape[1]
        tasks = list(enumerate(state.chains or [None] * self.chains))
        shared = problem, self, min(ROUND, left)
        found = run_tasks(_advance, shared, tasks)
        chains, positions, figures = zip(*found, strict=True)
        return SamplingState(
            chains,
            np.concatenate([state.positions, positions], axis=1),
            np.concatenate([state.figures, figures], axis=1),
        )

    def status(self, state: SamplingState) -> Status:
        """Return the progress, which is finished after the last step."""
        done, latest = state.positions.shape[1], state.figures[:, -ROUND:]
        figures = {}
        if done:
            log_posterior, accepted = latest[:, -1, 0].mean(), latest[:, :, 1].mean()
            figures = {"log_posterior": float(log_posterior), "accepted": float(accepted)}
        steps = self.burn_in + self.draws
        return Status(self.chains * done, self.chains * steps, done == steps, figures)

    def finish(self, problem: Target, state: SamplingState, run_tasks: RunTasks) -> Fit:
        """Return the posterior as a mixture over draws of the kernel parameters.

        The trace has a row for every step of every chain. The report has the acceptance rate and
        step size of each chain, and mean, standard deviation, effective sample size and R-hat of
        each log parameter.
        """
        names = ("log_posterior", "accepted", "step_size")
        trace = [
            {"chain": c, "step": k, **dict(zip(names, row, strict=True))}
            for c, rows in enumerate(state.figures.tolist())
            for k, row in enumerate(rows)
        ]
        # a draw that occurs several times is fitted once, and contributes as many components
        pooled = state.positions[:, self.burn_in :].reshape(-1, state.positions.shape[2])
        kept = (2 * np.arange(self.kept) + 1) * len(pooled) // (2 * self.kept)
        distinct, numbers = np.unique(pooled[kept], axis=0, return_inverse=True)
        found = run_tasks(_posterior, (problem.method, problem.problem), list(distinct))
        components = [component for k in numbers.ravel() for component in found[int(k)]]
        return Fit(components, trace=trace, report=self._report(problem, state))

    def _report(self, target: Target, state: SamplingState) -> dict[str, Any]:
        draws, figures = (some[:, self.burn_in :] for some in (state.positions, state.figures))
        columns = {
            "name": target.problem.parameter_names,
            "mean": draws.mean(axis=(0, 1)).tolist(),
            "sd": draws.std(axis=(0, 1), ddof=1).tolist(),
            "effective_draws": effective_sample_size(draws).tolist(),
            "r_hat": r_hat(draws).tolist(),
        }
        schedule = {name: getattr(self, name) for name in ("chains", "burn_in", "draws", "kept")}
        return {
            "method": str(target.method),
            **schedule,
            "acceptance": figures[:, :, 1].mean(axis=1).tolist(),
            "step_size": figures[:, -1, 2].tolist(),
            "parameters": [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
        }


def kernel_prior(text: str, problem: Problem) -> Hyperprior:
    """Return the hyperprior described by a text, for the parameters of a problem; see `parse`."""
    return parse(text, problem.parameter_names, problem.x.shape[1])


def _begin(target: Target, number: int) -> Chain:
    """Return a chain before its first step; raise a NumericalError if the method fails there."""
    given = target.problem.parameters()
    shift = np.zeros_like(given)
    if number:
        rng = np.random.default_rng([target.problem.seed, KEY_OF_STARTS, number])
        shift = SPREAD * rng.standard_normal(len(given))
    for _ in range(RETREATS):
        point = target(given + shift, np.empty(0))
        if np.isfinite(point.energy):
            return Chain.begin(point)
        shift = shift / 2
    target.method.evidence(target.problem)  # raises, with the reason
    raise NumericalError(
        f"the log evidence of {target.method} and its gradient must be finite where chains start; "
        "start from other kernels"
    )


def _advance(
    shared: tuple[Target, Schedule, int], task: tuple[int, Chain | None]
) -> tuple[Chain, list[Doubles], list[list[float]]]:
    """Return a chain after more steps, with its positions (steps, q) and figures (steps, 3)."""
    (target, plan, steps), (number, chain) = shared, task
    chain, key = chain or _begin(target, number), (target.problem.seed, KEY, number)
    positions, figures = [], []
    for _ in range(steps):
        before = chain
        chain = advance(target, before, key, plan.burn_in, plan.leapfrogs)
        positions.append(chain.point.position)
        accepted = float(chain.point is not before.point)
        figures.append([-chain.point.energy, accepted, before.step_size])
    return chain, positions, figures


def _posterior(shared: tuple[Method, Problem], position: Doubles) -> Sequence[Component]:
    method, problem = shared
    return method.fit(problem.with_parameters(position)).components
