"""A scheduler and workers that run already; they stay when the run ends."""

from contextlib import ExitStack

from sparsegp.errors import SettingsError
from sparsegp.execution.clusters import Connection, connect
from sparsegp.execution.kinds.base import KINDS, NONE, TEMPORARY, ClusterFile, Kind


def start(file: ClusterFile) -> Connection:
    """Connect, and wait for the workers.

    Raises
    ------
    SettingsError
        If not exactly one of `address` and `file` is given.
    """
    if file.security == TEMPORARY:
        raise SettingsError(
            f"{file.path}: security must name the certificate that the scheduler was started with"
        )
    address, path = file.options.get("address"), file.options.get("file")
    if (address is None) == (path is None):
        raise SettingsError(f"{file.path}: kind scheduler takes either address or file")
    return connect(
        address,
        None if path is None else file.path.parent / path,
        file.workers,
        file.seconds,
        certificate=file.certificate(ExitStack(), NONE),
        direct=file.options.get("direct", True),
    )


KINDS.register("scheduler")(
    Kind(start, options={"address": (str,), "file": (str,), "direct": (bool,)})
)
