"""Which kernels are tried next: successive halving, then two last questions.

Many candidates are tried on few rows, the best of them and their neighbours on more (Jamieson &
Talwalkar 2016, https://arxiv.org/abs/1502.07943); the last size serves twice. Then a length scale
for every column is searched for (learning/relevances.py), and the best is compared with the kernel
of the settings on rows that have chosen neither.

Decisions are taken at the end of a rung, when all its trials are known, and depend on nothing else.
So the choice depends neither on how many trials run side by side, nor on kills and resumes. What a
trial is, `try_out` knows: here are names and numbers only.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparsegp.learning.space import Candidates

ETA = 3
"""Rows of a rung over those of the one before."""

LEAST_ROWS = 3000
"""On fewer rows the best kernel is often another one than on all."""

MOST_ROWS = 16000
"""Bounds the time of the last rungs; larger tables are tuned on a part of them."""

MOST_ACTIVE = 2000
"""The same for active rows. Fewer than the run has favour smooth kernels."""

SHARES = (4, 2, 1, 1)
"""Of the trials, for each rung."""

LEAST_TRIALS = 2 * len(SHARES) + 2
"""With fewer none is spent on the two last questions."""

MOST_COLUMNS, ROWS_A_COLUMN, LEAST_FOR_COLUMNS = 256, 8, 400
"""The search for a length scale for every column takes too long with more columns than this, and is
not tried with fewer rows for each. With fewer rows in all those held out cannot tell it from
chance."""

STEPS = 24
"""Of that search: evaluations of its gradient."""

ALL_RUNGS, OUT_OF_TIME = "all rungs", "max_seconds"
"""What may end a search."""

HAS_RBF = re.compile(r"\b(rbf|ard)\(")


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
        Of the search for a length scale for every column, which begins at the kernel; 0 for none.
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
    """One round of trials.

    Attributes
    ----------
    rows : int
        That each trial trains on.
    n_active : int
    count : int
        Trials.
    """

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

        Active rows grow with the rows, up to `MOST_ACTIVE` or what the run asks.

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
        enough = p <= MOST_COLUMNS and n >= max(LEAST_FOR_COLUMNS, ROWS_A_COLUMN * p)
        by_column = compared and enough
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
class Ranking:
    """What is known of the candidates at the size of the last rung.

    Attributes
    ----------
    rung : Rung or None
    outcomes : mapping
        By number.
    numbers : tuple of int
        The best first; before the first rung the kernel of the settings alone.
    """

    rung: Rung | None = None
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    numbers: tuple[int, ...] = (0,)

    def same_size(self, rung: Rung) -> bool:
        """Whether figures of a rung can be compared with those of the last one."""
        former = self.rung
        return former is not None and (former.rows, former.n_active) == (rung.rows, rung.n_active)

    def after(self, rung: Rung, outcomes: Mapping[int, Outcome]) -> "Ranking":
        """Return what is known after another rung; failures come last, equals as they came up."""
        joined = {**self.outcomes, **outcomes} if self.same_size(rung) else dict(outcomes)

        def nlpp(number: int) -> float:
            found = joined[number].nlpp
            return math.inf if found is None else found

        return Ranking(rung, joined, tuple(sorted(sorted(joined), key=nlpp)) or (0,))


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
    ranking, texts, ended = Ranking(), candidates.texts, ALL_RUNGS
    for place, rung in enumerate(plan.rungs):
        numbers = _candidates_of(rung, ranking, candidates)
        trials = [Trial(n, texts[n], place, rung.rows, rung.n_active) for n in numbers]
        outcomes = try_out(trials, f"trials of {rung.rows} rows")
        complete = len(outcomes) == len(trials)
        if complete or place == 0:
            ranking = ranking.after(rung, outcomes)
        if not complete:
            ended = OUT_OF_TIME
            break
    if plan.by_column and ended == ALL_RUNGS:
        ranking, ended = _by_column(ranking, texts, len(plan.rungs), try_out)
    winner = ranking.numbers[0]
    if plan.compared and ended == ALL_RUNGS:
        winner, ended = _compared(ranking, texts, len(plan.rungs) + 1, try_out)
    if winner not in ranking.outcomes:
        return Choice(texts[winner], None, ended)
    return Choice(ranking.outcomes[winner].kernel, ranking.outcomes[winner].nlpp, ended)


def _candidates_of(rung: Rung, ranking: Ranking, candidates: Candidates) -> list[int]:
    if ranking.rung is None:
        return candidates.first(rung.count)
    if ranking.same_size(rung):
        return candidates.neighbours(ranking.numbers, rung.count, ranking.outcomes)
    return candidates.best_and_neighbours(ranking.numbers, rung.count)


def _by_column(
    ranking: Ranking, texts: Sequence[str], place: int, try_out: TryOut
) -> tuple[Ranking, str]:
    """Try a length scale for every column, searched for from the best kernel that allows it."""
    start = next((n for n in ranking.numbers if HAS_RBF.search(texts[n])), None)
    rung = ranking.rung
    if start is None or rung is None:
        return ranking, ALL_RUNGS
    trial = Trial(len(texts), texts[start], place, rung.rows, rung.n_active, STEPS)
    outcomes = try_out([trial], "search for a length scale for every column")
    if not outcomes:
        return ranking, OUT_OF_TIME
    leads = outcomes[trial.number].leads
    return ranking.after(rung, outcomes) if leads else ranking, ALL_RUNGS


def _compared(
    ranking: Ranking, texts: Sequence[str], place: int, try_out: TryOut
) -> tuple[int, str]:
    """Return the best, or the kernel of the settings where it leads that by chance only."""
    winner, outcomes, rung = ranking.numbers[0], ranking.outcomes, ranking.rung
    if winner == 0 or rung is None or 0 not in outcomes or outcomes[0].nlpp is None:
        return winner, ALL_RUNGS
    kernel = outcomes[winner].kernel
    trial = Trial(winner, kernel, place, rung.rows, rung.n_active, rival=texts[0])
    found = try_out([trial], "the best against the kernel of the settings")
    if not found:
        return winner, OUT_OF_TIME
    return winner if found[winner].leads else 0, ALL_RUNGS
