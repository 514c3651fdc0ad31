"""Runtimes: where row blocks are held, and how their methods are called.

The same fit runs in the threads of one process (`ThreadRuntime`), in worker processes of this
machine or on a Dask cluster (`DaskRuntime`). All of them do one thing: send a message to every row
block and return the answers in block order.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sparsegp.errors import SettingsError
from sparsegp.fields import path_text
from sparsegp.runtime.base import Runtime as Runtime

if TYPE_CHECKING:
    from distributed import Client

Where: TypeAlias = "Runtime | Client | str | os.PathLike[str] | None"
"""A runtime, a Dask client, or a description of where to run: see `open_runtime`."""

HOW = (
    "'threads=N', 'workers=N', the address of a Dask scheduler, its *.json or a cluster's "
    "*.yaml file"
)
"""What a runtime may be, for error messages."""


@contextmanager
def open_runtime(
    where: Where = None, *, tls: str | os.PathLike[str] | None = None
) -> Iterator[Runtime]:
    """Open a runtime within a context.

    Parameters
    ----------
    where : Runtime or Client or str or path, optional
        "threads=4" for threads of this process (the default, one per usable processor); "workers=2"
        for processes of this machine; the address of a running Dask scheduler, such as
        "tcp://10.0.0.5:8786", or its scheduler file ``*.json``; a cluster file ``*.yaml`` that says
        which cluster to start or to use (`sparsegp.runtime.clusters`). A runtime, or a
        `distributed.Client` whose workers are used, is not closed at the end.
    tls : path, optional
        Folder with the certificate of that scheduler: ca.pem, cert.pem, key.pem.

    Yields
    ------
    Runtime

    Raises
    ------
    SettingsError
        If `where` is none of these, a number is less than 1, a file is invalid, or `tls` is given
        without a scheduler.
    ClusterError
        If the scheduler does not answer or workers do not start.
    """
    if isinstance(where, Runtime):
        yield where
    else:
        with _opened(where, None if tls is None else Path(path_text("tls", tls))) as runtime:
            yield runtime


def _opened(where: "Client | str | os.PathLike[str] | None", tls: Path | None) -> Runtime:
    if hasattr(where, "scheduler_info"):
        from sparsegp.runtime.dask import DaskRuntime  # noqa: PLC0415 - loads distributed

        return DaskRuntime(where)
    name = "threads" if where is None else path_text("runtime", where, HOW)
    is_address = "://" in name or re.fullmatch(r".+:\d+", name)
    if tls is not None and not (is_address or name.endswith(".json")):
        raise SettingsError(
            f"tls goes with the address or *.json file of a scheduler, not with {name[:200]!r}; "
            f"runtime may be {HOW}"
        )
    number = re.fullmatch(r"(threads|workers)=(-?\d{1,9})", name)
    if name == "threads" or (number and number[1] == "threads"):
        from sparsegp.runtime.threads import ThreadRuntime  # noqa: PLC0415

        return ThreadRuntime(int(number[2]) if number else None)
    from sparsegp.runtime import clusters  # noqa: PLC0415 - loads distributed

    if number:
        return clusters.start_local(int(number[2]))
    if is_address:
        return clusters.connect(name, tls)
    if name.endswith(".json"):
        return clusters.connect(Path(name), tls)
    if name.endswith((".yaml", ".yml")):
        return clusters.open_cluster_file(Path(name))
    raise SettingsError(f"runtime must be {HOW}; got {name[:200]!r}")
