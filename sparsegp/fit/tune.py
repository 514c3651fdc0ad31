"""Tune the kernel with one call."""

import functools
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any

from sparsegp.data import Table, table_from_arrays
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.fit.prepare import prepare
from sparsegp.fit.records import Records, has_run, records_in
from sparsegp.fit.sample import digest, draw_sample
from sparsegp.fit.trial import run_trial
from sparsegp.interrupt import StopRequest
from sparsegp.learning.relevances import Sample
from sparsegp.learning.search import MOST_ROWS, OUT_OF_TIME, Choice, Outcome, Plan, Trial, search
from sparsegp.learning.space import Candidates
from sparsegp.progress import Progress, Quiet
from sparsegp.runtime import Runtime, Where, open_runtime
from sparsegp.settings import SPARSE, TrainSettings

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
    X : array or dask array (n, p), or Table
        Inputs.
    y : array (n,)
        Labels: integers or strings.
    out : path or URL, optional
        Directory, or place in a store, for the records of the trials; `train` can have the same.
    resume : bool
        Go on with the tuning in `out`, if there is one.
    max_trials : int
        Trials in all.
    max_seconds : float, optional
        After so many seconds of this call no trial is begun, and the best of the last rung that
        was completed wins.
    runtime : Runtime or str or path, optional
        Where to run, as in `train`.
    progress : Progress, optional
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
    began, chosen = time.monotonic(), tunable(**settings)
    if max_trials < 1:
        raise SettingsError(f"max_trials must be at least 1, got {max_trials}")
    if max_seconds is not None and not max_seconds > 0:
        raise SettingsError(f"max_seconds must be positive, got {max_seconds}")
    if resume and out is None:
        raise SettingsError("resume needs the directory of the tuning: give out")
    shown: Progress = progress or Quiet()
    records = Records() if out is None else records_in(out, shown.message, resume)
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        place = stack.enter_context(open_runtime(runtime))
        table = X if isinstance(X, Table) else table_from_arrays(X, y)
        data = prepare(table, None, chosen, place)
        n_active = chosen.rows_to_include(data.summary.n)
        sample = draw_sample(data, chosen, MOST_ROWS, place.scheduler())
        if records.store is not None:
            stack.callback(records.store.close)
            asked = {**chosen.to_json(), "max_trials": max_trials}
            identity = {**data.to_json(), "sample": digest(sample)}
            records.store.open({"settings": asked, "data": identity}, resume)
            records.load()
        stopped_early = records.chosen is not None and records.chosen["ended"] == OUT_OF_TIME
        if records.chosen is None or (stopped_early and not (out and has_run(out))):
            end = math.inf if max_seconds is None else began + max_seconds
            trials = Trials(sample, chosen, place, records, shown, stop, end)
            plan = Plan.of(sample.X.shape, n_active, max_trials, chosen.n_validation)
            candidates = Candidates(chosen.kernel, data.scaled_variances, chosen.seed)
            records.choose(search(candidates, plan, trials.try_out))
        assert records.chosen is not None  # just now, or before
        return Tuned(**records.chosen, trials=tuple(records.in_order()))


@dataclass
class Trials:
    """Tries candidates out on a runtime, side by side; those on record are not tried again.

    Attributes
    ----------
    sample : Sample
    settings : TrainSettings
        Of the run that the tuning is for.
    runtime : Runtime
    records : Records
    progress : Progress
    stop : StopRequest
    end : float
        Of `time.monotonic`, after which no trial is begun.
    """

    sample: Sample
    settings: TrainSettings
    runtime: Runtime
    records: Records
    progress: Progress
    stop: StopRequest
    end: float

    def try_out(self, trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        """Return how some trials went, by number; some are missing if time ran out.

        Raises
        ------
        Interrupted
            If a stop was requested.
        StoreError
            If a record cannot be written.
        """
        known = {trial.number: self.records.find(trial) for trial in trials}
        outcomes = {number: found for number, found in known.items() if found is not None}
        missing = [trial for trial in trials if trial.number not in outcomes]
        self.progress.start(len(trials), what, "tune")
        self._show(outcomes)
        if missing and not self._must_end():
            work = functools.partial(run_trial, self.settings)
            running = self.runtime.run_tasks(work, self.sample, missing, self._check_stop)
            with closing(running) as ended:
                for index, outcome in ended:
                    self.records.add(missing[index], outcome)
                    outcomes[missing[index].number] = outcome
                    self._show(outcomes)
                    if len(outcomes) < len(trials) and self._must_end():
                        break
        self.progress.finish()
        return outcomes

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
            if self.records.store is None:
                kept = "nothing was kept, as there is no --out"
            done = len(self.records.trials)
            raise Interrupted(f"stopped by {reason} after {done} trials; {kept}")


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
