"""Machines reached by SSH: the scheduler on the first, workers dealt to all of them in turn."""

import asyncio
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import distributed

from sparsegp.execution.clusters import LOOPBACK, Connection, within
from sparsegp.execution.clusters import start as start_cluster
from sparsegp.execution.kinds.base import KINDS, NONE, TEMPORARY, ClusterFile, Kind
from sparsegp.execution.security import Certificate

SSHCluster: Any = distributed.SSHCluster

LEASH = "-m sparsegp.execution.leash"
"""Ends scheduler and workers with the SSH session, that is, with this process."""


def start(file: ClusterFile) -> Connection:
    """Start scheduler and workers, with TLS unless all machines are this one."""
    options, hosts = file.options, file.options["hosts"]
    inside = all(host in (LOOPBACK, "localhost", "::1") for host in hosts)
    connect = {"connect_timeout": file.seconds} | options.get("connect_options", {})
    scheduler: dict[str, Any] = {"port": 0, "dashboard_address": f"{LOOPBACK}:0"}
    worker: dict[str, Any] = {"nthreads": 1, "memory_limit": 0, "death_timeout": file.seconds}
    worker["dashboard_address"] = f"{LOOPBACK}:0"
    if inside:
        scheduler["host"] = worker["host"] = LOOPBACK
    scheduler |= options.get("scheduler_options", {})
    worker |= options.get("worker_options", {})
    with ExitStack() as stack:
        certificate = file.certificate(stack, NONE if inside else TEMPORARY)
        security = certificate and certificate.security()
        if certificate is not None:
            there = stack.enter_context(copied(certificate, set(hosts), connect, file.seconds))
            tls = {"protocol": "tls://", "security": there.options()}
            scheduler, worker = scheduler | tls, worker | tls

        def make() -> Any:
            return SSHCluster(
                [hosts[0], *(hosts[k % len(hosts)] for k in range(file.workers))],
                connect_options=connect,
                scheduler_options=scheduler,
                worker_options=worker,
                remote_python=f"{options.get('remote_python', sys.executable)} {LEASH}",
                security=security,
            )

        return start_cluster(make, file.workers, file.seconds).ending(stack.pop_all())


@contextmanager
def copied(
    certificate: Certificate, hosts: set[str], connect: dict[str, Any], seconds: float
) -> Iterator[Certificate]:
    """Copy a certificate to a folder on some machines that only its owner can enter.

    Standard input carries it: the arguments of a command are seen by all users of a machine. Yields
    where it lies there; it is deleted in the end.
    """
    there = Certificate.in_folder(f"/tmp/sparsegp-tls-{uuid.uuid4().hex}")
    folder = there.ca.parent
    pairs = (there.ca, certificate.ca), (there.cert, certificate.cert), (there.key, certificate.key)
    orders = [(f"umask 077 && mkdir {folder}", "")]
    orders += [(f"umask 077 && cat > {to}", source.read_text()) for to, source in pairs]
    delete = [(f"rm -rf {folder}", "")]
    try:
        within(seconds, lambda: asyncio.run(_order(hosts, connect, orders)))
        yield there
    finally:
        with suppress(Exception):  # a machine that is gone keeps a folder nobody else can read
            within(seconds, lambda: asyncio.run(_order(hosts, connect, delete)))


async def _order(
    hosts: set[str], connect: dict[str, Any], orders: Sequence[tuple[str, str]]
) -> None:
    """Run commands, each with a text as its standard input, on all machines at once."""
    import asyncssh  # noqa: PLC0415 - an extra

    async def one(host: str) -> None:
        async with asyncssh.connect(host, **connect) as connection:
            for command, text in orders:
                await connection.run(command, input=text, check=True)

    await asyncio.gather(*map(one, hosts))


KINDS.register("ssh")(
    Kind(
        start,
        options={
            "hosts": (list,),
            "connect_options": (dict,),
            "remote_python": (str,),
            "scheduler_options": (dict,),
            "worker_options": (dict,),
        },
        required=("hosts",),
        needs="asyncssh",
        extra="ssh",
    )
)
