"""Inference with kernels as they are, learnt by the evidence, or sampled.

They are learnt by the highest marginal likelihood, times a prior density of their parameters. Every
evaluation is recorded; a search that was interrupted reads its records and goes on, with the same
result to the last bit.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sparsegp.dense.base import Fit, Method, Problem
from sparsegp.dense.driver import Session, Status
from sparsegp.dense.sampling import Schedule, Target, kernel_prior
from sparsegp.errors import NumericalError
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.learning.optimise import REACH
from sparsegp.state import from_arrays
from sparsegp.types import Doubles


def infer(
    method: Method,
    problem: Problem,
    learn: str = "none",
    hyperprior: str = "",
    steps: int = 100,
    session: Session | None = None,
) -> Fit:
    """Return the posterior, with kernels learnt as asked for.

    Parameters
    ----------
    method : Method
    problem : Problem
        Its kernels are the start.
    learn : str
        "none", "evidence": by `maximise`, or "hmc": by sampling.py.
    hyperprior : str
        Prior densities of what is learnt (learning/hyperpriors.py).
    steps : int
        Line searches, at most; or draws of each chain, and at most as many steps before these.
    session : Session, optional

    Raises
    ------
    SettingsError
        If the method cannot learn, or sampling lacks a prior.
    NumericalError
        If there is no end.
    Interrupted
        If the session asks for it.
    """
    if learn == "none":
        return method.fit(problem, session)
    prior = kernel_prior(hyperprior, problem)
    if learn == "hmc":
        kept = min(Schedule.kept, Schedule.chains * steps)
        schedule = Schedule(burn_in=min(Schedule.burn_in, steps), draws=steps, kept=kept)
        return schedule.fit(Target(method, problem, prior), session)
    problem, trace = maximise(method, problem, prior, session, steps)
    fit = method.fit(problem)
    return replace(fit, trace=[*trace, *fit.trace])


@dataclass
class Search:
    """Evaluations in order, and where the method's last search for its posterior ended.

    A search is deterministic: begun again, it asks for the same points, (q,) each.
    """

    points: list[Doubles] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    gradients: list[Doubles] = field(default_factory=list)
    near: Doubles | None = None


def maximise(
    method: Method,
    problem: Problem,
    prior: Hyperprior,
    session: Session | None = None,
    steps: int = 100,
    reach: float = REACH,
) -> tuple[Problem, list[dict[str, Any]]]:
    """Return the problem with the most probable kernels, as the method sees it.

    Parameters
    ----------
    method : Method
        One with an evidence.
    problem : Problem
        Its kernels are the start.
    prior : Hyperprior
        Of `Problem.parameters`.
    session : Session, optional
    steps : int
        Line searches, at most.
    reach : float
        How far a parameter, a logarithm, may go from the start.

    Returns
    -------
    problem : Problem
        With the parameters of the best evaluation.
    trace : list of dict
        For each evaluation log_evidence, log_posterior (with the prior) and parameters.

    Raises
    ------
    NumericalError
        If the method fails for some parameters, or the evidence is not finite.
    Interrupted
        If the session asks for it.
    """
    session = session or Session()
    search = from_arrays(Search, session.former) if session.former else Search()
    trace = list[dict[str, Any]]()

    def ask(parameters: Doubles) -> None:
        near = search.near if search.points else None
        found = method.evidence(problem.with_parameters(parameters), near)
        if not (np.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise NumericalError(
                f"the log evidence and its gradient must be finite, got {found.value} and "
                f"{found.gradient} at log parameters {parameters}; start elsewhere"
            )
        search.points.append(np.array(parameters))
        search.values.append(found.value)
        search.gradients.append(found.gradient)
        search.near = found.near
        session.report(Status(len(search.points), 0, False, {"log_evidence": found.value}), search)

    def objective(parameters: Doubles) -> tuple[float, Doubles]:
        number = len(trace)
        if not np.array_equal(search.points[number : number + 1], [parameters]):
            for entries in (search.points, search.values, search.gradients):
                del entries[number:]  # of another search, if there are any
            ask(parameters)
        value, gradient = search.values[number], search.gradients[number]
        penalty, slope = prior(parameters)
        row = {"log_evidence": value, "log_posterior": value - penalty}
        trace.append({**row, "parameters": parameters.tolist()})
        return penalty - value, slope - gradient

    start = problem.parameters()
    bounds = [(t - reach, t + reach) for t in start]
    minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}
    )
    best = max(trace, key=lambda row: float(row["log_posterior"]))
    return problem.with_parameters(np.array(best["parameters"])), trace
