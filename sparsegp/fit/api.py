"""Train a model with one call."""

import logging
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data import Table, as_table, table_of, warn_of_numbers
from sparsegp.data.targets import as_numbers
from sparsegp.fields import path_text
from sparsegp.fit.blocks import BLOCK_ROWS
from sparsegp.fit.dense import DenseRun
from sparsegp.fit.prepare import Prepared, prepare
from sparsegp.fit.run import RunOptions
from sparsegp.fit.training import Training
from sparsegp.fit.tune import Tuned, choose_kernel, tunable
from sparsegp.free_memory import require_memory
from sparsegp.model import Model
from sparsegp.runtime.scratch import require_space
from sparsegp.settings import AUTO, DenseSettings, TrainSettings, settings_given
from sparsegp.settings.sparse import BY_EVIDENCE
from sparsegp.types import Labels

logger = logging.getLogger(__name__)


def train(
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    test: tuple[Any, Any] | Table | None = None,
    block_rows: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Model:
    """Train a classifier or a regression model.

    Parameters
    ----------
    X : array or dask array (n, p), data frame, or Table
        Inputs. Columns of a data frame may hold numbers, missing values, booleans, categories and
        dates: see `sparsegp.data.table_from_frame`.
    y : array (n,)
        Labels: integers or strings; numbers for regression.
    sample_weight : array (n,), optional
        Weights of the log likelihoods of the rows. Copies of rows are merged.
    test : tuple (X, y) or (X, y, sample_weight), or Table, optional
        Test rows, on which the error is recorded during the selection.
    out : path or URL, optional
        Directory for checkpoints and the model, or a URL such as s3://bucket/run. If it holds
        the same run, already finished, its model is returned.
    resume : bool
        Continue the run in `out`, if any.
    overwrite : bool
        Delete the run in `out`, if any, and start again.
    checkpoint_every : int, optional
        Inclusions, or other steps, between two checkpoints. By default writing takes at most 2 % of
        the run time.
    keep_last : int
        Number of checkpoints to keep.
    block_rows : int, optional
        Rows per block.
    scratch : path, optional
        Directory for files that hold scaled inputs and stub matrices, instead of memory.
    runtime : Runtime or Client or str or path, optional
        Where to run: "threads=4", "workers=2" (local processes), a Dask client, the address of a
        scheduler or its ``*.json`` file, or the ``*.yaml`` file of a cluster; see
        `sparsegp.runtime.open_runtime`. By default threads on all processors.
    tls : path, optional
        Folder with the certificate of that scheduler: ca.pem, cert.pem, key.pem.
    client : distributed.Client, optional
        Dask client whose workers run the fit, as in the estimators; the same as `runtime=client`.
    progress : Progress, optional
        Receives the progress of the run: an instance of a subclass of
        `sparsegp.progress.Progress`.
    verbose : bool
        Show progress bars in terminals and notebooks, and lines elsewhere; not with `progress`.
    **settings
        Fields of `TrainSettings`; or `method`, the name of a dense method, and fields of
        `DenseSettings`. If no kernel is given and the settings allow it, one is first chosen on
        held-out rows, as by `tune` with ``max_trials=None``.

    Returns
    -------
    Model

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        If an argument is invalid; the message explains which, and what to do.
    Interrupted
        On SIGTERM, SIGHUP or Ctrl-C; the run can be resumed if it has a directory.
    """
    table = as_table(X, y, sample_weight)
    held_out = None if test is None else table_of("test", test, "test")
    run, named = RunOptions.among(options)
    settings = settings_given(**named)
    if "task" not in named:
        warn_of_numbers(table.y, table.source, settings.is_regression)
    return fit(table, held_out, settings, run, None, block_rows, scratch)[0]


def fit(
    table: Table,
    test: Table | None,
    settings: TrainSettings | DenseSettings,
    run: RunOptions,
    limits: Mapping[str, Any] | None = None,
    block_rows: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> tuple[Model, Tuned | None]:
    """Train a model on a table; also return the search for its kernel, if there was one.

    Parameters
    ----------
    table, test : Table
        Training and test rows.
    settings : TrainSettings or DenseSettings
    run : RunOptions
    limits : mapping, optional
        Arguments of `choose_kernel` that limit a search; if omitted, there is a search only if the
        kernel is "auto", with default limits.
    block_rows, scratch
        As in `train`.
    """
    store = run.folder()
    with run.opened() as how:
        runtime, found = how["runtime"], None
        scheduler = runtime.scheduler()
        table = table.learnt(scheduler, settings.is_regression)
        if settings.is_regression:
            _warn_of_skew(table.y, table.source)
        rows: Table | Prepared = table
        folder = None if scratch is None else path_text("scratch", scratch)
        if folder is not None:  # before a run is overwritten
            deque(runtime.run_tasks(require_space, folder, range(runtime.n_workers)), maxlen=0)
        if isinstance(settings, DenseSettings):
            return DenseRun(table, settings, test, store=store, **how).fit(), None
        if limits is not None or settings.kernel == AUTO:
            more = {"block_rows": BLOCK_ROWS.checked(block_rows), "scratch": folder is not None}
            check: Any = partial(require_memory, table, test, runtime=runtime, **more)
            rows = prepare(table, test, settings, scheduler, partial(check, settings=settings))
            if store is not None:  # errors in rows or settings come before anything is deleted
                store.prepare_for_search()
            where: dict[str, Any] = {"out": run.out, "resume": run.resume, "progress": run.shown}
            options, wanted = RunOptions(**where, runtime=runtime), tunable(**settings.to_json())
            found, rows = choose_kernel(rows, wanted, options, **(limits or {}))
            learnt = settings.is_regression and not found.trials  # no search: by evidence instead
            settings = replace(settings, **(BY_EVIDENCE if learnt else found.chosen))
            check(len(rows.classes), settings=settings)
        how |= {"store": store, "block_rows": block_rows, "scratch": folder}
        return Training(rows, settings, test, **how).fit(), found


def _warn_of_skew(y: Labels | None, source: str) -> None:
    """Warn if the noise of the targets (n,) of a regression can hardly be the same for all rows."""
    values = as_numbers(y, source)
    has_tail = values.std() > values.mean() and np.median(values) < 0.8 * values.mean()
    if values.min() >= 0.0 and has_tail and len(np.unique(values)) > 2:
        message = "labels of %s are positive or zero, and most are far below the largest; %s"
        remedy = "if errors grow with them, learn their logarithms (of 1 + y if some are zero)"
        logger.warning(message, source, remedy)
