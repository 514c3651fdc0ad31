"""Go on with a model when there are new rows: kernel, scaling and size stay what they are.

Of the active rows those stay that tell most beside each other (`posterior.removal`). They are
included first; then come rows that the criterion finds, among old and new ones, and in the end the
posterior of all rows. Where the old rows are gone the model itself speaks for them: its active rows
stand in their place, with the probabilities that it gives them as labels.
"""

import math
import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from sparsegp.data import Table, encode_with, summarise, table_from_arrays
from sparsegp.data.blocks import from_memory
from sparsegp.data.virtual import same_settings
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.fit.prepare import Prepared
from sparsegp.fit.training import Training
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model, SparseModel
from sparsegp.posterior.removal import least_informative
from sparsegp.progress import Progress, require_progress
from sparsegp.runtime import Runtime, Where, open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.store import RunDirectory
from sparsegp.types import Integers

KEPT_CHECKPOINTS = 2


def update(
    model: Model,
    X: Any,
    y: Any = None,
    *,
    old: tuple[Any, Any] | Table | None = None,
    n_active: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    runtime: Where = None,
    progress: Progress | None = None,
) -> SparseModel:
    """Return a model that has learnt from new rows too.

    Parameters
    ----------
    model : Model
        Of the informative vector machine, with one active set; it is not changed.
    X, y
        New rows and their labels, as for `train`. The labels are among those of the model.
    old : pair (X, y) or Table, optional
        The rows that the model was trained on, in their order. Without them its active rows take
        their place, each with the weight of its share of them.
    n_active : int, optional
        Active rows of the new model; as many as now if left out. New ones have the share that the
        new rows have in all, at least.
    out, resume, runtime, progress
        As for `train`.

    Returns
    -------
    SparseModel
        Its `rows` are numbered over the old rows, or the active rows in their place, and then the
        new ones.

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        What must be mended, in one sentence.
    Interrupted
        On SIGTERM or Ctrl-C; the run can be resumed if it has a directory.
    """
    if not isinstance(model, SparseModel) or model.settings["active_per_class"]:
        raise SettingsError(
            "only a model of the informative vector machine with one active set can be updated; "
            "train anew with all rows"
        )
    shown = require_progress(progress)
    with ExitStack() as stack:
        where = stack.enter_context(open_runtime(runtime))
        new = _table(X, y, model, "new rows")
        first, n_old = np.arange(len(model.rows)), 0
        if old is not None:
            before = _table(*_pair(old), model, "old rows")
            first, n_old = model.rows, len(before.y)
        kept, size = _kept(model, len(new.y) / (n_old + len(new.y)), n_active)
        settings = TrainSettings.given(**same_settings(model, n_active=size))
        rows = _joined(model, before, new, where) if old is not None else _after(model, new, where)
        store = None if out is None else RunDirectory(out, KEPT_CHECKPOINTS, shown.message)
        return Training(
            rows,
            settings,
            first=first[kept],
            runtime=where,
            store=store,
            resume=resume,
            progress=shown,
            stop=stack.enter_context(StopRequest()),
        ).fit()


def _table(X: Any, y: Any, model: SparseModel, name: str) -> Table:
    """Return labelled rows with the columns of the model; see `update` for what it raises."""
    table = X if isinstance(X, Table) else table_from_arrays(X, y, name)
    table = table.encoded(model.encoding).select(model.names)
    if table.X.shape[1] != model.n_features or table.y is None:
        found = f"{table.X.shape[1]} columns and {'no' if table.y is None else 'its'} labels"
        raise DataError(
            f"{table.source} must have labels and the {model.n_features} columns of the model, "
            f"found {found}"
        )
    return table


def _pair(old: Any) -> tuple[Any, Any]:
    """Return inputs and labels of the old rows, None for those of a table."""
    if isinstance(old, Table):
        return old, None
    if not isinstance(old, tuple | list) or len(old) != 2:
        raise SettingsError(f"old must be a pair of inputs and labels, got {quoted(old)}")
    return old[0], old[1]


def _joined(model: SparseModel, old: Table, new: Table, runtime: Runtime) -> Table:
    """Return old and new rows; DataError if the active rows are not among the old ones."""
    import dask.array as da  # noqa: PLC0415 - slow to import

    active = np.unique(model.rows)
    some: Any = old.X[active] if active[-1] < len(old.y) else None
    if some is None or not model.holds(
        model.scaling.apply(some.compute(scheduler=runtime.scheduler()))
    ):
        raise DataError(
            f"{old.source} must hold the active rows of the model, found others; give the rows "
            "that it was trained on, in the same order"
        )
    both: Any = [old.X, new.X]
    return replace(
        old,
        X=da.concatenate(both),  # type: ignore[no-untyped-call]
        y=np.concatenate([old.y, new.y]),
        source=f"{old.source} and {new.source}",
    )


def _kept(model: SparseModel, share: float, wanted: int | None) -> tuple[Integers, int]:
    """Return the places of the active rows that stay, and how many are to be active in all."""
    d = len(model.rows)
    size = d if wanted is None else wanted
    fresh = max(1, math.ceil(size * share))
    removed = least_informative(model.active, max(0, d - max(size - fresh, 0)))
    return np.setdiff1d(np.arange(d), removed), size
