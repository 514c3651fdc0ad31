"""Trials of a search, their outcomes on held-out rows, and the choice made."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparsegp.learning.metric import NONE
from sparsegp.learning.plan import Size
from sparsegp.learning.space import Candidate
from sparsegp.types import Doubles

ALL_RUNGS, OUT_OF_TIME = "all rungs", "max_seconds"
"""Reasons for the end of a search."""


@dataclass(frozen=True)
class Trial:
    """A candidate, and how it is fitted."""

    number: int  # of the candidate, from 0
    kernel: str  # its text, complete
    scaling: str  # the scaling rule of the inputs
    rung: int  # number of the stage
    rows: int  # number of rows fitted, from the beginning of the sample
    n_active: int
    by_column: bool = False  # per-column length scales are learnt first, starting from that kernel
    metric: str = NONE  # learnt before the fit
    again: bool = False  # re-estimate length scales from `rows`, held-out ones too, without a fit
    first: int = 0  # where these rows begin; without `by_column`, the rows before are predicted
    selects: bool = False  # active rows are selected as in a run, rather than the first ones

    @classmethod
    def of(
        cls, number: int, candidate: Candidate, rung: int, size: Size, by_column: bool = False
    ) -> "Trial":
        """Create the trial of a candidate in a stage."""
        kernel, scaling, metric = candidate
        return cls(number, kernel, scaling, rung, size.rows, size.n_active, by_column, metric)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a trial on the held-out rows.

    `nlpp` is the mean of -log p of the true class or target, in nats; two-fold cross-validated if
    length scales were only re-estimated. For each held-out row, `log_p` (m,) holds log p times its
    weight over the mean weight.
    """

    kernel: str  # with the length scales that were learnt
    nlpp: float | None  # None if the trial failed
    error: float | None  # error rate; in a regression MSE over the variance of the targets
    ece: float | None  # expected calibration error with 15 bins of equal width, for classes
    seconds: float  # processor time
    failure: str = ""  # why the trial failed, if it did
    log_p: Doubles = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    def leads(self, other: "Outcome", errors: float = 1.0) -> bool:
        """Return whether its mean log p is higher by more than `errors` standard errors."""
        if self.nlpp is None or other.nlpp is None:
            return self.nlpp is not None
        m = min(len(self.log_p), len(other.log_p))  # fits to more rows hold out only the last ones
        gains = self.log_p[-m:] - other.log_p[-m:]
        error = float(gains.std()) / math.sqrt(m)
        return float(gains.mean()) > errors * error

    def gain_over(self, before: "Outcome", is_regression: bool = False) -> float:
        """Return the relative decrease of the NLPP, 0 if it is within one standard error.

        It is also 0 if either trial failed. In a regression it is absolute, in nats, as the NLPP of
        a density may be negative.
        """
        if self.nlpp is None or before.nlpp is None or not self.leads(before):
            return 0.0
        return (before.nlpp - self.nlpp) / (1.0 if is_regression else before.nlpp)


def nlpp_of(outcomes: Mapping[int, Outcome]) -> Mapping[int, float]:
    """Return the NLPP by candidate number, infinite where a trial failed."""
    return {n: math.inf if each.nlpp is None else each.nlpp for n, each in outcomes.items()}


TryOut = Callable[[Sequence[Trial], str], Mapping[int, Outcome]]
"""Runs trials, given a text that describes them, and returns outcomes by candidate number; fewer if
time runs out."""


@dataclass(frozen=True)
class Choice:
    """Result of a search.

    `nlpp` is from its last trial on the held-out rows; it is optimistic if that trial used length
    scales re-estimated from these rows too, and None if no trial of it has succeeded.
    """

    kernel: str  # its text in full precision
    scaling: str  # the scaling rule
    metric: str
    n_active: int | None  # number of active rows, if it was not given
    criterion: str | None  # of the selection, if it is not the default
    nlpp: float | None
    ended: str  # why the search ended: `ALL_RUNGS` or `OUT_OF_TIME`
