"""The tuning itself: rung after rung, with records, limits and interrupts.

Decisions are taken at the end of a rung, when all its trials are known, and depend on nothing else.
So the outcome does not depend on how many trials run side by side, nor on kills and resumes.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from sparsegp.errors import Interrupted
from sparsegp.execution import Runtime
from sparsegp.interrupt import StopRequest
from sparsegp.kernels import InputScale
from sparsegp.settings import TrainSettings
from sparsegp.training.progress import Progress
from sparsegp.tuning.halving import SHARES, Rung, best, plan
from sparsegp.tuning.records import Records
from sparsegp.tuning.space import Candidates
from sparsegp.tuning.trial import Outcome, Sample, Trial, run_trial

ALL_RUNGS, OUT_OF_TIME = "all rungs", "max_seconds"

MOST_COLUMNS, ROWS_A_COLUMN, LEAST_ROWS = 256, 8, 400
"""The search for a length scale for every column takes too long with more columns than this, and is
not tried with fewer rows for each. With fewer rows in all those held out cannot tell it from
chance."""

LEAST_TRIALS = 2 * len(SHARES) + 2
"""With fewer none is spent on the search, nor on the duel at the end."""

STEPS = 24
"""Of the search: evaluations of its gradient."""

HAS_RBF = re.compile(r"\b(rbf|ard)\(")


@dataclass(frozen=True)
class Tuned:
    """The outcome of a tuning.

    Attributes
    ----------
    kernel : str
        The text of the kernel that was chosen, in full precision.
    nlpp : float or None
        Of its last trial, on the held-out rows; None if no trial came to an end.
    ended : str
        What ended it: `ALL_RUNGS` or `OUT_OF_TIME`.
    trials : tuple of dict
        Every trial and how it went, in order: number, kernel, rung, rows, n_active, nlpp, error,
        ece, seconds (of processor time), failure, its rival, and whether it `leads`.
    """

    kernel: str
    nlpp: float | None
    ended: str
    trials: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "kernel": self.kernel,
            "nlpp": self.nlpp,
            "ended": self.ended,
            "trials": [dict(trial) for trial in self.trials],
        }


class Tuning:
    """One tuning: `run` it.

    Parameters
    ----------
    sample : Sample
    settings : TrainSettings
        Of the run that it is for; the kernel that they name is tried on every rung.
    scale : InputScale
        Of all training rows, scaled.
    n_active : int
        Active rows of the run.
    max_trials : int
    runtime : Runtime
    progress : Progress
    records : Records, optional
        Open.
    out_of_time : callable
        Whether no trial is to begin any more.
    stop : StopRequest, optional
    """

    def __init__(  # noqa: PLR0913 - what a tuning is, each by name
        self,
        sample: Sample,
        settings: TrainSettings,
        scale: InputScale,
        *,
        n_active: int,
        max_trials: int,
        runtime: Runtime,
        progress: Progress,
        records: Records | None = None,
        out_of_time: Callable[[], bool] = lambda: False,
        stop: StopRequest | None = None,
    ) -> None:
        self.sample, self.settings, self.runtime = sample, settings, runtime
        self.progress, self.records = progress, records
        self.out_of_time, self.stop = out_of_time, stop
        self.candidates = Candidates(settings.kernel, scale, settings.seed)
        n, p = sample.X.shape
        self.duel = max_trials >= LEAST_TRIALS
        self.search = self.duel and can_search(n, p)
        left = max_trials - self.search - self.duel
        self.rungs = plan(n, n_active, left, settings.rows_aside)
        self.trials: list[dict[str, Any]] = []

    def run(self) -> Tuned:
        """Try rung after rung; return the best of the last one that was completed.

        Raises
        ------
        Interrupted
            If a stop was requested.
        StoreError
            If a record cannot be written.
        """
        standing, ended = Standing(), ALL_RUNGS
        for place, rung in enumerate(self.rungs):
            numbers = self._whom_to_try(standing, rung)
            outcomes = self._try(place, rung, numbers)
            complete = len(outcomes) == len(numbers)
            if complete or place == 0:
                standing = standing.after(rung, outcomes)
            if not complete:
                ended = OUT_OF_TIME
                break
        if self.search and ended == ALL_RUNGS:
            standing, ended = self._search(standing)
        winner = standing.ranking[0]
        if self.duel and ended == ALL_RUNGS:
            winner, ended = self._duel(standing)
        self.trials.sort(key=lambda trial: (trial["rung"], trial["number"]))
        if winner not in standing.outcomes:
            return Tuned(self.candidates.texts[winner], None, ended, tuple(self.trials))
        outcome = standing.outcomes[winner]
        return Tuned(outcome.kernel, outcome.nlpp, ended, tuple(self.trials))

    def _search(self, standing: "Standing") -> tuple["Standing", str]:
        """Try a length scale for every column, searched for from the best kernel that allows it."""
        texts, rung = self.candidates.texts, standing.rung
        start = next((n for n in standing.ranking if HAS_RBF.search(texts[n])), None)
        if start is None or rung is None:
            return standing, ALL_RUNGS
        trial = Trial(len(texts), texts[start], len(self.rungs), rung.rows, rung.n_active, STEPS)
        outcomes = self._run([trial], f"search for {self.sample.X.shape[1]} length scales")
        if outcomes and not outcomes[trial.number].leads:
            return standing, ALL_RUNGS
        return standing.after(rung, outcomes), ALL_RUNGS if outcomes else OUT_OF_TIME

    def _duel(self, standing: "Standing") -> tuple[int, str]:
        """Return the best, or the kernel of the settings where it leads that by chance only."""
        winner, outcomes, rung = standing.ranking[0], standing.outcomes, standing.rung
        if winner == 0 or rung is None or 0 not in outcomes or outcomes[0].nlpp is None:
            return winner, ALL_RUNGS
        kernel, place = outcomes[winner].kernel, len(self.rungs) + 1
        given = self.candidates.texts[0]
        trial = Trial(winner, kernel, place, rung.rows, rung.n_active, rival=given)
        ended = self._run([trial], "the best against the kernel of the settings")
        if not ended:
            return winner, OUT_OF_TIME
        return winner if ended[winner].leads else 0, ALL_RUNGS

    def _whom_to_try(self, standing: "Standing", rung: Rung) -> list[int]:
        if standing.rung is None:
            return self.candidates.first(rung.count)
        if standing.same_size(rung):
            return self.candidates.neighbours(standing.ranking, rung.count, standing.outcomes)
        return self.candidates.best_and_neighbours(standing.ranking, rung.count)

    def _try(self, place: int, rung: Rung, numbers: Sequence[int]) -> dict[int, Outcome]:
        """Return how the trials of a rung went; some are missing if time ran out."""
        texts = self.candidates.texts
        trials = [Trial(n, texts[n], place, rung.rows, rung.n_active) for n in numbers]
        return self._run(trials, f"trials of {rung.rows} rows")

    def _run(self, trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        """Return how some trials went, from records where there are some."""
        outcomes: dict[int, Outcome] = {}
        self.progress.start(len(trials), what, "tune")
        for trial in trials:
            if self.records is not None and (known := self.records.find(trial)) is not None:
                self._note(trial, known, outcomes)
        missing = [trial for trial in trials if trial.number not in outcomes]
        self.progress.update(len(outcomes), **_least(outcomes))
        if missing and not self._must_end():
            work = functools.partial(run_trial, self.settings)
            going = self.runtime.run_tasks(work, self.sample, missing, self._leave)
            with closing(going) as ended:
                for index, outcome in ended:
                    if self.records is not None:
                        self.records.add(missing[index], outcome)
                    self._note(missing[index], outcome, outcomes)
                    self.progress.update(len(outcomes), **_least(outcomes))
                    if len(outcomes) < len(trials) and self._must_end():
                        break
        self.progress.finish()
        return outcomes

    def _note(self, trial: Trial, outcome: Outcome, outcomes: dict[int, Outcome]) -> None:
        outcomes[trial.number] = outcome
        self.trials.append({**trial.to_json(), **outcome.to_json()})

    def _must_end(self) -> bool:
        """Whether time has run out; raises Interrupted if a stop was requested."""
        self._leave()
        return self.out_of_time()

    def _leave(self) -> None:
        """End here if a stop was requested.

        Raises
        ------
        Interrupted
        """
        reason = "" if self.stop is None else self.stop.requested
        if reason:
            done = f"stopped by {reason} after {len(self.trials)} trials"
            if self.records is None:
                raise Interrupted(f"{done}; nothing was kept, as there is no --out")
            raise Interrupted(f"{done}; go on by --resume")


def can_search(n: int, p: int) -> bool:
    """Whether n rows of p columns are fit for a search for a length scale for every column."""
    return p <= MOST_COLUMNS and n >= max(LEAST_ROWS, ROWS_A_COLUMN * p)


@dataclass(frozen=True)
class Standing:
    """What is known of the candidates at the size of the last rung.

    Attributes
    ----------
    rung : Rung or None
    outcomes : mapping
        By number.
    ranking : tuple of int
        Numbers, the best first; before the first rung the kernel of the settings.
    """

    rung: Rung | None = None
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    ranking: tuple[int, ...] = (0,)

    def same_size(self, rung: Rung) -> bool:
        """Whether figures of a rung can be compared with those of the last one."""
        former = self.rung
        return former is not None and former.rows == rung.rows and former.n_active == rung.n_active

    def after(self, rung: Rung, outcomes: Mapping[int, Outcome]) -> "Standing":
        """Return what is known after one more rung."""
        joined = {**self.outcomes, **outcomes} if self.same_size(rung) else dict(outcomes)
        numbers = sorted(joined)
        order = best([joined[number].nlpp for number in numbers])
        return Standing(rung, joined, tuple(numbers[place] for place in order) or (0,))


def _least(outcomes: Mapping[int, Outcome]) -> dict[str, float]:
    """Return the best figure so far, to be shown."""
    found = [outcome.nlpp for outcome in outcomes.values() if outcome.nlpp is not None]
    return {"heldout_nlpp": min(found)} if found else {}
