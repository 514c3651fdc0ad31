"""Kernels of the highest marginal likelihood, times a prior density of their parameters.

Every evaluation is recorded; a search that was interrupted reads its records and goes on, with the
same result to the last bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sparsegp.dense.base import Method, Problem, Watch
from sparsegp.errors import NumericalError
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.learning.optimise import REACH
from sparsegp.types import Doubles


def maximise(
    method: Method,
    problem: Problem,
    prior: Hyperprior,
    watch: Watch,
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
    watch : Watch
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
        If the watch asks for it.
    """
    record = Record(method, problem, prior, watch)
    start = problem.parameters()
    minimize(
        record,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(t - reach, t + reach) for t in start],
        options={"maxiter": steps},
    )
    best = int(np.argmax([row["log_posterior"] for row in record.trace]))
    return problem.with_parameters(record.points[best]), record.trace


class Record:
    """Minus the log posterior density of the parameters, and all that was asked of it.

    Attributes
    ----------
    points : list of Doubles (q,)
    values : list of float
        Log evidence.
    gradients : list of Doubles (q,)
        Its gradients.
    start : array
        Where the method's last search for its posterior ended.
    trace : list of dict
    """

    def __init__(self, method: Method, problem: Problem, prior: Hyperprior, watch: Watch) -> None:
        self.method, self.problem, self.prior, self.watch = method, problem, prior, watch
        self.points: list[Doubles] = []
        self.values: list[float] = []
        self.gradients: list[Doubles] = []
        self.start: NDArray[Any] | None = None
        self.trace: list[dict[str, Any]] = []
        self._former = watch.former

    def __call__(self, parameters: Doubles) -> tuple[float, Doubles]:
        """Return minus the log density and its gradient, (q,)."""
        value, gradient = self._known(parameters) or self._new(parameters)
        penalty, slope = self.prior(parameters)
        row = {"log_evidence": value, "log_posterior": value - penalty}
        self.trace.append({**row, "parameters": parameters.tolist()})
        return penalty - value, slope - gradient

    def _new(self, parameters: Doubles) -> tuple[float, Doubles]:
        found = self.method.evidence(self.problem.with_parameters(parameters), self.start)
        if not (np.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise NumericalError(
                f"the log evidence and its gradient must be finite, got {found.value} and "
                f"{found.gradient} at log parameters {parameters}; start elsewhere"
            )
        self._note(parameters, found.value, found.gradient)
        self.start = found.start
        self.watch.say(len(self.points), 0, self._arrays, log_evidence=found.value)
        return found.value, found.gradient

    def _note(self, parameters: Doubles, value: float, gradient: Doubles) -> None:
        self.points.append(np.array(parameters))
        self.values.append(value)
        self.gradients.append(gradient)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "learning_points": np.array(self.points),
            "learning_values": np.array(self.values),
            "learning_gradients": np.array(self.gradients),
            "learning_start": np.asarray(self.start),
        }

    def _known(self, parameters: Doubles) -> tuple[float, Doubles] | None:
        """Return the record of this evaluation, if it was made before the search was interrupted.

        The last of them leaves the start for the next one.
        """
        former, number = self._former, len(self.points)
        points = former.get("learning_points", np.empty((0, len(parameters))))
        if number >= len(points) or not np.array_equal(points[number], parameters):
            self._former = {}
            return None
        value = float(former["learning_values"][number])
        gradient = former["learning_gradients"][number]
        self._note(parameters, value, gradient)
        self.start = former["learning_start"]
        return value, gradient
