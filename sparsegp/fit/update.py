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

from sparsegp.blas import single_threaded_blas
from sparsegp.data import Table, encode_with, summarise, table_from_arrays
from sparsegp.data.virtual import same_settings
from sparsegp.data.weights import LEAST_SHARE
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.fit.prepare import Prepared, prepare
from sparsegp.fit.training import Training
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model, SparseModel
from sparsegp.posterior.removal import least_informative
from sparsegp.progress import Progress, require_progress
from sparsegp.runtime import Runtime, Where, open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.store import RunDirectory
from sparsegp.types import Doubles, Integers

CHECKPOINTS = 2
"""That are kept."""


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
        New rows and their labels, as for `train`.
    old : pair (X, y) or Table, optional
        The rows that the model was trained on, in their order. Without them the model takes their
        place: then labels must be among those that it knows.
    n_active : int, optional
        Active rows of the new model; as many as now if left out. The share of the new rows in all
        is the least share of fresh ones among them.
    out, resume, runtime, progress
        As for `train`.

    Returns
    -------
    SparseModel
        Its `rows` are numbered over the old rows and then the new ones.

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        What must be mended, in one sentence.
    Interrupted
        On SIGTERM or Ctrl-C; the run can be resumed if it has a directory.
    """
    if not isinstance(model, SparseModel) or model.settings["active_per_class"]:
        raise SettingsError(
            "only a model of method=ivm with one active set can be updated; train anew with all "
            "rows"
        )
    if old is None and model.settings.get("class_weight"):
        raise SettingsError("a model with class_weight is updated with its old rows; give `old`")
    shown, new = require_progress(progress), _table(X, y, model, "the new rows")
    before = None if old is None else _table(*_pair(old), model, "the old rows")
    n_new, n_old = len(new.X), model.n_rows or len(model.rows) if before is None else len(before.X)
    kept, size = _kept(model, n_new / (n_old + n_new), n_active)
    settings = TrainSettings.given(**same_settings(model, n_active=size))
    with ExitStack() as stack:
        where = stack.enter_context(open_runtime(runtime))
        if before is None:
            data, first = _after(model, new, n_old, where)
        else:
            data = _with_old_rows(model, before, new, settings, where)
            first = data.train.places(model.rows)
        store = None if out is None else RunDirectory(out, CHECKPOINTS, shown.message)
        return Training(
            data,
            settings,
            first=first[kept],
            runtime=where,
            store=store,
            resume=resume,
            progress=shown,
            stop=stack.enter_context(StopRequest()),
        ).fit()


def _table(X: Any, y: Any, model: SparseModel, name: str) -> Table:
    """Return labelled rows with the columns of the model, as numbers."""
    table = X if isinstance(X, Table) else table_from_arrays(X, y, name)
    table = table.encoded(model.encoding).select(model.names)
    if table.X.shape[1] != model.n_features or table.y is None:
        found = f"{table.X.shape[1]} columns{'' if table.y is not None else ' and no labels'}"
        raise DataError(
            f"{table.source} must have labels, and the {model.n_features} columns of the model; "
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


def _kept(model: SparseModel, share: float, wanted: int | None) -> tuple[Integers, int]:
    """Return the places of the active rows that stay, and how many are to be active in all."""
    d = len(model.rows)
    size = d if wanted is None else wanted
    fresh = max(1, math.ceil(size * share))
    removed = least_informative(model.active, max(0, d - max(size - fresh, 0)))
    return np.setdiff1d(np.arange(d), removed), size


def _with_old_rows(
    model: SparseModel, old: Table, new: Table, settings: TrainSettings, runtime: Runtime
) -> Prepared:
    """Return old and new rows, scaled by the rule of the model and mixed as there."""
    active, some = np.unique(model.rows), None
    if active[-1] < len(old.X):
        rows: Any = old.X[active]
        some = model.scaling.apply(rows.compute(scheduler=runtime.scheduler()))
    if some is None or not model.holds(some):
        raise DataError(
            f"{old.source} must hold the active rows of the model, and hold others; give the rows "
            "that it was trained on, in the same order"
        )
    data = prepare(_joined(old, new, old.X, new.X), None, settings, runtime)
    return replace(data, scaling=replace(data.scaling, mixing=model.scaling.mixing))


def _after(
    model: SparseModel, new: Table, n_old: int, runtime: Runtime
) -> tuple[Prepared, Integers]:
    """Return new rows after the active ones in place of the old, all scaled; and places of these.

    An active row has the labels that the model predicts, with their probabilities as weights, or
    the mean in a regression. All together weigh as much as the old rows.
    """
    dtype, scheduler = TrainSettings.from_json(model.settings).dtype, runtime.scheduler()
    summary = summarise(new.X, new.source, scheduler, new.names)
    target: Any
    if model.numbers is not None:
        target = model.numbers.encode(new.y, new.source)
    else:
        target, unseen = encode_with(model.classes, new.y, new.source)
        if unseen:
            raise DataError(
                f"labels must be among those of the model, but {new.source} have "
                f"{', '.join(map(quoted, unseen[:5]))} too; give the old rows, or train anew"
            )
    place, taught, weights = _lessons(model)
    weights *= n_old / len(model.rows)
    order = np.lexsort((-weights, place))
    first = order[np.unique(place[order], return_index=True)[1]]
    before = table_from_arrays(model.active.x[place], source="the model")
    before = replace(
        before, y=taught, weights=weights, rows=model.rows[place], origin=first[place]
    )
    fresh = np.arange(len(target))
    after = replace(new, y=target, rows=n_old + fresh, origin=len(place) + fresh)
    joined = _joined(before, after, before.X, model.scaling.apply(new.X, dtype))
    data = Prepared(
        train=replace(
            joined, y=None, names=model.names, encoding=model.encoding, label=model.label
        ),
        classes=model.classes,
        target=joined.y,
        summary=replace(summary, n=len(joined.X)),
        scaling=model.scaling,
        numbers=model.numbers,
        is_scaled=True,
    )
    return data, first


def _lessons(model: SparseModel) -> tuple[Integers, Any, Doubles]:
    """Return what the model says of its active rows, for another one to learn from.

    Returns
    -------
    place : Integers (m,)
        Of an active row; once for every class that it is likely to be of.
    target : array (m,)
        Code of the class, or the mean in a regression, standardised.
    share : Doubles (m,)
        Probability of the class; those of a row sum to one.
    """
    x = np.asarray(model.active.x, dtype=np.float64)
    with single_threaded_blas():
        mean, variance = model.posterior.latent(x)
        if model.is_regression:
            return np.arange(len(x)), mean[:, 0], np.ones(len(x))
        share = np.exp(model.calibration.log_probabilities(model.likelihood, mean, variance))
    share[share < min(LEAST_SHARE, 1.0 / len(model.classes))] = 0.0
    share /= share.sum(axis=1, keepdims=True)
    place, target = np.nonzero(share)
    return place, target, share[place, target]


def _joined(old: Table, new: Table, *inputs: Any) -> Table:
    """Return the rows of two tables, with these inputs."""
    import dask.array as da  # noqa: PLC0415 - slow to import

    tables = old, new
    several = any(table.weights is not None for table in tables)
    weights = [np.ones(len(t.X)) if t.weights is None else t.weights for t in tables]
    rows = [table.rows for table in tables if table.rows is not None]
    origin = [table.origin for table in tables if table.origin is not None]
    return replace(
        old,
        X=da.concatenate(inputs),  # type: ignore[no-untyped-call]
        y=np.concatenate([table.y for table in tables if table.y is not None]),
        weights=np.concatenate(weights) if several else None,
        rows=np.concatenate(rows) if len(rows) == len(tables) else None,
        origin=np.concatenate(origin) if len(origin) == len(tables) else None,
        source=f"{old.source} and {new.source}",
    )
