"""Hybrid (Hamiltonian) Monte Carlo: draws from a density, using its energy and gradient.

The energy U(q) is minus the log density, up to a constant. With momenta p ~ N(0, diag(m)) a step
simulates the dynamics of H = U(q) + sum p^2 / (2 m) with the leapfrog integrator and accepts the
end point with probability min(1, exp(H before - H after)) (Duane et al. 1987; Neal 1996). The
number of leapfrog steps is random, so that no direction returns to its start in every step.

During burn-in the step size is adapted to the acceptance rate, and halfway through, the masses are
set to the inverse variances of the positions in the second quarter. After burn-in both are fixed.
Random numbers are keyed by the chain and the step number, so a resumed chain is bit-identical.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegp.types import Doubles

ACCEPTANCE = 0.8
"""Mean acceptance probability to which the step size is adapted."""
DIVERGENCE = 1000.0
"""Excess of the energy over the initial H, in nats, at which a trajectory counts as divergent."""
PRIOR_VARIANCE, WEIGHT = 1e-3, 5.0
"""Variance towards which the estimates for the masses are shrunk, and its weight in positions."""


@dataclass(frozen=True)
class Point:
    """A position and the energy there."""

    position: Doubles  # (q,)
    energy: float  # infinite if the density is zero or could not be computed
    gradient: Doubles  # (q,)
    # starting point for the evaluation at a nearby position
    hint: NDArray[Any] = field(default_factory=lambda: np.empty(0))


Energy: TypeAlias = Callable[[Doubles, NDArray[Any]], Point]
"""Maps a position, and the hint of a nearby point, to a point."""


@dataclass(frozen=True)
class Chain:
    """State of a chain: its point, and its adaptation to the target.

    `mean` and `square` accumulate over the positions in the second quarter of the burn-in.
    """

    point: Point
    mass: Doubles  # masses (q,)
    mean: Doubles  # (q,)
    square: Doubles  # sum of squared deviations (q,)
    step_size: float  # leapfrog step size in the next step
    number: int = 0  # steps made

    @classmethod
    def begin(cls, point: Point, step_size: float = 0.1) -> "Chain":
        """Return a chain that starts at a point, with masses of one."""
        none = np.zeros_like(point.position)
        return cls(point, none + 1.0, none, none, step_size)


def leapfrog(
    energy: Energy, start: Point, momentum: Doubles, mass: Doubles, step: float, count: int
) -> tuple[Point, Doubles]:
    """Return the point and momentum (q,) after `count` leapfrog steps (Neal 1996, eqs. 3.10-3.12).

    The map is reversible by negating the momentum and preserves volume; H has an error of order
    step^2. Integration stops early if the energy is infinite or far above H.
    """
    point, limit = start, start.energy + _kinetic(momentum, mass) + DIVERGENCE
    for _ in range(count):
        half = momentum - 0.5 * step * point.gradient
        point = energy(point.position + step * half / mass, point.hint)
        if not point.energy < limit:
            break
        momentum = half - 0.5 * step * point.gradient
    return point, momentum


def advance(
    energy: Energy, chain: Chain, key: Sequence[int], burn_in: int, leapfrogs: int = 10
) -> Chain:
    """Return the chain after one more step.

    Parameters
    ----------
    energy : callable
    chain : Chain
    key : sequence of int
        Key of the chain's random numbers; not negative.
    burn_in : int
        Number of steps during which step size and masses are adapted.
    leapfrogs : int
        Maximum number of leapfrog steps; the number is drawn uniformly from 1 up to it.
    """
    rng = np.random.default_rng([*key, chain.number])
    momentum = np.sqrt(chain.mass) * rng.standard_normal(len(chain.mass))
    count, bar = int(rng.integers(1, leapfrogs + 1)), float(np.log(rng.uniform()))
    end, final = leapfrog(energy, chain.point, momentum, chain.mass, chain.step_size, count)
    gain = chain.point.energy + _kinetic(momentum, chain.mass)
    gain -= end.energy + _kinetic(final, chain.mass)
    gain = -np.inf if np.isnan(gain) else gain
    chain = replace(chain, point=end if bar < gain else chain.point, number=chain.number + 1)
    if chain.number > burn_in:
        return chain
    return _adapted(chain, burn_in, float(np.exp(min(0.0, gain))) - ACCEPTANCE)


def _kinetic(momentum: Doubles, mass: Doubles) -> float:
    return 0.5 * float(np.sum(momentum**2 / mass))


def _adapted(chain: Chain, burn_in: int, excess: float) -> Chain:
    """Return the chain with adapted step size and masses."""
    done, quarter, half = chain.number, burn_in // 4, burn_in // 2
    several = half - quarter > 1  # enough positions for a variance
    since = done - half if several and done > half else done
    chain = replace(chain, step_size=chain.step_size * float(np.exp(excess / since**0.6)))
    if quarter < done <= half:
        change = chain.point.position - chain.mean
        mean = chain.mean + change / (done - quarter)
        square = chain.square + change * (chain.point.position - mean)
        chain = replace(chain, mean=mean, square=square)
    if done == half and several:
        mass = (half - quarter - 1 + WEIGHT) / (chain.square + WEIGHT * PRIOR_VARIANCE)
        chain = replace(chain, mass=mass, step_size=1.0)  # in units of the new masses
    return chain
