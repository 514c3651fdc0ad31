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
    tls: str | os.PathLike[str] | None = None,
    cluster: str | os.PathLike[str] | None = None,
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
    tls : path, optional
        Folder with the certificate of that scheduler: ``ca.pem``, ``cert.pem``, ``key.pem``.
    cluster : path, optional
        YAML file that says which cluster to use or start, see `sparsegp.execution.cluster_file`.

    Returns
    -------
    Runtime
        To be used as a context manager, or closed.

    Raises
    ------
    SettingsError
        If more than one option is given, a number is less than 1, or a file is wrong.
    ClusterError
        If the scheduler does not answer or workers do not start.
    """
    given = require_one(
        threads=threads,
        workers=workers,
        scheduler=scheduler,
        scheduler_file=scheduler_file,
        tls=tls,
        cluster=cluster,
    )
    if not given or threads is not None:
        from sparsegp.execution.threads import ThreadRuntime  # noqa: PLC0415

        return ThreadRuntime(threads)
    from sparsegp.execution.dask import DaskRuntime  # noqa: PLC0415 - loads distributed

    if workers is not None:
        return DaskRuntime.local(workers)
    if cluster is not None:
        from sparsegp.execution.cluster_file import open_cluster_file  # noqa: PLC0415

        return DaskRuntime.own(open_cluster_file(Path(cluster)))
    from sparsegp.execution.clusters import connect  # noqa: PLC0415
    from sparsegp.execution.security import Certificate  # noqa: PLC0415

    certificate = None if tls is None else Certificate.in_folder(tls)
    file = None if scheduler_file is None else Path(scheduler_file)
    return DaskRuntime.own(connect(scheduler, file, certificate=certificate))


def require_one(*, tls: object = None, **places: object) -> list[str]:
    """Return the names of the places that are given (not None): one, or none.

    Raises
    ------
    SettingsError
        If there are more, or a certificate is given for none of those that take one.
    """
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise SettingsError(f"give only one of {', '.join(places)}; got {' and '.join(given)}")
    if tls is not None and given not in (["scheduler"], ["scheduler_file"]):
        raise SettingsError("tls goes with scheduler or scheduler_file; give one, or leave it out")
    return given
