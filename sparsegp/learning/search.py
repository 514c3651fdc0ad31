"""Which kernels are tried next: successive halving, then two last questions.

Many candidates are tried on few rows, the best of them and their neighbours on more (Jamieson &
Talwalkar 2016, https://arxiv.org/abs/1502.07943); the last size serves twice. Then a length scale
for every column is searched for (learning/relevances.py), and the best is compared with the kernel
of the settings on rows that have chosen neither.

Decisions are taken at the end of a rung, when all its trials are known, and depend on nothing else.
So the choice depends neither on how many trials run side by side, nor on kills and resumes.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparsegp.learning.space import Candidates

ETA = 3
"""Rows of a rung over those of the one before."""
LEAST_ROWS = 3000
"""On fewer rows the best kernel is often another one than on all."""
MOST_ROWS, MOST_ACTIVE = 16000, 2000
"""Bounds of the time of the last rungs; few active rows favour smooth kernels."""
SHARES = (4, 2, 1, 1)
"""Of the trials, for each rung."""
LEAST_TRIALS = 2 * len(SHARES) + 2
"""With fewer none is spent on the two last questions."""
MOST_COLUMNS, ROWS_A_COLUMN, LEAST_FOR_COLUMNS = 256, 8, 400
"""The search for a length scale for every column takes too long with more columns, and is chance
with fewer rows for each, or fewer in all."""
STEPS = 3
"""Of that search: fits anew with the relevances of the one before."""
ALL_RUNGS, OUT_OF_TIME = "all rungs", "max_seconds"
"""What may end a search."""
WIDENS = re.compile(r"\b(rbf|ard|laplace|additive)\(")
"""Kernels that can have a length scale for every column."""


@dataclass(frozen=True)
class Trial:
    """What is tried.

    Attributes
    ----------
    number : int
        Of the candidate, from 0.
    kernel : str
        Its text, complete.
    rung : int
    rows : int
        Rows of the sample that it trains on, the first ones.
    n_active : int
    steps : int
        Times that length scales for every column are learnt, from the kernel on; 0 for none.
    rival : str
        Kernel that this one has to beat, if any, on rows that have chosen neither.
    """

    number: int
    kernel: str
    rung: int
    rows: int
    n_active: int
    steps: int = 0
    rival: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a trial went on the held-out rows.

    Attributes
    ----------
    kernel : str
        What was compared: the kernel of the trial, or what the search made of it.
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
    leads : bool
        Whether it may be chosen: what a search found has to be better than its start by more than
        a standard error, and so has a kernel than its rival.
    """

    kernel: str
    nlpp: float | None
    error: float | None
    ece: float | None
    seconds: float
    failure: str = ""
    leads: bool = True


TryOut = Callable[[Sequence[Trial], str], Mapping[int, Outcome]]
"""From trials, and what they are in words, to how they went by number; fewer if time ran out."""


@dataclass(frozen=True)
class Rung:
    """One round of trials: the rows and active rows of each, and how many there are."""

    rows: int
    n_active: int
    count: int


@dataclass(frozen=True)
class Plan:
    """The whole of a search, but for who takes part.

    Attributes
    ----------
    rungs : sequence of Rung
    by_column : bool
        Whether a length scale for every column is searched for.
    compared : bool
        Whether the best is compared with the kernel of the settings in the end.
    """

    rungs: Sequence[Rung]
    by_column: bool
    compared: bool

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        n_active: int,
        max_trials: int,
        validation: Callable[[int], int] = lambda _: 0,
    ) -> "Plan":
        """Return the plan for rows to train on.

        Active rows grow with the rows, up to `MOST_ACTIVE` or as many as the run has.

        Parameters
        ----------
        shape : (int, int)
            Rows, at most `MOST_ROWS` of which are used, and columns.
        n_active : int
            Active rows of the run.
        max_trials : int
            Trials in all.
        validation : callable
            From rows to those of them that cannot become active.
        """
        n, p = shape
        compared = max_trials >= LEAST_TRIALS
        by_column = (
            compared and p <= MOST_COLUMNS and n >= max(LEAST_FOR_COLUMNS, ROWS_A_COLUMN * p)
        )
        last, wanted, rungs = min(n, MOST_ROWS), min(n_active, MOST_ACTIVE), []
        numbers = counts(max_trials - by_column - compared)
        for place, count in enumerate(numbers):
            steps = max(0, len(numbers) - 2 - place)
            rows = min(last, max(LEAST_ROWS, last // ETA**steps))
            d = min(-(-wanted * rows // last), rows - validation(rows))
            rungs.append(Rung(rows, d, count))
        return cls(rungs, by_column, compared)


def counts(max_trials: int) -> list[int]:
    """Return the trials of each rung, `max_trials` in all.

    Each has two at least, the kernel of the settings and a rival. Where that cannot be, there is
    the last rung alone: few rows alone decide badly.
    """
    if max_trials < 2 * len(SHARES):
        return [max_trials]
    later = [max(2, max_trials * share // sum(SHARES)) for share in SHARES[1:]]
    return [max_trials - sum(later), *later]


@dataclass(frozen=True)
class Choice:
    """What a search has led to.

    Attributes
    ----------
    kernel : str
        Text in full precision.
    nlpp : float or None
        Of its last trial, on the held-out rows; None if no trial came to an end.
    ended : str
        What ended it: `ALL_RUNGS` or `OUT_OF_TIME`.
    """

    kernel: str
    nlpp: float | None
    ended: str


def search(candidates: Candidates, plan: Plan, try_out: TryOut) -> Choice:
    """Try rung after rung; return the best of the last one that was completed.

    Parameters
    ----------
    candidates : Candidates
        Number 0, the kernel of the settings, is tried on every rung.
    plan : Plan
    try_out : callable
        May raise to end the search.
    """
    texts, outcomes = candidates.texts, dict[int, Outcome]()
    former: Rung | None = None
    ended = ALL_RUNGS
    for place, rung in enumerate(plan.rungs):
        ranking, size = _ranking(outcomes), (rung.rows, rung.n_active)
        of_same_size = former is not None and (former.rows, former.n_active) == size
        if former is None:
            numbers = candidates.first(rung.count)
        elif of_same_size:
            numbers = candidates.neighbours(ranking, rung.count, outcomes)
        else:
            numbers = candidates.best_and_neighbours(ranking, rung.count)
        trials = [Trial(n, texts[n], place, rung.rows, rung.n_active) for n in numbers]
        found = try_out(trials, f"trials of {rung.rows} rows")
        complete = len(found) == len(trials)
        if complete or place == 0:
            outcomes, former = {**(outcomes if of_same_size else {}), **found}, rung
        if not complete:
            ended = OUT_OF_TIME
            break
    if plan.by_column and ended == ALL_RUNGS:
        ended = _by_column(outcomes, plan, texts, try_out)
    winner = _ranking(outcomes)[0]
    if plan.compared and ended == ALL_RUNGS:
        winner, ended = _compared(outcomes, plan, texts[0], try_out)
    if winner not in outcomes:
        return Choice(texts[winner], None, ended)
    return Choice(outcomes[winner].kernel, outcomes[winner].nlpp, ended)


def _ranking(outcomes: Mapping[int, Outcome]) -> list[int]:
    """Return the best first; failures come last, equals in the order in which they came up."""
    nlpp = {
        number: math.inf if each.nlpp is None else each.nlpp for number, each in outcomes.items()
    }
    return sorted(sorted(nlpp), key=nlpp.__getitem__) or [0]


def _by_column(
    outcomes: dict[int, Outcome], plan: Plan, texts: Sequence[str], try_out: TryOut
) -> str:
    """Search for a length scale for every column, from the best kernel that allows it.

    What was found joins the outcomes if it leads. Return how the search ended.
    """
    start = next((n for n in _ranking(outcomes) if WIDENS.search(texts[n])), None)
    if start is None:
        return ALL_RUNGS
    place, rung = len(plan.rungs), plan.rungs[-1]
    trial = Trial(len(texts), texts[start], place, rung.rows, rung.n_active, STEPS)
    found = try_out([trial], "search for a length scale for every column")
    if found and found[trial.number].leads:
        outcomes.update(found)
    return ALL_RUNGS if found else OUT_OF_TIME


def _compared(
    outcomes: Mapping[int, Outcome], plan: Plan, given: str, try_out: TryOut
) -> tuple[int, str]:
    """Return the best, or the kernel of the settings where it leads that by chance only."""
    winner = _ranking(outcomes)[0]
    if winner == 0 or 0 not in outcomes or outcomes[0].nlpp is None:
        return winner, ALL_RUNGS
    place, rung, kernel = len(plan.rungs) + 1, plan.rungs[-1], outcomes[winner].kernel
    trial = Trial(winner, kernel, place, rung.rows, rung.n_active, rival=given)
    found = try_out([trial], "the best against the kernel of the settings")
    if not found:
        return winner, OUT_OF_TIME
    return winner if found[winner].leads else 0, ALL_RUNGS
