"""Drivers on the machine of a scheduler, started and looked at through it.

The scheduler is taught two operations more: to start this program as a process of its own session,
which lives on when whoever asked for it is gone, and to look at a run directory from there. Whoever
may join a cluster can run code on it anyhow.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import distributed

from sparsegp.errors import ClusterError, SettingsError
from sparsegp.execution import require_one
from sparsegp.execution.cluster_file import read_cluster_file
from sparsegp.execution.clusters import connect
from sparsegp.execution.glimpse import in_store, look, stop
from sparsegp.execution.kinds.scheduler import start as connect_by_file
from sparsegp.execution.remote import LOST
from sparsegp.execution.security import Certificate

NAME = "sparsegp-drivers"
ANSWER_SECONDS = 10.0
"""How long the scheduler may take for a glimpse."""

START_SECONDS = 30.0
"""How long it may take to import this package, and to start a driver."""

LASTING = "scheduler"
"""The kind of cluster that does not end with the command that uses it."""

ADVICE = {
    "kubernetes": "run the driver in a pod too, by cluster/kubernetes/job.yaml",
    "slurm": "submit cluster/slurm/allocation.sh, whose job holds driver and workers",
}
BY_HAND = "start a scheduler that stays, see cluster/README.md, and name it by --scheduler"


@dataclass(frozen=True)
class Driver:
    """A driver that was started here.

    Parameters
    ----------
    process : Popen
    log : Path
        Where its output goes.
    begin : int
        Where it begins there.
    began : float
        When, in seconds since 1970.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    begin: int
    began: float

    def to_json(self) -> dict[str, Any]:
        """Return what is known of it now; what it said last only when it has ended."""
        code = self.process.poll()
        said = "" if code is None else self._last_line()
        return {
            "pid": self.process.pid,
            "began": self.began,
            "code": code,
            "said": said,
            "log": str(self.log),
        }

    def _last_line(self) -> str:
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self.begin, size - 4096))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class Drivers(distributed.SchedulerPlugin):
    """Lets a scheduler start drivers and look after them."""

    idempotent = True

    def __init__(self) -> None:
        self.drivers: dict[str, Driver] = {}

    async def start(self, scheduler: Any) -> None:
        """Teach the scheduler what it can be asked."""
        self.scheduler, self._one_at_a_time = scheduler, asyncio.Lock()
        scheduler.handlers["sparsegp_start"] = self.begin
        scheduler.handlers["sparsegp_look"] = self.look
        scheduler.handlers["sparsegp_stop"] = self.stop

    async def begin(self, words: list[str], run: str) -> dict[str, Any]:
        """Start a driver that uses this scheduler; return it, or an `error`."""
        try:
            async with self._one_at_a_time:
                return await asyncio.to_thread(self._begin, words, run)
        except (OSError, SettingsError) as error:
            return {"error": str(error)}

    async def look(self, run: str, probe: bool) -> dict[str, Any]:
        """Return a glimpse of a run, and of its driver if it was started here; or an `error`."""
        try:
            return await asyncio.to_thread(self._look, run, probe)
        except OSError as error:
            return {"error": str(error)}

    async def stop(self, run: str) -> dict[str, Any]:
        """Ask the driver of a run to end; return whether there is one (`found`), or an `error`."""
        try:
            return {"found": await asyncio.to_thread(self._stop, run)}
        except OSError as error:
            return {"error": str(error)}

    def _stop(self, run: str) -> bool:
        driver = self.drivers.get(run)
        if driver is None or driver.process.poll() is not None:
            return stop(run)
        driver.process.terminate()  # also while it reads, and holds nothing yet
        return True

    def _look(self, run: str, probe: bool) -> dict[str, Any]:
        driver = self.drivers.get(run)
        told = None if driver is None else driver.to_json()  # before what it may write at its end
        return {**look(run, probe), "driver": told}

    def _begin(self, words: list[str], run: str) -> dict[str, Any]:
        former = self.drivers.get(run)
        if former is not None and former.process.poll() is None:
            raise SettingsError(
                f"process {former.process.pid} drives {run} already; see it by `sparsegp attach`"
            )
        log = log_of(run)
        log.parent.mkdir(parents=True, exist_ok=True)
        address = self.scheduler.address
        environment = {**os.environ, **tls_environment(address, self.scheduler.security)}
        with log.open("ab") as out:
            begin, began = out.tell(), time.time()
            process = subprocess.Popen(
                [sys.executable, "-m", "sparsegp", *words, "--scheduler", address],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        driver = Driver(process, log, begin, began)
        threading.Thread(target=driver.process.wait, daemon=True).start()  # leaves no zombie
        self.drivers[run] = driver
        return {"host": socket.gethostname(), **driver.to_json()}


def log_of(run: str) -> Path:
    """Return where the output of a driver goes: beside a directory, which is to be empty at first.

    For a run in a store it is in a new folder among the temporary ones of this machine.
    """
    if not in_store(run):
        return Path(f"{run}.log")
    return Path(tempfile.mkdtemp(prefix="sparsegp-")) / "driver.log"


def tls_environment(address: str, security: Any) -> dict[str, str]:
    """Return the environment in which a client has the certificate that a scheduler has.

    Raises
    ------
    SettingsError
        If the certificate is in no files: a key must not be seen in an environment.
    """
    if not address.startswith("tls://"):
        return {}
    files = {
        "CA_FILE": security.tls_ca_file,
        "CLIENT__CERT": security.tls_scheduler_cert,
        "CLIENT__KEY": security.tls_scheduler_key,
    }
    if any("\n" in str(file) for file in files.values()):
        raise SettingsError(
            "the scheduler must have its certificate in files, which a driver beside it can read; "
            "start it with --tls-ca-file, --tls-cert and --tls-key"
        )
    return {
        f"DASK_DISTRIBUTED__COMM__TLS__{name}": os.path.abspath(file)
        for name, file in files.items()
        if file
    }


class Outpost:
    """The machine of a scheduler as seen from a client of it.

    Parameters
    ----------
    client : distributed.Client
    seconds : float
        How long the scheduler may take for a glimpse.

    Raises
    ------
    ClusterError
        If the scheduler does not answer, or cannot import this package.
    """

    def __init__(self, client: Any, seconds: float = ANSWER_SECONDS) -> None:
        self._client, self._seconds = client, seconds

        async def teach() -> None:
            await client.register_plugin(Drivers(), name=NAME)

        try:
            client.sync(teach, callback_timeout=START_SECONDS)
        except Exception as error:
            raise ClusterError(
                f"the scheduler at {client.scheduler.address} cannot look after drivers "
                f"({error!r}); install the same version of sparsegp and its requirements there"
            ) from error

    def start(self, words: Sequence[str], run: str) -> dict[str, Any]:
        """Start ``sparsegp`` there with some words and the scheduler, for a run directory.

        Returns
        -------
        dict
            `host`, `pid`, `began`, `log`, and what else `Driver.to_json` tells.

        Raises
        ------
        ClusterError
            If it cannot be started.
        """
        return self._ask("sparsegp_start", START_SECONDS, words=list(words), run=run)

    def look(self, run: str, probe: bool) -> dict[str, Any]:
        """Return a glimpse of a run from there, see `sparsegp.execution.glimpse.look`.

        Raises
        ------
        ClusterError
            If the scheduler does not answer, or cannot read the directory.
        """
        return self._ask("sparsegp_look", self._seconds, run=run, probe=probe)

    def stop(self, run: str) -> bool:
        """Ask the driver of a run there to end with a checkpoint; return whether there is one.

        Raises
        ------
        ClusterError
            If the scheduler does not answer, or cannot read the directory.
        """
        return bool(self._ask("sparsegp_stop", self._seconds, run=run)["found"])

    def _ask(self, operation: str, seconds: float, **arguments: Any) -> dict[str, Any]:
        address = self._client.scheduler.address
        try:
            ask = getattr(self._client.scheduler, operation)
            found = self._client.sync(ask, callback_timeout=seconds, **arguments)
        except (*LOST, AttributeError, ValueError) as error:
            raise ClusterError(
                f"the dask scheduler at {address} does not answer any more ({error!r}); a run that "
                "it drives ends with it: start the cluster again and resume from the last "
                "checkpoint"
            ) from error
        if "error" in found:
            raise ClusterError(f"on the machine of the scheduler at {address}: {found['error']}")
        return dict(found)


def require_lasting(
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    tls: str | None = None,
    cluster: str | None = None,
) -> None:
    """Refuse a cluster that ends with the command that uses it.

    Raises
    ------
    SettingsError
        If none is named that stays, or more than one.
    """
    require_one(tls=tls, scheduler=scheduler, scheduler_file=scheduler_file, cluster=cluster)
    if cluster is not None:
        kind = read_cluster_file(Path(cluster)).kind
        if kind != LASTING:
            raise SettingsError(
                f"{cluster}: a cluster of kind {kind} ends with the command that starts it, so its "
                f"driver cannot go on without; {ADVICE.get(kind, BY_HAND)}"
            )
    elif scheduler is None and scheduler_file is None:
        raise SettingsError(
            f"a driver elsewhere needs a scheduler that outlives this command; {BY_HAND}"
        )


@contextmanager
def outpost_of(*, workers: bool, **where: str) -> Iterator[Outpost]:
    """Connect to a scheduler that stays, as long as the context lasts.

    Parameters
    ----------
    workers : bool
        Whether to wait for its workers.
    **where
        `scheduler`, `scheduler_file`, `tls`, `cluster` as of `sparsegp.execution.open_runtime`.

    Raises
    ------
    SettingsError, ClusterError
        As of `open_runtime`; also if the cluster ends with its command.
    """
    require_lasting(**where)
    if "cluster" in where:
        file = read_cluster_file(Path(where["cluster"]))
        connection = connect_by_file(file if workers else replace(file, workers=0))
    else:
        certificate = Certificate.in_folder(where["tls"]) if "tls" in where else None
        address, path = where.get("scheduler"), where.get("scheduler_file")
        connection = connect(address, path, int(workers), certificate=certificate)
    try:
        yield Outpost(connection.client)
    finally:
        connection.close()
