"""Train a classifier with one call."""

import os
from contextlib import ExitStack
from typing import Any

from sparsegp.data import Table, table_from_arrays
from sparsegp.errors import SettingsError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model
from sparsegp.run_directory import RunDirectory
from sparsegp.settings import DenseSettings, settings_given
from sparsegp.training.dense import DenseRun
from sparsegp.training.progress import Progress, Quiet
from sparsegp.training.run import Training


def train(  # noqa: PLR0913 - the one place where everything can be said
    X: Any,
    y: Any = None,
    *,
    test: tuple[Any, Any] | Table | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: int = 100,
    keep_last: int = 2,
    block_rows: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    runtime: Runtime | None = None,
    threads: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | os.PathLike[str] | None = None,
    tls: str | os.PathLike[str] | None = None,
    cluster: str | os.PathLike[str] | None = None,
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
    checkpoint_every, keep_last : int
        Inclusions between checkpoints, and how many are kept.
    block_rows : int, optional
        Rows in a block.
    scratch : path, optional
        Directory for files that hold scaled inputs and stub matrices instead of memory.
    runtime : Runtime, optional
        Where to run; otherwise `threads`, `workers` (local processes), `scheduler` (an address),
        `scheduler_file` (both with `tls`, the folder of a certificate) or `cluster` (a YAML file)
        say so, and by default all usable processors of this process.
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
    directory = None if out is None else RunDirectory(out, keep_last, shown.message)
    if resume and directory is None:
        raise SettingsError("resume needs the directory of the run: give out")
    if directory is not None:
        directory.check_free(resume)
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
        if isinstance(chosen, DenseSettings):
            return DenseRun(
                table,
                chosen,
                held_out=test,
                runtime=runtime,
                directory=directory,
                resume=resume,
                progress=shown,
                stop=stop,
            ).train()
        run = stack.enter_context(
            Training(
                table,
                chosen,
                held_out=test,
                runtime=runtime,
                directory=directory,
                resume=resume,
                checkpoint_every=checkpoint_every,
                block_rows=block_rows,
                scratch=None if scratch is None else os.fspath(scratch),
                progress=shown,
            )
        )
        if resume and directory is not None and directory.is_finished():
            shown.message(f"the run in {directory.path} is finished; nothing to do")
            return Model.load(directory.model_path)
        run.build()
        run.learn(stop)
        run.select(stop)
        return run.finish(stop, keep_blocks=False)
