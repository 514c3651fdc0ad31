"""Hybrid (Hamiltonian) Monte Carlo: draws from a density by its energy and the gradient of that.

The energy U(q) is minus the log density, up to a constant. With momenta p ~ N(0, diag(m)) a step
follows H = U(q) + sum p^2 / (2 m) by the leapfrog rule and accepts where it ends with the
probability min(1, exp(H before - H after)) (Duane et al. 1987; Neal 1996). The number of leapfrog
steps is drawn anew each time, so that no direction comes back to its start every time.

In the burn-in the step size follows the acceptance rate by dual averaging (Hoffman & Gelman 2014,
section 3.2), and halfway the masses become the inverse variances of the positions of the second
quarter. After it both stay. All that is random in a step is keyed by the chain and the number of
the step: a chain that was interrupted goes on with the same bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegp.types import Doubles

SHRINKAGE, DELAY, DECAY = 0.3, 10.0, 0.75
"""gamma, t0 and kappa of dual averaging. Hoffman & Gelman's gamma of 0.05 is for means over whole
trees; by the acceptance of single steps the log step size then swings so widely that its average
lies too low, and after short burn-ins 0.9 to 0.97 are accepted in place of 0.8."""
LOST = 1000.0
"""Rise of the energy over H, in nats, at which a trajectory is given up: none comes back."""
LEAST_VARIANCE, WEIGHT = 1e-3, 5.0
"""Variances for the masses count as if so many positions had had the least variance."""


@dataclass(frozen=True)
class Point:
    """A position and the energy there.

    Attributes
    ----------
    position : Doubles (q,)
    energy : float
        Infinite where the density is zero, or could not be computed.
    gradient : Doubles (q,)
    hint : array
        From which the evaluation at a position nearby may set out.
    """

    position: Doubles
    energy: float
    gradient: Doubles
    hint: NDArray[Any] = field(default_factory=lambda: np.empty(0))


Energy: TypeAlias = Callable[[Doubles, NDArray[Any]], Point]
"""From a position, and the hint of one nearby, to a point."""


@dataclass(frozen=True)
class Plan:
    """How chains move.

    Parameters
    ----------
    burn_in : int
        Steps in which step size and masses are adapted.
    leapfrogs : int
        Leapfrog steps of a step, at most; their number is uniform from 1.
    acceptance : float
        Mean acceptance probability at which the step size aims.
    first_step : float
        Step size at the start.
    """

    burn_in: int
    leapfrogs: int = 10
    acceptance: float = 0.8
    first_step: float = 0.1


@dataclass(frozen=True)
class Chain:
    """State of a chain: its point, and what it has learnt of its target.

    Attributes
    ----------
    point : Point
    number : int
        Steps made.
    mass : Doubles (q,)
    tuning : Doubles (5,)
        Of dual averaging: steps since it began, mean shortfall of the acceptance, log step size,
        the average of that, and where it began.
    seen : Doubles (2, q)
        Sums over the second quarter of the burn-in: of positions from the origin, and of squares.
    origin : Doubles (q,)
    """

    point: Point
    number: int
    mass: Doubles
    tuning: Doubles
    seen: Doubles
    origin: Doubles

    @classmethod
    def begin(cls, point: Point, plan: Plan) -> "Chain":
        """Return a chain that is at a point, with masses of one."""
        q = len(point.position)
        return cls(
            point, 0, np.ones(q), _untuned(plan.first_step), np.zeros((2, q)), point.position
        )

    def step_size(self, plan: Plan) -> float:
        """Return the step size of the next step: after the burn-in the average."""
        return float(np.exp(self.tuning[2 if self.number < plan.burn_in else 3]))


@dataclass(frozen=True)
class Move:
    """What happened in a step.

    Attributes
    ----------
    accepted : bool
    probability : float
        With which it was.
    step_size : float
    """

    accepted: bool
    probability: float
    step_size: float


def leapfrog(
    energy: Energy, start: Point, momentum: Doubles, mass: Doubles, step: float, count: int
) -> tuple[Point, Doubles]:
    """Return point and momentum (q,) after so many steps (Neal 1996, eqs. 3.10-3.12).

    With the momentum at the end turned round it leads back to the start; it keeps volume, and H up
    to an error of step^2. It ends early where the energy is infinite or far above H.
    """
    point, limit = start, start.energy + _kinetic(momentum, mass) + LOST
    for _ in range(count):
        half = momentum - 0.5 * step * point.gradient
        point = energy(point.position + step * half / mass, point.hint)
        if not point.energy < limit:
            break
        momentum = half - 0.5 * step * point.gradient
    return point, momentum


def advance(energy: Energy, chain: Chain, plan: Plan, key: Sequence[int]) -> tuple[Chain, Move]:
    """Return the chain after one more step, and what happened in it.

    Parameters
    ----------
    energy : callable
    chain : Chain
    plan : Plan
    key : sequence of int
        Of this chain; not negative.
    """
    rng = np.random.default_rng([*key, chain.number])
    momentum = np.sqrt(chain.mass) * rng.standard_normal(len(chain.mass))
    count, bar = int(rng.integers(1, plan.leapfrogs + 1)), float(np.log(rng.uniform()))
    size = chain.step_size(plan)
    end, final = leapfrog(energy, chain.point, momentum, chain.mass, size, count)
    gain = chain.point.energy + _kinetic(momentum, chain.mass)
    gain -= end.energy + _kinetic(final, chain.mass)
    gain = -np.inf if np.isnan(gain) else gain
    move = Move(bar < gain, float(np.exp(min(0.0, gain))), size)
    chain = replace(chain, point=end if move.accepted else chain.point)
    if chain.number < plan.burn_in:
        chain = _adapted(chain, plan, move.probability)
    return replace(chain, number=chain.number + 1), move


def _kinetic(momentum: Doubles, mass: Doubles) -> float:
    return 0.5 * float(np.sum(momentum**2 / mass))


def _adapted(chain: Chain, plan: Plan, probability: float) -> Chain:
    """Return the chain with step size, sums and masses brought up to date."""
    tuning = _tuned(chain.tuning, plan, probability)
    seen, mass, done = chain.seen, chain.mass, chain.number + 1
    quarter, half = plan.burn_in // 4, plan.burn_in // 2
    if quarter < done <= half:
        move = chain.point.position - chain.origin
        seen = seen + np.stack([move, move**2])
    if done == half and half - quarter > 1:
        count = half - quarter
        square = seen[1] - seen[0] ** 2 / count
        mass = (count - 1 + WEIGHT) / (square + WEIGHT * LEAST_VARIANCE)
        tuning = _untuned(1.0)  # in units of the new masses
    return replace(chain, tuning=tuning, seen=seen, mass=mass)


def _untuned(step: float) -> Doubles:
    return np.array([0.0, 0.0, *[np.log(step)] * 3])


def _tuned(tuning: Doubles, plan: Plan, probability: float) -> Doubles:
    """Return dual averaging after one more step (Hoffman & Gelman 2014, eq. 6)."""
    count, shortfall, _, average, begin = tuning
    count += 1.0
    share = 1.0 / (count + DELAY)
    shortfall = (1.0 - share) * shortfall + share * (plan.acceptance - probability)
    log_step = begin - np.sqrt(count) / SHRINKAGE * shortfall
    share = count**-DECAY
    average += share * (log_step - average)
    return np.array([count, shortfall, log_step, average, begin])
