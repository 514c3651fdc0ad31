"""Worker processes of this machine."""

from contextlib import ExitStack

from sparsegp.execution.clusters import LOCAL_OPTIONS, LOOPBACK, Connection, start_local
from sparsegp.execution.kinds.base import KINDS, NONE, TEMPORARY, ClusterFile, Kind


def start(file: ClusterFile) -> Connection:
    """Start worker processes; other machines reach them only if `host` says so, and by TLS."""
    with ExitStack() as stack:
        inside = file.options.get("host", LOOPBACK) in (LOOPBACK, "localhost", "::1")
        certificate = file.certificate(stack, NONE if inside else TEMPORARY)
        security = {"security": certificate.security()} if certificate else {}
        connection = start_local(file.workers, file.seconds, **(file.options | security))
        return connection.ending(stack.pop_all())


KINDS.register("local")(
    Kind(
        start,
        options={
            **{
                name: (type(value),) for name, value in LOCAL_OPTIONS.items() if name != "processes"
            },
            "memory_limit": (int, str),
            "silence_logs": (int, str),
            "local_directory": (str,),
        },
    )
)
