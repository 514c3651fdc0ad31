"""Where row blocks live and how they are called.

The same fit runs in the threads of one process (`ThreadRuntime`), in worker processes of this
machine or on a dask cluster (`DaskRuntime`). All of them do one thing: carry a message to every row
block and bring the answers back in block order.
"""

import os
from pathlib import Path

from sparsegp.errors import SettingsError
from sparsegp.execution.base import Part as Part
from sparsegp.execution.base import Runtime as Runtime


def open_runtime(
    *,
    threads: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | os.PathLike[str] | None = None,
) -> Runtime:
    """Open the runtime that the given option asks for; without options, threads.

    Parameters
    ----------
    threads : int, optional
        Run in this many threads of this process.
    workers : int, optional
        Start this many worker processes on this machine.
    scheduler : str, optional
        Address of a running dask scheduler.
    scheduler_file : path, optional
        File that a running dask scheduler wrote.

    Returns
    -------
    Runtime
        To be used as a context manager, or closed.

    Raises
    ------
    SettingsError
        If more than one option is given, or a number is less than 1.
    ClusterError
        If the scheduler does not answer or workers do not start.
    """
    options = {
        "threads": threads,
        "workers": workers,
        "scheduler": scheduler,
        "scheduler_file": scheduler_file,
    }
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise SettingsError(f"give only one of {', '.join(options)}; got {' and '.join(given)}")
    if not given or threads is not None:
        from sparsegp.execution.threads import ThreadRuntime  # noqa: PLC0415

        return ThreadRuntime(threads)
    from sparsegp.execution.dask import DaskRuntime  # noqa: PLC0415 - loads distributed

    if workers is not None:
        return DaskRuntime.local(workers)
    return DaskRuntime.connect(scheduler, None if scheduler_file is None else Path(scheduler_file))
