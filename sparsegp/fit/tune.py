"""Tune the kernel with one call.

The trials of a tuning are on record in the folder `tuning` of the run that it is for: a run of its
own, whose run.json holds settings and data. Its one checkpoint is written anew whenever a trial is
finished; it holds every finished trial and in the end what was chosen. So a killed tuning loses the
trials that were running and no other.
"""

import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from sparsegp.data import Table, table_from_arrays
from sparsegp.errors import Interrupted, SettingsError, StoreError
from sparsegp.fit.prepare import prepare
from sparsegp.fit.trial import draw_sample, run_trial
from sparsegp.interrupt import StopRequest
from sparsegp.learning.relevances import Sample
from sparsegp.learning.search import MOST_ROWS, OUT_OF_TIME, Choice, Outcome, Plan, Trial, search
from sparsegp.learning.space import Candidates
from sparsegp.progress import Progress
from sparsegp.runtime import Runtime, Where, open_runtime
from sparsegp.settings import SPARSE, TrainSettings
from sparsegp.store import RUN_FILE, TUNING, RunDirectory, folder_of, read_run

MAX_TRIALS = 40


@dataclass(frozen=True)
class Tuned(Choice):
    """The outcome of a tuning.

    Attributes
    ----------
    kernel : str
        The text of the kernel that was chosen, in full precision.
    nlpp : float or None
        Of its last trial, on the held-out rows; None if no trial came to an end.
    ended : str
        What ended it: "all rungs" or "max_seconds".
    trials : tuple of dict
        Every trial and how it went, in order: number, kernel, rung, rows, n_active, nlpp, error,
        ece, seconds (of processor time), failure, its rival, and whether it `leads`.
    """

    trials: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def tune(
    X: Any,
    y: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    max_trials: int = MAX_TRIALS,
    max_seconds: float | None = None,
    runtime: Where = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Tuned:
    """Choose the kernel by the predictive probability of rows held out.

    Variance, length scale and family are tried by successive halving on growing subsamples, on
    the runtime in use. The choice does not depend on how many trials run side by side, nor on kills
    and resumes, unless `max_seconds` cuts it short.

    Parameters
    ----------
    X, y, runtime, progress
        As in `train`.
    out : path or URL, optional
        Directory, or place in a store, for the records of the trials; `train` can have the same.
    resume : bool
        Go on with the tuning in `out`, if there is one.
    max_trials : int
        Trials in all.
    max_seconds : float, optional
        After so many seconds of this call no trial is begun, and the best of the last rung that
        was completed wins.
    **settings
        Fields of `TrainSettings` for the run that will use the kernel. Its own kernel is tried on
        every subsample, and stays unless another leads it by a standard error on held-out rows
        that have not chosen either. What trials would not heed is refused: see `tunable`.

    Returns
    -------
    Tuned

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        What must be mended, in one sentence.
    Interrupted
        On SIGTERM or Ctrl-C; the tuning can be resumed if it has a directory.
    """
    end = math.inf if max_seconds is None else time.monotonic() + max_seconds
    chosen, shown = tunable(**settings), progress or Progress()
    if max_trials < 1:
        raise SettingsError(f"max_trials must be at least 1, got {max_trials}")
    if max_seconds is not None and not max_seconds > 0:
        raise SettingsError(f"max_seconds must be positive, got {max_seconds}")
    if resume and out is None:
        raise SettingsError("resume needs the directory of the tuning: give out")
    store = None if out is None else _directory(out, shown.message)
    has_run = out is not None and RUN_FILE in folder_of(out).sizes()
    if out is not None and store is not None:
        store.check_free(resume)
        if has_run:
            RunDirectory(out, 1, shown.message).check_free(resume)
            if RUN_FILE not in store.folder.sizes():
                raise StoreError(f"{out} holds a run that was not tuned; choose another --out")
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        opened = stack.enter_context(open_runtime(runtime))
        table = X if isinstance(X, Table) else table_from_arrays(X, y)
        data = prepare(table, None, chosen, opened)
        n_active = chosen.rows_to_include(data.summary.n)
        sample = draw_sample(data, chosen, MOST_ROWS, opened.scheduler())
        tuning = Tuning(sample, chosen, opened, store, shown, stop, end)
        if store is not None:
            stack.callback(store.close)
            asked = {**chosen.to_json(), "max_trials": max_trials}
            identity = {**data.to_json(), "sample": digest(sample)}
            store.open({"settings": asked, "data": identity}, resume)
            tuning.trials, tuning.choice = _recorded(store)
        stopped_early = tuning.choice is not None and tuning.choice["ended"] == OUT_OF_TIME
        if tuning.choice is None or (stopped_early and not has_run):
            plan = Plan.of(sample.X.shape, n_active, max_trials, chosen.n_validation)
            candidates = Candidates(chosen.kernel, data.scaled_variances, chosen.seed)
            tuning.choice = asdict(search(candidates, plan, tuning.try_out))
            tuning.save()
        return Tuned(**tuning.choice, trials=tuple(_in_order(tuning.trials)))


def digest(sample: Sample) -> str:
    """Return a digest of all values."""
    found = hashlib.blake2b(digest_size=16)
    for values in (sample.X, sample.target, sample.X_held, sample.target_held):
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()


@dataclass
class Tuning:
    """A tuning under way: trials run side by side; those on record are not made again.

    Attributes
    ----------
    sample : Sample
    settings : TrainSettings
        Of the run that the tuning is for.
    runtime : Runtime
    store : RunDirectory or None
        Where the records are kept.
    progress : Progress
    stop : StopRequest
    end : float
        Of `time.monotonic`, after which no trial is begun.
    trials : list of dict
        Finished trials, each with its outcome in one.
    choice : dict or None
        What was chosen in the end.
    """

    sample: Sample
    settings: TrainSettings
    runtime: Runtime
    store: RunDirectory | None
    progress: Progress
    stop: StopRequest
    end: float
    trials: list[dict[str, Any]] = field(default_factory=list)
    choice: dict[str, Any] | None = None

    def try_out(self, trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        """Return how some trials went, by number; some are missing if time ran out.

        Raises
        ------
        Interrupted
            If a stop was requested.
        StoreError
            If a record cannot be written.
        """
        known = {trial.number: self._find(trial) for trial in trials}
        outcomes = {number: found for number, found in known.items() if found is not None}
        missing = [trial for trial in trials if trial.number not in outcomes]
        self.progress.start(len(trials), what, "tune")
        self._show(outcomes)
        if missing and not self._must_end():
            work = functools.partial(run_trial, self.settings)
            running = self.runtime.run_tasks(work, self.sample, missing, self._check_stop)
            with closing(running) as ended:
                for index, outcome in ended:
                    self.trials.append({**asdict(missing[index]), **asdict(outcome)})
                    self.save()
                    outcomes[missing[index].number] = outcome
                    self._show(outcomes)
                    if len(outcomes) < len(trials) and self._must_end():
                        break
        self.progress.finish()
        return outcomes

    def _find(self, trial: Trial) -> Outcome | None:
        """Return how a trial went, None if it was not finished."""
        own = {name: value for name, value in asdict(trial).items() if name != "kernel"}
        for entry in self.trials:
            if own.items() <= entry.items():
                return Outcome(**{each.name: entry[each.name] for each in fields(Outcome)})
        return None

    def save(self) -> None:
        """Write what is known to the records."""
        if self.store is not None:
            self.store.save(len(self.trials), {"trials": self.trials, "chosen": self.choice}, {})

    def _show(self, outcomes: Mapping[int, Outcome]) -> None:
        found = [each.nlpp for each in outcomes.values() if each.nlpp is not None]
        self.progress.update(len(outcomes), **({"heldout_nlpp": min(found)} if found else {}))

    def _must_end(self) -> bool:
        """Whether time has run out; raises Interrupted if a stop was requested."""
        self._check_stop()
        return time.monotonic() >= self.end

    def _check_stop(self) -> None:
        if reason := self.stop.requested:
            kept = "go on by --resume"
            if self.store is None:
                kept = "nothing was kept, as there is no --out"
            raise Interrupted(f"stopped by {reason} after {len(self.trials)} trials; {kept}")


def read_records(
    path: str | os.PathLike[str], on_warning: Callable[[str], None] = lambda text: None
) -> Mapping[str, Any] | None:
    """Return the records of the tuning in the folder of a run, None if there was none.

    Parameters
    ----------
    path : path or URL
    on_warning : callable
        Receives a text about what cannot be read.

    Returns
    -------
    mapping or None
        `settings`, `data`, `limits`; `trials`, each trial and its outcome in one, by rung and
        number; `chosen`, None while the tuning is not finished.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    store = _directory(path, on_warning)
    if RUN_FILE not in store.folder.sizes():
        return None
    settings, data = read_run(store.folder)
    limits = {"max_trials": settings.pop("max_trials", None)}
    trials, chosen = _recorded(store)
    known = {"settings": settings, "data": data, "limits": limits}
    return {**known, "trials": _in_order(trials), "chosen": chosen}


def _directory(path: str | os.PathLike[str], on_warning: Callable[[str], None]) -> RunDirectory:
    return RunDirectory(os.path.join(os.fspath(path), TUNING), 1, on_warning)


def _recorded(store: RunDirectory) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the finished trials and what was chosen."""
    found = store.load()
    return ([], None) if found is None else (list(found[1].meta["trials"]), found[1].meta["chosen"])


def _in_order(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(trials, key=lambda trial: (trial["rung"], trial["number"]))


def tunable(**named: Any) -> TrainSettings:
    """Return the settings of the run that a tuning is for, of which some are named.

    Raises
    ------
    SettingsError
        If they go beyond what trials are: the multinomial probit with one kernel, sites
        "variational", and no bound on stub entries.
    """
    method = named.pop("method", SPARSE)
    if method != SPARSE:
        raise SettingsError(
            f"tuning is for method={SPARSE}, got method={method}, which learns its kernel itself; "
            "leave the tuning out, and give --learn evidence"
        )
    settings = TrainSettings.given(**named)
    if settings.sites != TrainSettings.sites:
        raise SettingsError(
            f"tuning is for classification by likelihood={TrainSettings.likelihood} with "
            f"sites={TrainSettings.sites}, got likelihood={settings.likelihood} with "
            f"sites={settings.sites}; leave the tuning out, and give --learn evidence or a --kernel"
        )
    if settings.kernel_per_class:
        raise SettingsError(
            "tuning chooses one kernel for all classes; leave --kernel-per-class out"
        )
    if settings.stub_entries is not None:
        raise SettingsError(
            "trials of a tuning do not heed a bound on stub entries; tune without --stub-entries "
            "and --stub-memory, then train with the kernel that was chosen"
        )
    return settings
