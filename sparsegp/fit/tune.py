"""Search for the kernel with one call.

The trials of a search are recorded in the subfolder `tuning` of its run: a run of its own, whose
run.json holds settings and data. A checkpoint with all finished trials, and in the end the choice,
is written whenever a trial finishes, so a killed search loses only the trials that were running.
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from sparsegp import memory
from sparsegp.data import Scaling, Summary, Table, as_table, neighbour_correlation
from sparsegp.errors import SettingsError, StoreError
from sparsegp.fields import Setting
from sparsegp.fit.prepare import Prepared, choose_scaling, columns_of
from sparsegp.fit.run import Run, RunOptions
from sparsegp.fit.trial import SEARCH_FOLDS, Sample, draw_sample, run_trial
from sparsegp.free_memory import free_memory_of, shortage
from sparsegp.kernels import ColumnNames, brief, parse
from sparsegp.learning import plan
from sparsegp.learning.metric import NONE
from sparsegp.learning.search import search
from sparsegp.learning.space import MAX_ROUGH_COLUMNS, Candidates
from sparsegp.learning.trials import ALL_RUNGS, OUT_OF_TIME, Choice, Outcome, Trial
from sparsegp.settings import AUTO, SPARSE, TrainSettings
from sparsegp.store import RUN_FILE, read_records, records_of

MAX_TRIALS = 40
MOST_LEVEL = 2
"""Range up to which whole numbers are not pixels, but answers, or genes coded as 0, 1 and 2."""


@dataclass(frozen=True)
class Tuned(Choice):
    """The result of tuning: the settings chosen, and every trial.

    Attributes
    ----------
    kernel, scaling, metric, n_active, criterion, nlpp, ended
        See `Choice`.
    trials : tuple of dict
        Record of each trial, in order: number, kernel, scaling, rung, rows, n_active, by_column,
        metric, again, first, selects, nlpp, error, ece, seconds (of processor time) and failure.
    columns : ColumnNames
        Names of the columns, if they have any, by which `chosen` has length scales.
    """

    trials: tuple[dict[str, Any], ...]
    columns: ColumnNames = field(default=ColumnNames(), repr=False)

    @property
    def chosen(self) -> dict[str, Any]:
        """The chosen settings of a run; with length scales by name if columns have names."""
        kernel = self.columns.text(parse(self.kernel))
        names = "scaling", "n_active", "criterion"
        found = {"kernel": kernel} | {name: getattr(self, name) for name in names}
        metric = {} if self.metric == NONE else {"metric": self.metric}
        return {name: value for name, value in found.items() if value is not None} | metric

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "columns"}


def tune(
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    max_trials: int | None = MAX_TRIALS,
    max_seconds: float | None = None,
    **options: Any,
) -> Tuned:
    """Choose kernel, scaling, number and kind of active rows by predictions for held-out rows.

    Kernel families, variances, length scales and scalings are compared; then per-column length
    scales are learnt, the active set is doubled as long as that pays, and it becomes random if that
    is clearly better. A scaling other than "auto", a given number of active rows and a given
    criterion are kept. See docs/explanation/search.md.
    Unless `max_seconds` cuts it short, the choice does not depend on how many trials run in
    parallel or whether the search was interrupted and resumed.

    Parameters
    ----------
    X, y, sample_weight, runtime, tls, client, progress, verbose
        As in `train`.
    out : path or URL, optional
        Directory, or URL, for the records of the trials; `train` can use the same one.
    resume : bool
        Continue the search in `out`, if any.
    overwrite : bool
        Delete the search in `out`, if any, and its run, and start again.
    max_trials : int, optional
        Number of candidates compared first; the trials of later stages are additional. None means
        the default search made before training: up to nine candidates (30 in a regression), one set
        of held-out rows in place of three, and no search for very few rows, pixels and spectra.
    max_seconds : float, optional
        Time after which this call starts no further trial; the best of the last completed stage
        is then chosen.
    **settings
        Fields of `TrainSettings` for the run that will use the kernel. A kernel that is given there
        is kept unless another is better by two standard errors on held-out rows, and so is the
        default kernel where there is no default search. Settings that trials cannot respect are
        rejected; see `tunable`.

    Returns
    -------
    Tuned

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        If an argument is invalid; the message explains what to change.
    Interrupted
        On SIGTERM, SIGHUP or Ctrl-C; the search can be resumed if it has a directory.
    """
    given, named = RunOptions.among(options)
    limits: dict[str, Any] = {"max_trials": max_trials, "max_seconds": max_seconds}
    limits["is_given"] = named.get("kernel") not in (None, AUTO)
    return choose_kernel(as_table(X, y, sample_weight), tunable(**named), given, **limits)[0]


def choose_kernel(
    rows: Table | Prepared,
    settings: TrainSettings,
    given: RunOptions,
    max_trials: int | None = None,
    max_seconds: float | None = None,
    is_given: bool = False,
) -> tuple[Tuned, Prepared]:
    """Search for a kernel, and return the result and the rows with the chosen scaling.

    Parameters
    ----------
    rows : Table or Prepared
        Training rows.
    settings : TrainSettings
        As `tunable` returns them.
    given : RunOptions
    max_trials, max_seconds
        See `tune`.
    is_given : bool
        Whether the kernel of the settings was given, and is not the default one.
    """
    out, resume, store, run, has_run = given.out, given.resume, None, given.folder(), False
    if run is not None and out is not None:
        store = records_of(out, given.shown.message)
        if not given.overwrite:
            earlier = (read_records(out) or {}).get("chosen") or {}
            resume = resume or run.is_finished() or earlier.get("ended") == ALL_RUNGS
            store.require_no_unfinished_run(resume)
            has_run = RUN_FILE in run.folder.sizes()
            if has_run and RUN_FILE not in store.folder.sizes():
                raise StoreError(
                    f"{out} holds a run without a search for its kernel; give that run's `kernel`, "
                    "`overwrite=True`, or another `out`"
                )
    limits = {"max_trials": max_trials, "max_seconds": max_seconds, "has_run": has_run}
    with given.opened() as how:
        how |= {"store": store, "resume": resume, "is_given": is_given, **limits}
        tuning = Tuning(rows, settings, **how)
        if run is not None and given.overwrite:  # rows and settings have been checked
            run.prepare_for_search()
        found = tuning.fit()
    return found, replace(tuning.data, scaling=tuning.scalings[found.scaling])


@dataclass(eq=False)
class Tuning(Run[Tuned]):
    """A search as a run: trials run in parallel, and recorded ones are not repeated."""

    settings: TrainSettings
    max_trials: int | None = MAX_TRIALS  # see `tune`
    max_seconds: float | None = None
    has_run: bool = False  # whether its run has begun: the choice is final, even if time ran out
    is_given: bool = False  # whether the kernel of the settings was given, and not the default one

    def __post_init__(self, rows: Table | Prepared, held_out: Table | None) -> None:
        trials = Setting("max_trials", int, None, optional=True, least=1)
        seconds = Setting("max_seconds", float, None, optional=True, above=0)
        self.max_trials = trials.checked(self.max_trials)
        self.max_seconds = seconds.checked(self.max_seconds)
        self._end = time.monotonic() + (self.max_seconds or math.inf)
        super().__post_init__(rows, held_out)
        if self.data.has_fewer_rows:
            self.settings = self.settings.for_rows(self.data.summary.n)
        data, settings, scheduler = self.data, self.settings, self.runtime.scheduler()
        self.n_active = settings.rows_to_include(data.summary.n)
        self.scalings = {settings.scaling: data.scaling}  # to be tried
        self.sample: Sample | None = None  # if there is a search
        is_unsuited = unsuited(data, settings, scheduler)
        self._is_guarded = is_unsuited or data.summary.n < plan.MIN_ROWS_FOR_SEARCH
        searches = self.max_trials is not None or not self._is_guarded
        is_set = searches or self.is_given or settings.is_regression
        self._takes_safe = not (is_set or is_unsuited)
        if (searches or self._takes_safe) and settings.scaling == AUTO:
            what = data.train, data.summary, settings, scheduler
            for rule in scalings_to_try(data, searches):
                self.scalings[rule] = choose_scaling(rule, *what)
        if searches:
            is_default = self.max_trials is None
            least, parts = (plan.MAX_ROWS, 1) if is_default else (0, SEARCH_FOLDS)
            most = plan.sample_rows(data.summary.n, data.summary.p, least)
            self.sample = draw_sample(data, self.scalings, settings, most, scheduler, parts)
        self.outcomes: dict[Trial, Outcome] = {}  # of finished trials, without their kernels
        self.choice: dict[str, Any] | None = None  # once the search is finished

    def require_memory(self, rows: Table, held_out: Table | None, n_classes: int) -> None:
        """Check nothing: trials only use part of the rows."""

    def identity(self) -> dict[str, dict[str, Any]]:
        """Return what identifies the search, with the number of trials."""
        known = super().identity()
        known["settings"] |= {"max_trials": self.max_trials}
        return known

    def build(self) -> None:
        """Restore the recorded trials."""
        if (stored := self.restored()) is not None:
            self.choice = stored.meta["chosen"]
            names = {each.name for each in fields(Trial)}
            for i, record in enumerate(stored.meta["trials"]):
                known = {name: record[name] for name in names & record.keys()}
                trial = Trial(**known | {"kernel": ""})
                figures: Any = {each.name: record.get(each.name) for each in fields(Outcome)}
                figures["log_p"] = stored.arrays[f"log_p.{i}"]
                self.outcomes[trial] = Outcome(**figures)
        if self.choice and self.choice["ended"] == OUT_OF_TIME and not self.has_run:
            self.choice = None

    def complete(self) -> Tuned:
        """Run the remaining trials, and return the choice."""
        if self.choice is None:
            variances = {
                rule: each.variances(self.data.summary) for rule, each in self.scalings.items()
            }
            candidates = Candidates(self.settings.first_kernel, variances, self.settings.seed)
            number = candidates.safe if self._takes_safe else 0
            choice = Choice(*candidates.known[number], None, None, None, ALL_RUNGS)
            if self.sample is not None:
                choice = search(candidates, self._plan(self.sample), self.try_out)
            self.choice = asdict(choice)
            self.checkpoint(len(self.outcomes), due=True)
        known = {"criterion": None} | self.choice  # not in searches of former versions
        known["trials"] = tuple(self.content()[0]["trials"])
        return Tuned(**known, columns=columns_of(self.data.train))

    def _plan(self, sample: Sample) -> plan.Plan:
        summary = self.data.summary
        found = plan.Plan.of(
            (sample.n_train, len(sample.X) - sample.n_train, summary.p, summary.n),
            self.n_active,
            self.max_trials,
            n_classes=0 if self.settings.is_regression else sample.n_classes,
            n_scales=None if sample.groups is None else len(np.unique(sample.groups)),
            sizes=self._sizes(),
            validation=self.settings.n_validation,
        )
        is_regression, has_many = self.settings.is_regression, summary.p > plan.NOISY_COLUMNS
        shares = None if is_regression else np.bincount(sample.target, sample.weights)
        if shares is not None and not (self.max_trials or found.has_more_rows or has_many):
            found = replace(found, noise=plan.noise_level(shares))
        if self.settings.criterion is None and self.settings.posterior == "all":
            found = replace(found, doubt=plan.doubt_level(shares))
        errors = plan.GUARD_ERRORS if self.is_given or self._is_guarded else 0.0
        return replace(found, errors=errors)

    def _sizes(self) -> list[int]:
        """Return the numbers of active rows to choose from, for which rows and memory suffice."""
        rows, n_classes, n = self.data.train, len(self.data.classes), self.data.summary.n

        def fits(d: int) -> bool:
            if d > (self.settings.candidates or n):
                return False
            settings = replace(self.settings, n_active=d)
            if d > n - settings.n_validation(n):
                return False
            shape = memory.shape_of(rows, None, n_classes, settings, self.runtime)
            return not shortage(shape, free_memory_of(shape, self.runtime))

        return [d for d in plan.ACTIVE_SIZES if fits(d)] if self.settings.n_active is None else []

    def content(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the content of a checkpoint: trials by rung and number, and the choice."""
        finished = sorted(self.outcomes, key=lambda trial: (trial.rung, trial.number))
        trials = [asdict(trial) | asdict(self.outcomes[trial]) for trial in finished]
        arrays = {f"log_p.{i}": each.pop("log_p") for i, each in enumerate(trials)}
        return {"trials": trials, "chosen": self.choice}, arrays

    def try_out(self, trials: Sequence[Trial], what: str) -> dict[int, Outcome]:
        """Run trials, and return outcomes by candidate number; some are missing if time runs out.

        Raises
        ------
        Interrupted
            If a stop was requested.
        """
        known = [(trial.number, self.outcomes.get(replace(trial, kernel=""))) for trial in trials]
        outcomes = {number: found for number, found in known if found is not None}
        missing = [trial for trial in trials if trial.number not in outcomes]
        self.progress.start(len(trials), what, "tune")
        self._show(outcomes)
        self._check_stop()
        if missing and time.monotonic() < self._end:
            work = partial(run_trial, self.settings)
            running = self.runtime.run_tasks(work, self.sample, missing, self._check_stop)
            with closing(running) as ended:
                for index, outcome in ended:
                    self.outcomes[replace(missing[index], kernel="")] = outcome
                    outcomes[missing[index].number] = outcome
                    self._show(outcomes)
                    self.checkpoint(len(self.outcomes), due=True)
                    if time.monotonic() >= self._end:
                        break
        self.progress.finish()
        return outcomes

    def _check_stop(self) -> None:
        self.checkpoint(len(self.outcomes))

    def _show(self, outcomes: Mapping[int, Outcome]) -> None:
        found = [(each.nlpp, each.kernel) for each in outcomes.values() if each.nlpp is not None]
        figures: dict[str, Any] = {}
        if found:
            figures["heldout_nlpp"], kernel = min(found)
            figures["kernel"] = brief(kernel)
        self.progress.update(len(outcomes), **figures)


def tunable(**named: Any) -> TrainSettings:
    """Create the settings of the run for which a kernel is searched, from keyword arguments.

    Raises
    ------
    SettingsError
        If trials do not support them: a dense method, sites other than "variational" except in a
        regression with all rows, a kernel per class, a metric, or a bound on stub entries.
    """
    method = named.pop("method", SPARSE)
    if method != SPARSE:
        raise SettingsError(
            f"tuning is for method={SPARSE}, got method={method}, which learns its kernel itself; "
            "leave the tuning out, and give learn=evidence"
        )
    settings = TrainSettings.given(**named)
    if settings.untunable:
        raise SettingsError(settings.untunable)
    return replace(settings, kernel=settings.first_kernel)


def unsuited(data: Prepared, settings: TrainSettings, scheduler: Any = None) -> bool:
    """Return whether rows are virtual or pixels, for which the default search changes nothing.

    Pixels, spectra and the like are many columns with one range, which resemble their neighbours
    and matter only together.

    Parameters
    ----------
    data : Prepared
    settings : TrainSettings
    scheduler : str or callable, optional
        Dask scheduler that reads the first rows.
    """
    rows, summary = data.train, data.summary
    if rows.origin is not None and rows.weights is None:  # virtual
        return True
    alike = settings.scaling == AUTO and data.scaling.name in {"none", "range"}
    are_levels = summary.whole and summary.high.max() - summary.low.min() <= MOST_LEVEL
    if not alike or are_levels or summary.p < plan.PIXELS:
        return False
    return neighbour_correlation(rows.X, scheduler) >= plan.ALIKE


def scalings_to_try(data: Prepared, searches: bool) -> list[str]:
    """Return the rules to try besides "auto", which led to the scaling of the data.

    Unless there is a search, the last rule is that of the kernel for few rows.
    """
    summary, scaling = data.summary, data.scaling
    is_wide = summary.p > MAX_ROUGH_COLUMNS
    is_plain = np.abs([summary.low, summary.high]).max() <= plan.MAX_PLAIN
    plain = is_plain and ((is_wide and searches) or _is_sparse(summary, scaling))
    rules = ["none"] if plain and scaling.name != "none" else []
    return rules if is_wide else [*rules, "quantile"]


def _is_sparse(summary: Summary, scaling: Scaling) -> bool:
    """Return whether most values are zero and the others positive, as in counts of words."""
    kept = scaling.kept
    summary = summary if kept is None or kept.all() else summary.of(~kept)
    ratios = summary.mean / np.sqrt(np.where(summary.variance > 0.0, summary.variance, np.inf))
    return bool(summary.low.min() >= 0.0 and np.median(ratios) < plan.SPARSE_RATIO)
