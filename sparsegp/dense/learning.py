"""Inference with kernels that are fixed, learnt by the evidence, or sampled.

Learning maximises the marginal likelihood times a prior density of the parameters. Every evaluation
is recorded; an interrupted optimisation replays its records and continues, with a bit-identical
result.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sparsegp.dense.base import Fit, Method, Problem, Session, Status
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
    """Return the posterior, with fixed, learnt or sampled kernels.

    Parameters
    ----------
    method : Method
    problem : Problem
        Problem with the initial kernels.
    learn : str
        "none", "evidence" (`maximise`) or "hmc" (sampling.py).
    hyperprior : str
        Text of the prior densities of the parameters (learning/hyperpriors.py).
    steps : int
        Maximum number of line searches; for "hmc" the draws per chain, and a limit on its burn-in.
    session : Session, optional

    Raises
    ------
    SettingsError
        If the method cannot learn, or a sampled parameter has no prior.
    NumericalError, Interrupted
        As for `Iterative.fit`.
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
class Records:
    """Evaluations in order, and a starting point for the method's next search for its posterior.

    Optimisation is deterministic: when restarted, it visits the same points, (q,) each.
    """

    points: list[Doubles] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    gradients: list[Doubles] = field(default_factory=list)
    near: Doubles | None = None

    def __post_init__(self) -> None:
        shapes = [[point.shape for point in each] for each in (self.points, self.gradients)]
        if shapes[0] != shapes[1] or len(self.values) != len(self.points):
            raise ValueError("every evaluation has a point, a value and a gradient")


def maximise(
    method: Method,
    problem: Problem,
    prior: Hyperprior,
    session: Session | None = None,
    steps: int = 100,
) -> tuple[Problem, list[dict[str, Any]]]:
    """Return the problem with the most probable kernels within `REACH` of the initial ones.

    Parameters
    ----------
    method : Method
        Method with an evidence.
    problem : Problem
        Problem with the initial kernels.
    prior : Hyperprior
        Prior on `Problem.parameters`.
    session : Session, optional
    steps : int
        Maximum number of line searches.

    Returns
    -------
    problem : Problem
        With the parameters of the best evaluation.
    trace : list of dict
        log_evidence, log_posterior (prior included) and parameters of each evaluation.

    Raises
    ------
    NumericalError
        If the method fails for some parameters, or the evidence is not finite.
    """
    session = session or Session()
    records = from_arrays(Records, session.former) if session.former else Records()
    trace = list[dict[str, Any]]()

    def evaluate(parameters: Doubles) -> None:
        near = records.near if records.points else None
        found = method.evidence(problem.with_parameters(parameters), near)
        if not (np.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise NumericalError(
                f"the log evidence and its gradient must be finite, got {found.value} and "
                f"{found.gradient} at log parameters {parameters}; start elsewhere"
            )
        records.points.append(np.array(parameters))
        records.values.append(found.value)
        records.gradients.append(found.gradient)
        records.near = found.near
        status = Status(len(records.points), 0, False, {"log_evidence": found.value})
        session.report(status, records)

    def objective(parameters: Doubles) -> tuple[float, Doubles]:
        number = len(trace)
        if not np.array_equal(records.points[number : number + 1], [parameters]):
            for entries in (records.points, records.values, records.gradients):
                del entries[number:]  # they belong to another optimisation
            evaluate(parameters)
        value, gradient = records.values[number], records.gradients[number]
        penalty, slope = prior(parameters)
        row = {"log_evidence": value, "log_posterior": value - penalty}
        trace.append({**row, "parameters": parameters.tolist()})
        return penalty - value, slope - gradient

    start = problem.parameters()
    bounds = [(t - REACH, t + REACH) for t in start]
    minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}
    )
    best = max(trace, key=lambda row: float(row["log_posterior"]))
    return problem.with_parameters(np.array(best["parameters"])), trace
