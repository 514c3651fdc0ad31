"""How strong the prior is and how long the ascent goes on, both learnt from validation rows.

The maximum of the all-data objective (posterior/all_data.py) predicts less well than points on the
way to it: an ascent that starts at zero first finds what many rows agree on, and only later what
few rows ask for. So each ascent is stopped where the validation rows are predicted best, as far as
so few can show, and ascents are compared for several scales of the prior variance, a factor of the
square root of ten apart.

The first half of an ascent hardly depends on the scale. So an ascent at another scale starts
halfway to the best round of the best ascent so far. The objectives differ by a quadratic, so what
the quasi-Newton method knows at that point carries over exactly.

Where there are many rows, a part of them is enough to find the scale. The rounds are then those of
one more ascent at that scale, for all rows, which starts halfway to the best round of the part.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles

STEP = np.sqrt(10.0)
"""Factor from one prior scale to the next."""
FARTHEST = 6
"""Steps from the kernel's own scale, up or down."""
PATIENCE, FEW_ROUNDS = 8, 3
"""Rounds without a smaller nlpp after which an ascent ends; and where there are so many rows that
rounds take long. On splits of the training rows of sixteen tables 8 leaves .98 of the nats of 3."""
LEAD = 0.01
"""Of the nlpp: by how much less a larger prior variance must leave for another ascent to be worth
its rounds."""


def scale_of(step: int) -> float:
    """Return the factor of the prior variance at a step from the kernel's own."""
    return float(STEP**step)


def step_of(scale: float) -> int:
    """Return the step whose factor is nearest."""
    return round(math.log(scale, STEP))


def paired_difference(log_z: Doubles, other: Doubles) -> tuple[float, float]:
    """Return by how much the first is larger on average, and the standard error of that."""
    difference = log_z - other
    return float(difference.mean()), float(difference.std()) / math.sqrt(len(difference))


@dataclass(frozen=True)
class Peak:
    """The best round of one ascent.

    Attributes
    ----------
    step : int
        From the kernel's own prior scale.
    rounds : int
    log_z : Doubles (a,)
        Log predictive probabilities of the validation rows.
    ascent : Ascent
        As it was then.
    """

    step: int
    rounds: int
    log_z: Doubles
    ascent: Ascent

    @property
    def scale(self) -> float:
        """Factor of the prior variance."""
        return scale_of(self.step)

    @property
    def nlpp(self) -> float:
        """Mean negative log predictive probability, in nats."""
        return -float(self.log_z.mean())

    def is_better_than(self, other: "Peak") -> bool:
        """Return whether to prefer it: by any difference, by `LEAD` if its variance is larger."""
        least = LEAD * other.nlpp if self.step > other.step else 0.0
        return other.nlpp - self.nlpp > least


@dataclass
class Search:
    """Ascents at one prior scale after the other: up from the kernel's own, else down from it.

    Attributes
    ----------
    tried : list of (int, float)
        Steps of the scales whose ascents are done, and the nlpp of their best rounds.
    best : Peak, optional
        Among them.
    halfway, halfway_rounds : Ascent, int, optional
        The state of its ascent halfway to it, and the rounds until then.
    step : int
        Of the current ascent.
    rounds : int
        Its rounds so far.
    ascent : Ascent, optional
        Its state; None before it has begun.
    leader : Peak, optional
        Its best round so far.
    least, waited : float, int
        The least nlpp of its rounds, and how many there have been since.
    over : bool
        Whether all ascents are done.
    alone : bool
        Whether the first one is the only one.
    part : bool
        Whether the ascents are for a part of the rows as yet.
    patience : int
        Rounds without a smaller nlpp after which an ascent ends.
    """

    tried: list[tuple[int, float]] = field(default_factory=list)
    best: Peak | None = None
    halfway: Ascent | None = None
    halfway_rounds: int = 0
    step: int = 0
    rounds: int = 0
    ascent: Ascent | None = None
    leader: Peak | None = None
    least: float = math.inf
    waited: int = 0
    over: bool = False
    alone: bool = False
    part: bool = False
    patience: int = PATIENCE

    @property
    def scale(self) -> float:
        """Factor of the prior variance in the current ascent."""
        return scale_of(self.step)

    def begun(
        self, start: Callable[[Doubles | None], Ascent], carry: Callable[[Ascent, float], Ascent]
    ) -> Ascent:
        """Return the current ascent, begun if it was not.

        Parameters
        ----------
        start : callable
            From a point, or None for zero, to an ascent there.
        carry : callable
            From a state, and the prior scale that it was for, to one for the scale of this ascent.
        """
        if self.ascent is not None:
            return self.ascent
        self.rounds = self.halfway_rounds
        if self.best is None or self.halfway is None:
            self.ascent = start(None if self.halfway is None else self.halfway.point)
        else:
            self.ascent = carry(self.halfway, self.best.scale)
        return self.ascent

    def note(self, log_z: Doubles, ascent: Ascent, rising: bool) -> None:
        """Count a round; end the ascent if it is time to, and go on with the next.

        Parameters
        ----------
        log_z : Doubles (a,)
            Log predictive probabilities of the validation rows, where the round ended.
        ascent : Ascent
            Where that is.
        rising : bool
            Whether the ascent has not converged yet.
        """
        self.rounds += 1
        peak, leader = Peak(self.step, self.rounds, log_z, ascent.back(0)), self.leader
        if leader is None or peak.is_better_than(leader):
            self.leader = leader = peak
        self.waited = 0 if peak.nlpp < self.least else self.waited + 1
        self.least = min(peak.nlpp, self.least)
        if rising and self.waited < self.patience:
            return
        self.tried.append((self.step, leader.nlpp))
        if self.best is None or leader.is_better_than(self.best):
            assert self.ascent is not None  # of which the leader is a round
            back = min(self.rounds - leader.rounds // 2, len(self.ascent.steps))
            self.best, self.halfway = leader, self.ascent.back(back)
            self.halfway_rounds = self.rounds - back
        self.ascent, self.leader, self.least, self.waited = None, None, math.inf, 0
        self._turn(self.best.step)

    def _turn(self, best: int) -> None:
        """Go on next to the best step, upward of the kernel's own scale first."""
        for step, open_ in ((best + 1, best >= 0), (best - 1, best <= 0)):
            if open_ and not self.alone and step not in dict(self.tried) and abs(step) <= FARTHEST:
                self.step = step
                return
        if self.part:
            self.step, self.best, self.part = best, None, False
        else:
            self.over = True
