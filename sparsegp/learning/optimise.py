"""Minimise the criterion for fixed active rows: the inner loop of learning (SLH 3.3).

The gradient of the criterion phi(parameters, sites) is known for fixed sites, but the sites depend
on the parameters. The `STRATEGIES` differ in how they deal with this.

Only the two methods of `Objective` are used; sites may have any shape.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sparsegp.errors import NumericalError
from sparsegp.learning.objective import Objective
from sparsegp.math.lbfgs import Ascent, Function
from sparsegp.registry import Registry
from sparsegp.types import Doubles

REACH = 5.0
"""Largest distance of a parameter from its initial value: for a logarithm, a factor of 150."""

Bounds: TypeAlias = tuple[Doubles, Doubles]
"""Lower and upper bounds of the parameters, (q,) each."""

STRATEGIES: Registry[Callable[["Descent"], None]] = Registry("inner strategy")


def descend(
    problem: Objective,
    start: Doubles,
    sites: Doubles,
    strategy: str = "constant",
    steps: int = 8,
    bounds: Bounds | None = None,
) -> "Descent":
    """Minimise the criterion from an initial point, and return the completed descent.

    Parameters
    ----------
    problem : Objective
    start : Doubles (q,)
        Initial parameters.
    sites : Doubles
        Initial sites.
    strategy : str
        Name in `STRATEGIES`.
    steps : int
        Maximum number of line searches.
    bounds : Bounds, optional
        Bounds besides `REACH`, which `start` satisfies.

    Raises
    ------
    SettingsError
        If there is no such strategy.
    NumericalError
        If the criterion is not finite at the start.
    """
    run, start = STRATEGIES[strategy], np.asarray(start, np.float64)
    low, high = start - REACH, start + REACH
    if bounds is not None:
        low, high = np.maximum(low, bounds[0]), np.minimum(high, bounds[1])
    descent = Descent(problem, start, sites, steps, (low, high))
    run(descent)
    return descent


@dataclass
class Descent:
    """State of one descent, and its path.

    The criterion is divided by the largest absolute element of its initial gradient, so that the
    first step along the gradient changes no parameter by more than one. The strategies work on the
    scaled criterion.
    """

    problem: Objective
    start: Doubles
    sites: Doubles  # current sites
    steps: int
    bounds: Bounds
    evaluations: int = 0  # number of evaluations of the criterion and its gradient
    scale: float = 1.0
    points: list[Doubles] = field(default_factory=list)  # parameters at the start and each step
    values: list[float] = field(default_factory=list)  # criterion there, with the sites of the time

    @property
    def parameters(self) -> Doubles:
        """Parameters after the last step, (q,)."""
        return self.points[-1]

    def evaluate(self, parameters: Doubles, sites: Doubles) -> tuple[float, Doubles]:
        """Return the scaled criterion and gradient; the first call, at the start, sets `scale`."""
        self.evaluations += 1
        value, gradient = self.problem.evaluate(parameters, sites)
        if not self.points:
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                raise NumericalError(
                    f"the criterion and its gradient must be finite, got {value} and {gradient} at "
                    f"parameters {parameters}; start elsewhere"
                )
            self.record_step(parameters, value)
            self.scale = float(np.abs(gradient).max()) or 1.0
        return value / self.scale, gradient / self.scale

    def record_step(self, parameters: Doubles, scaled: float) -> None:
        """Record a step."""
        self.points.append(np.array(parameters))
        self.values.append(float(scaled * self.scale))

    def ascents(self, sites: Callable[[Doubles], Doubles]) -> Iterator[tuple[Ascent, Function]]:
        """Yield the ascent of minus the criterion, and the function, after each step that moved it.

        At the bounds, outward elements of the gradient are zero. A step that fails is repeated
        without the quasi-Newton memory.
        """
        low, high = self.bounds

        def function(parameters: Doubles) -> tuple[float, Doubles]:
            value, gradient = self.evaluate(parameters, sites(parameters))
            outward = np.where(gradient < 0, parameters >= high, parameters <= low)
            return -value, np.where(outward, 0.0, -gradient)

        def within(parameters: Doubles) -> Doubles:
            return np.asarray(np.clip(parameters, low, high))

        ascent = Ascent.at(self.start, function)
        for _ in range(self.steps):
            before = ascent.point
            if ascent.gradient.any():
                ascent.step(function, np.array, project=within)
                if ascent.point is before and ascent.steps:
                    ascent.steps, ascent.changes, ascent.gains = [], [], []
                    ascent.step(function, np.array, project=within)
            if ascent.point is before:
                break
            yield ascent, function


@STRATEGIES.register("constant")
def constant(descent: Descent) -> None:
    """Minimise by L-BFGS-B for fixed sites: value and gradient agree, so no step goes up."""

    def function(parameters: Doubles) -> tuple[float, Doubles]:
        return descent.evaluate(parameters, descent.sites)

    def record(intermediate_result: OptimizeResult) -> None:
        descent.record_step(intermediate_result.x, float(intermediate_result.fun))

    minimize(
        function,
        descent.start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(*descent.bounds, strict=True)),
        callback=record,
        options={"maxiter": descent.steps},
    )


@STRATEGIES.register("hybrid")
def hybrid(descent: Descent) -> None:
    """Recompute the sites after every line search, after which the criterion may increase."""
    for ascent, function in descent.ascents(lambda _: descent.sites):
        descent.sites = descent.problem.recompute_sites(ascent.point)
        ascent.value, ascent.gradient = function(ascent.point)
        descent.record_step(ascent.point, -ascent.value)


@STRATEGIES.register("exact")
def exact(descent: Descent) -> None:
    """Recompute the sites for every evaluation: the criterion is exact but its gradient is not.

    Steps are accepted by value alone; the search direction may not be one of descent.
    """
    for ascent, _ in descent.ascents(descent.problem.recompute_sites):
        descent.record_step(ascent.point, -ascent.value)
    descent.sites = descent.problem.recompute_sites(descent.parameters)
