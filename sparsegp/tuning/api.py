"""Tune the kernel with one call."""

import os
import time
from contextlib import ExitStack
from typing import Any

from sparsegp.data import Table, table_from_arrays
from sparsegp.errors import SettingsError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.execution.threads import ThreadRuntime
from sparsegp.interrupt import StopRequest
from sparsegp.kernels import InputScale
from sparsegp.settings import SPARSE, TrainSettings
from sparsegp.training.prepare import Prepared, prepare
from sparsegp.training.progress import Progress, Quiet
from sparsegp.tuning.driver import OUT_OF_TIME, Tuned, Tuning
from sparsegp.tuning.halving import MOST_ROWS
from sparsegp.tuning.records import Records
from sparsegp.tuning.sample import draw_sample
from sparsegp.tuning.trial import Sample

MAX_TRIALS = 40


def tune(  # noqa: PLR0913 - the one place where everything can be said
    X: Any,
    y: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    max_trials: int = MAX_TRIALS,
    max_seconds: float | None = None,
    runtime: Runtime | None = None,
    threads: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | os.PathLike[str] | None = None,
    tls: str | os.PathLike[str] | None = None,
    cluster: str | os.PathLike[str] | None = None,
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
    runtime, threads, workers, scheduler, scheduler_file, tls, cluster
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
    began = time.monotonic()
    chosen = tunable(**settings)
    check(max_trials, max_seconds)
    records = None if out is None else Records(out)
    if resume and records is None:
        raise SettingsError("resume needs the directory of the tuning: give out")
    if records is not None:
        records.check_free(resume)
    shown: Progress = progress or Quiet()
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        if runtime is None:
            runtime = stack.enter_context(
                open_runtime(
                    threads=threads,
                    workers=workers,
                    scheduler=scheduler,
                    scheduler_file=scheduler_file,
                    tls=tls,
                    cluster=cluster,
                )
            )
        table = X if isinstance(X, Table) else table_from_arrays(X, y)
        data = prepare(table, None, chosen.scaling, runtime)
        n_active = chosen.rows_to_include(data.summary.n)
        local = isinstance(runtime, ThreadRuntime)
        sample = draw_sample(data, chosen, MOST_ROWS, "threads" if local else None)
        if records is not None:
            stack.callback(records.close)
            records.open(asked(chosen, data, sample, max_trials), resume)
            if (former := finished(records)) is not None:
                return former
        tuning = Tuning(
            sample,
            chosen,
            InputScale(data.scaled_variances),
            n_active=n_active,
            max_trials=max_trials,
            runtime=runtime,
            progress=shown,
            records=records,
            out_of_time=lambda: max_seconds is not None and time.monotonic() - began >= max_seconds,
            stop=stop,
        )
        tuned = tuning.run()
        if records is not None:
            records.choose({"kernel": tuned.kernel, "nlpp": tuned.nlpp, "ended": tuned.ended})
        return tuned


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


def check(max_trials: int, max_seconds: float | None) -> None:
    """Check the limits of a tuning.

    Raises
    ------
    SettingsError
        If they are out of range.
    """
    if max_trials < 1:
        raise SettingsError(f"max_trials must be at least 1, got {max_trials}")
    if max_seconds is not None and not max_seconds > 0:
        raise SettingsError(f"max_seconds must be positive, got {max_seconds}")


def asked(
    settings: TrainSettings, data: Prepared, sample: Sample, max_trials: int
) -> dict[str, dict[str, Any]]:
    """Return what the outcome of a tuning depends on, plain JSON."""
    return {
        "settings": settings.to_json(),
        "data": {**data.to_json(), "sample": sample.digest()},
        "limits": {"max_trials": max_trials},
    }


def finished(records: Records) -> Tuned | None:
    """Return the outcome of a tuning that is finished.

    One that ran out of time can go on, unless a run was begun with what it had chosen.
    """
    chosen = records.chosen()
    begun = (records.path / "run.json").exists()
    if chosen is None or (chosen["ended"] == OUT_OF_TIME and not begun):
        return None
    return Tuned(chosen["kernel"], chosen["nlpp"], chosen["ended"], tuple(records.trials()))
