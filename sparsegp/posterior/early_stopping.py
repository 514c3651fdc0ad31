"""Choice of the prior variance factor and of the number of iterations by validation rows.

The maximum of the all-data objective (posterior/all_data.py) predicts less well than points on the
way to it: an ascent from zero first fits what many rows have in common, and only later what few
rows require. Each ascent is therefore stopped where the validation rows are predicted best, and
ascents are compared for several prior variance factors, spaced by the square root of ten.

The first half of an ascent hardly depends on the factor. An ascent at another factor therefore
starts halfway to the best iteration of the best ascent so far. The objectives differ by a
quadratic, so the memory of the quasi-Newton method at that point can be converted exactly.

With many rows, some of them are enough to choose the factor. The number of iterations then comes
from one more ascent with all rows, which starts halfway to the best iteration for the part.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from sparsegp.math.lbfgs import Ascent
from sparsegp.posterior.objective import SpanObjective
from sparsegp.types import Doubles

STEP = np.sqrt(10.0)
"""Ratio of successive prior variance factors."""
MAX_STEPS = 6
"""Maximum number of steps from the kernel's own variance, up or down."""
PATIENCE, PATIENCE_MANY_ROWS = 8, 3
"""Iterations without a lower NLPP after which an ascent ends; fewer with many rows, where they are
slow. On splits of the training rows of sixteen tables, 8 gives 0.98 times the NLPP of 3."""
LEAD = 0.01
"""Fraction by which a larger prior variance must lower the NLPP to be worth another ascent."""


def scale_of(step: int) -> float:
    """Return the prior variance factor at a number of steps from the kernel's own variance."""
    return float(STEP**step)


def step_of(scale: float) -> int:
    """Return the number of steps whose factor is nearest, on a log scale."""
    return round(math.log(scale, STEP))


@dataclass(frozen=True)
class Peak:
    """Best iteration of an ascent."""

    step: int  # steps of the prior variance from the kernel's own
    rounds: int  # number of iterations
    log_z: Doubles  # log predictive probabilities of the validation rows (a,)
    ascent: Ascent  # its state

    @property
    def nlpp(self) -> float:
        """NLPP of the validation rows, in nats."""
        return -float(self.log_z.mean())

    def is_better_than(self, other: "Peak") -> bool:
        """Return whether its NLPP is lower, by `LEAD` if its prior variance is larger."""
        least = LEAD * other.nlpp if self.step > other.step else 0.0
        return other.nlpp - self.nlpp > least


@dataclass
class ScaleSearch:
    """Ascents for one prior variance factor after another: up from 1, else down from it."""

    # steps of the completed ascents, and the NLPP of their best iterations
    tried: list[tuple[int, float]] = field(default_factory=list)
    best: Peak | None = None  # best iteration of the best completed ascent
    halfway: Ascent | None = None  # state of that ascent halfway to the best iteration
    halfway_rounds: int = 0  # number of iterations until then
    step: int = 0  # step of the current ascent
    rounds: int = 0  # number of its iterations so far
    ascent: Ascent | None = None  # its state; None before it has started
    leader: Peak | None = None  # its best iteration so far
    least: float = math.inf  # lowest NLPP of its iterations
    waited: int = 0  # number of iterations since the lowest NLPP
    over: bool = False  # whether all ascents are done
    alone: bool = False  # whether the first ascent is the only one
    part: bool = False  # whether the ascents still use a part of the rows
    patience: int = PATIENCE  # iterations without a lower NLPP after which an ascent ends

    def current_ascent(self, problem: SpanObjective) -> Ascent:
        """Return the current ascent, starting it if necessary."""
        if self.ascent is not None:
            return self.ascent
        self.rounds = self.halfway_rounds
        if self.best is None or self.halfway is None:
            self.ascent = problem.begin(None if self.halfway is None else self.halfway.point)
        else:
            self.ascent = problem.carry(self.halfway, scale_of(self.best.step))
        return self.ascent

    def record_iteration(self, log_z: Doubles, ascent: Ascent, rising: bool) -> None:
        """Record an iteration; if it is the last of its ascent, prepare the next ascent.

        Parameters
        ----------
        log_z : Doubles (a,)
            Log predictive probabilities of the validation rows after the iteration.
        ascent : Ascent
            State after the iteration.
        rising : bool
            Whether the ascent has not converged yet.
        """
        self.rounds += 1
        peak, leader = Peak(self.step, self.rounds, log_z, ascent.rewind(0)), self.leader
        if leader is None or peak.is_better_than(leader):
            self.leader = leader = peak
        self.waited = 0 if peak.nlpp < self.least else self.waited + 1
        self.least = min(peak.nlpp, self.least)
        if rising and self.waited < self.patience:
            return
        self.tried.append((self.step, leader.nlpp))
        if self.best is None or leader.is_better_than(self.best):
            assert self.ascent is not None  # the leader is one of its iterations
            back = min(self.rounds - leader.rounds // 2, len(self.ascent.steps))
            self.best, self.halfway = leader, self.ascent.rewind(back)
            self.halfway_rounds = self.rounds - back
        self.ascent, self.leader, self.least, self.waited = None, None, math.inf, 0
        self._choose_next_step(self.best.step)

    def _choose_next_step(self, best: int) -> None:
        """Choose the next step, adjacent to the best one, upwards first; or finish."""
        for step, open_ in ((best + 1, best >= 0), (best - 1, best <= 0)):
            if open_ and not self.alone and step not in dict(self.tried) and abs(step) <= MAX_STEPS:
                self.step = step
                return
        if self.part:
            self.step, self.best, self.part = best, None, False
        else:
            self.over = True
