"""Train a classifier with one call."""

import os
from contextlib import ExitStack
from typing import Any

from sparsegp.data import Table, table_from_arrays
from sparsegp.errors import SettingsError
from sparsegp.fit.dense import DenseRun
from sparsegp.fit.training import Training
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model
from sparsegp.progress import Progress, Quiet
from sparsegp.runtime import Where, open_runtime
from sparsegp.settings import DenseSettings, settings_given
from sparsegp.store import RunDirectory


def train(  # noqa: PLR0913 - the one place where everything can be said
    X: Any,
    y: Any = None,
    *,
    test: tuple[Any, Any] | Table | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: int | None = None,
    keep_last: int = 2,
    block_rows: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    runtime: Where = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Model:
    """Train a classifier.

    Parameters
    ----------
    X : array or dask array (n, p), or Table
        Inputs.
    y : array (n,)
        Labels: integers or strings.
    test : pair (X, y) or Table, optional
        Held-out rows whose error is followed along the learning curve.
    out : path or URL, optional
        Directory for checkpoints and the model, or a place in a store, such as s3://bucket/run.
    resume : bool
        Go on with the run in `out`, if there is one.
    checkpoint_every : int, optional
        Inclusions, or other steps, between two checkpoints. If left out they are written as often
        as takes a fiftieth of the time.
    keep_last : int
        Checkpoints that are kept.
    block_rows : int, optional
        Rows in a block.
    scratch : path, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.
    runtime : Runtime or str or path, optional
        Where to run: "threads=4", "workers=2" (local processes), the address of a scheduler or the
        ``*.json`` that it wrote, a cluster's ``*.yaml``; see `sparsegp.runtime.open_runtime`. By
        default threads on all processors.
    progress : Progress, optional
    **settings
        Fields of `TrainSettings`; or `method`, the name of a dense method, and fields of
        `DenseSettings`.

    Returns
    -------
    Model

    Raises
    ------
    DataError, SettingsError, StoreError, ClusterError
        What must be mended, in one sentence.
    Interrupted
        On SIGTERM or Ctrl-C; the run can be resumed if it has a directory.
    """
    table = X if isinstance(X, Table) else table_from_arrays(X, y)
    if test is not None and not isinstance(test, Table):
        test = table_from_arrays(*test, source="test")
    chosen = settings_given(**settings)
    shown: Progress = progress or Quiet()
    store = None if out is None else RunDirectory(out, keep_last, shown.message)
    if resume and store is None:
        raise SettingsError("resume needs the directory of the run: give out")
    if store is not None:
        store.check_free(resume)
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        opened = stack.enter_context(open_runtime(runtime))
        place: dict[str, Any] = {"runtime": opened, "store": store, "resume": resume}
        place |= {"progress": shown, "stop": stop, "checkpoint_every": checkpoint_every}
        if isinstance(chosen, DenseSettings):
            return DenseRun(table, chosen, test, **place).fit()
        place["scratch"] = None if scratch is None else os.fspath(scratch)
        return Training(table, chosen, test, block_rows=block_rows, **place).fit()
