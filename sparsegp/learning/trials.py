"""What a search tries, and how that goes on rows that are held out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparsegp.learning.metric import NONE
from sparsegp.learning.space import Candidate
from sparsegp.posterior.early_stopping import paired_difference
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Trial:
    """What is tried.

    Attributes
    ----------
    number : int
        Of the candidate, from 0.
    kernel : str
        Its text, complete.
    scaling : str
        The rule by which inputs are scaled.
    rung : int
    rows : int
        Rows of the sample that it trains on, the first ones.
    n_active : int
    by_column : bool
        Whether a length scale for every column is learnt first, from that kernel.
    metric : str
        That is learnt by the fit.
    full : bool
        Whether the fit is one like that of the run, and no quick one.
    again : bool
        Whether length scales are learnt again, from so many rows of all, and nothing is fitted.
    first : int
        Where these rows begin.
    """

    number: int
    kernel: str
    scaling: str
    rung: int
    rows: int
    n_active: int
    by_column: bool = False
    metric: str = NONE
    full: bool = False
    again: bool = False
    first: int = 0

    @classmethod
    def of(
        cls,
        number: int,
        candidate: Candidate,
        size: tuple[int, int, int],
        by_column: bool = False,
    ) -> "Trial":
        """Return the trial of a candidate, with a size of rung, rows and active rows."""
        kernel, scaling, metric = candidate
        return cls(number, kernel, scaling, *size, by_column, metric)


@dataclass(frozen=True)
class Outcome:
    """How a trial went on the held-out rows.

    Attributes
    ----------
    kernel : str
        The kernel of the trial, with the length scales that were learnt.
    nlpp : float or None
        Mean of -log p of the true class in nats; None if the trial failed.
    error : float or None
        Share of rows whose most probable class is not theirs.
    ece : float or None
        Expected calibration error in 15 equal bins.
    seconds : float
        Of processor time.
    failure : str
        Why there are no figures.
    log_p : Doubles (m,)
        Log probability of the true class of every held-out row; none if the trial failed.
    """

    kernel: str
    nlpp: float | None
    error: float | None
    ece: float | None
    seconds: float
    failure: str = ""
    log_p: Doubles = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    def leads(self, other: "Outcome", errors: float = 1.0) -> bool:
        """Whether it is better on average by more than so many standard errors."""
        if self.nlpp is None or other.nlpp is None:
            return self.nlpp is not None
        m = min(len(self.log_p), len(other.log_p))  # fits to more rows leave fewer, the last ones
        difference, error = paired_difference(self.log_p[-m:], other.log_p[-m:])
        return difference > errors * error


def gain_of(outcome: Outcome, before: Outcome, of_numbers: bool = False) -> float:
    """Return by which share the nlpp is less than before, 0 if not by more than a standard error.

    Zero also where one of them failed. Of numbers by how many nats: a density may be more than one.
    """
    if outcome.nlpp is None or before.nlpp is None or not outcome.leads(before):
        return 0.0
    return (before.nlpp - outcome.nlpp) / (1.0 if of_numbers else before.nlpp)


TryOut = Callable[[Sequence[Trial], str], Mapping[int, Outcome]]
"""From trials, and what they are in words, to how they went by number; fewer if time ran out."""
