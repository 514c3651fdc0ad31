"""Minimising the criterion while the active rows stay: the inner loop of learning (SLH 3.3).

The criterion is a function phi(parameters, sites) whose gradient is known for fixed sites, while
the sites should follow the parameters. What to do about that is the strategy:

- ``constant``: the sites stay. Criterion and gradient agree, and it always goes down.
- ``hybrid``: they stay during a line search, and are set anew for every new direction. Then the
  criterion may go up.
- ``exact``: they are set anew for every evaluation. The right criterion is minimised, by the wrong
  gradient; line searches look at values alone, but no direction may lead down.

The loop works on arrays alone: parameters (q,), free numbers; sites of any shape.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sparsegp.errors import NumericalError, SettingsError
from sparsegp.math.lbfgs import Ascent, Function
from sparsegp.registry import Registry
from sparsegp.types import Doubles

REACH = 5.0
"""How far a parameter may go from where it started: for a logarithm, a factor of 150."""

Bounds: TypeAlias = tuple[Doubles, Doubles]
"""Least and greatest values of the parameters, (q,) each."""


class Criterion(Protocol):
    """What is minimised."""

    def evaluate(self, parameters: Doubles, sites: Doubles) -> tuple[float, Doubles]:
        """Return the criterion, and its gradient (q,) for fixed sites."""
        ...

    def resite(self, parameters: Doubles) -> Doubles:
        """Return the sites that belong to the parameters."""
        ...


@dataclass(frozen=True)
class Path:
    """The points of a descent, from the start to the end.

    Attributes
    ----------
    points : Doubles (k + 1, q)
        Parameters after every step.
    values : Doubles (k + 1,)
        The criterion there, under the sites of that moment.
    sites : Doubles
        At the end.
    evaluations : int
        Of criterion and gradient.
    """

    points: Doubles
    values: Doubles
    sites: Doubles
    evaluations: int

    @property
    def parameters(self) -> Doubles:
        """At the end, (q,)."""
        return np.asarray(self.points[-1])


Strategy: TypeAlias = Callable[["Search"], Path]

STRATEGIES: Registry[Strategy] = Registry("inner strategy")


def descend(
    problem: Criterion,
    start: Doubles,
    sites: Doubles,
    strategy: str = "constant",
    steps: int = 8,
    reach: float = REACH,
    bounds: Bounds | None = None,
) -> Path:
    """Go down from a start, and return the path.

    Parameters
    ----------
    problem : Criterion
    start : Doubles (q,)
    sites : Doubles
        Those at the start.
    strategy : str
        Name in `STRATEGIES`.
    steps : int
        Line searches, at most.
    reach : float
        How far a parameter may go from the start.
    bounds : Bounds, optional
        Where parameters must stay whatever the start, which is within them.

    Raises
    ------
    SettingsError
        If there is no such strategy, or a number is out of range.
    NumericalError
        If the criterion is not finite at the start.
    """
    if steps < 1 or not reach > 0:
        raise SettingsError(f"steps and reach must be positive, got {steps} and {reach}")
    run, start = STRATEGIES[strategy], np.asarray(start, np.float64)
    low, high = start - reach, start + reach
    if bounds is not None:
        low, high = np.maximum(low, bounds[0]), np.minimum(high, bounds[1])
    return run(Search(problem, start, sites, steps, (low, high)))


class Search:
    """One descent: its limits, and what it has done.

    The criterion is divided by the largest element of the gradient at the start, so that a first
    step along the gradient moves no parameter by more than one. The strategies work on the scaled
    one.
    """

    def __init__(
        self, problem: Criterion, start: Doubles, sites: Doubles, steps: int, bounds: Bounds
    ) -> None:
        self.problem, self.start, self.sites = problem, start, sites
        self.steps, self.bounds = steps, bounds
        self.evaluations, self.scale = 0, 1.0
        self.points: list[Doubles] = []
        self.values: list[float] = []

    def begin(self) -> tuple[float, Doubles]:
        """Return scaled criterion and gradient at the start."""
        value, gradient = self.evaluate(self.start, self.sites)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NumericalError(
                f"the criterion and its gradient must be finite, got {value} and {gradient} at "
                f"parameters {self.start}; start elsewhere"
            )
        self.note(self.start, value)
        self.scale = float(np.abs(gradient).max()) or 1.0
        return value / self.scale, gradient / self.scale

    def evaluate(self, parameters: Doubles, sites: Doubles) -> tuple[float, Doubles]:
        """Return scaled criterion and gradient."""
        self.evaluations += 1
        value, gradient = self.problem.evaluate(parameters, sites)
        return value / self.scale, gradient / self.scale

    def note(self, parameters: Doubles, scaled: float) -> None:
        """Remember a step."""
        self.points.append(np.array(parameters))
        self.values.append(scaled * self.scale)

    def path(self) -> Path:
        """Return the path so far."""
        return Path(np.stack(self.points), np.array(self.values), self.sites, self.evaluations)

    def quasi_newton(self) -> None:
        """Go down by L-BFGS-B, as value and gradient agree."""
        first = self.begin()

        def function(parameters: Doubles) -> tuple[float, Doubles]:
            at_start = self.evaluations == 1 and np.array_equal(parameters, self.start)
            return first if at_start else self.evaluate(parameters, self.sites)

        def note(intermediate_result: OptimizeResult) -> None:
            self.note(intermediate_result.x, float(intermediate_result.fun))

        minimize(
            function,
            self.start,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(*self.bounds, strict=True)),
            callback=note,
            options={"maxiter": self.steps},
        )

    def ascent(self, sites: Callable[[Doubles], Doubles]) -> tuple[Ascent, Function]:
        """Return an ascent of minus the criterion; at a bound it has no slope outwards."""
        low, high = self.bounds

        def inward(parameters: Doubles, upward: Doubles) -> Doubles:
            outward = np.where(upward > 0, parameters >= high, parameters <= low)
            return np.where(outward, 0.0, upward)

        def function(parameters: Doubles) -> tuple[float, Doubles]:
            value, gradient = self.evaluate(parameters, sites(parameters))
            return -value, inward(parameters, -gradient)

        value, gradient = self.begin()
        return Ascent(self.start, -value, inward(self.start, -gradient)), function

    def step(self, ascent: Ascent, function: Function) -> bool:
        """Make a step; where the memory of former ones does not help, do without.

        Return success.
        """
        before = ascent.point
        if not ascent.gradient.any():
            return False

        def within(parameters: Doubles) -> Doubles:
            return np.asarray(np.clip(parameters, *self.bounds))

        ascent.step(function, np.array, project=within)
        if ascent.point is before and ascent.steps:
            ascent.steps, ascent.changes = [], []
            ascent.step(function, np.array, project=within)
        return ascent.point is not before


@STRATEGIES.register("constant")
def constant(search: Search) -> Path:
    """Keep the sites."""
    search.quasi_newton()
    return search.path()


@STRATEGIES.register("hybrid")
def hybrid(search: Search) -> Path:
    """Set the sites anew after every line search."""
    ascent, function = search.ascent(lambda _: search.sites)
    for _ in range(search.steps):
        if not search.step(ascent, function):
            break
        search.sites = search.problem.resite(ascent.point)
        ascent.value, ascent.gradient = function(ascent.point)
        search.note(ascent.point, -ascent.value)
    return search.path()


@STRATEGIES.register("exact")
def exact(search: Search) -> Path:
    """Set the sites anew for every evaluation; take what lowers the criterion."""
    search.sites = search.problem.resite(search.start)
    ascent, function = search.ascent(search.problem.resite)
    for _ in range(search.steps):
        if not search.step(ascent, function):
            break
        search.note(ascent.point, -ascent.value)
    search.sites = search.problem.resite(ascent.point)
    return search.path()
