"""Starting workers on this machine or elsewhere, and connecting to a running scheduler."""

import asyncio
import contextlib
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.comm.core import connect as open_comm

from sparsegp.errors import ClusterError, SettingsError
from sparsegp.execution.security import Certificate

# distributed is typed in part: its objects are taken as they come
Client: Any = distributed.Client
LocalCluster: Any = distributed.LocalCluster

LOOPBACK = "127.0.0.1"
START_ATTEMPTS = 3
UPKEEP_SECONDS = 10.0

LOCAL_OPTIONS: dict[str, Any] = {
    "threads_per_worker": 1,
    "processes": True,
    "memory_limit": 0,
    "host": LOOPBACK,
    "dashboard_address": f"{LOOPBACK}:0",
    "worker_dashboard_address": f"{LOOPBACK}:0",
    "silence_logs": logging.CRITICAL,
}

SETTINGS = {
    "distributed.scheduler.worker-ttl": "60s",  # a worker that hangs is ended by its nanny
    "distributed.comm.timeouts.connect": "10s",
}


@dataclass(frozen=True)
class Connection:
    """A client, how to end it, and how to get more workers.

    Parameters
    ----------
    client : distributed.Client
        Connected to a scheduler.
    close : callable
        Ends the client, and the workers if they were started for it.
    replenish : callable
        Starts so many workers more, where that can be done; returns at once.
    """

    client: Any
    close: Callable[[], None]
    replenish: Callable[[int], None]

    def ending(self, stack: ExitStack) -> "Connection":
        """Return the same connection, whose end is the end of `stack` too."""

        def close() -> None:
            try:
                self.close()
            finally:
                stack.close()

        return replace(self, close=close)


def leave(*_: int) -> None:
    """Do nothing: the cluster belongs to somebody else."""


def start_local(n_workers: int, timeout: float, **options: Any) -> Connection:
    """Start worker processes with one thread each, reachable from this machine alone.

    The workers end by themselves when this process ends, however it ends. They do not see an
    interrupt from the keyboard: the driver decides what an interrupt means. The main module of a
    script is imported by each worker, so a script needs the guard ``if __name__ == "__main__"``.

    Parameters
    ----------
    n_workers : int
    timeout : float
        Seconds that all attempts may take.
    **options
        Of `distributed.LocalCluster`, in place of those that hold here.

    Returns
    -------
    Connection
        Its `close` ends the workers.

    Raises
    ------
    SettingsError
        If `n_workers` is less than 1.
    ClusterError
        If the workers do not start in time.
    """
    if n_workers < 1:
        raise SettingsError(f"the number of workers must be at least 1, got {n_workers}")
    options = LOCAL_OPTIONS | options
    began = time.monotonic()
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            return start(lambda: LocalCluster(n_workers=n_workers, **options), n_workers, timeout)
        except Exception as error:  # a worker that is killed while it starts takes the rest along
            passed = time.monotonic() - began
            if attempt < START_ATTEMPTS and passed < timeout:
                continue
            raise ClusterError(
                f"{n_workers} worker processes did not start in {attempt} attempts and "
                f"{passed:.0f} s ({error}); a script that starts workers needs the guard: "
                'if __name__ == "__main__"'
            ) from error
    raise AssertionError("not reached")


def start(
    make: Callable[[], Any],
    n_workers: int,
    timeout: float,
    *,
    direct: bool = True,
    upkeep: bool = False,
) -> Connection:
    """Start a cluster, connect to it, and wait for its workers.

    Parameters
    ----------
    make : callable
        Returns a cluster object of dask, whose `close` ends what it started.
    n_workers : int
        How many workers to wait for.
    timeout : float
        Seconds for each of the two waits: for the scheduler, and for the workers.
    direct : bool
        Whether this process can reach the workers; else messages go through the scheduler.
    upkeep : bool
        Whether to start others in place of workers that ended, for whatever reason.

    Raises
    ------
    TimeoutError
        If it takes longer; what had been started is ended.
    """
    stack = ExitStack()
    stack.enter_context(quiet_logs())
    try:
        with dask.config.set(SETTINGS):
            cluster = stack.enter_context(within(timeout, make))
            client = Client(cluster, direct_to_workers=direct, set_as_default=False)
            stack.callback(client.close)
            client.wait_for_workers(n_workers, timeout=timeout)
            client.register_plugin(IgnoreInterrupts())
    except BaseException:
        stack.close()
        raise

    if upkeep:
        stack.callback(_keep(cluster, n_workers))
        return Connection(client, stack.close, leave)

    def replenish(missing: int) -> None:  # a nanny whose worker dies while it starts gives up
        cluster.scale(len(cluster.worker_spec) + missing)

    able = getattr(cluster, "new_spec", None) is not None  # some keep up their number themselves
    return Connection(client, stack.close, replenish if able else leave)


def _keep(cluster: Any, n_workers: int) -> Callable[[], None]:
    """Ask a cluster for its workers again and again; returns how to end that."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(UPKEEP_SECONDS):
            cluster.scale(n_workers)  # starts those that dask has given up by now

    threading.Thread(target=ask, name="sparsegp-upkeep", daemon=True).start()
    return ended.set


def within(seconds: float, make: Callable[[], Any]) -> Any:
    """Return what `make` returns; what comes too late is closed.

    Raises
    ------
    TimeoutError
        If it takes longer.
    """
    made: Future[Any] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name="sparsegp-start-cluster", daemon=True).start()
    try:
        return made.result(seconds)
    except TimeoutError:
        if made.done():  # its own
            raise
        made.add_done_callback(_discard)
        raise TimeoutError(f"it did not start within {seconds:g} s") from None


def _discard(made: "Future[Any]") -> None:
    if made.exception() is None:
        made.result().close()


def connect(
    address: str | None,
    scheduler_file: str | Path | None,
    n_workers: int = 1,
    timeout: float = 30.0,
    *,
    certificate: Certificate | None = None,
    direct: bool = True,
) -> Connection:
    """Connect to a running scheduler that has at least `n_workers` workers.

    Parameters
    ----------
    address, scheduler_file : str or path, optional
        Exactly one of them.
    n_workers : int
        None are waited for if it is 0.
    timeout : float
        Seconds for the scheduler to answer, and again for the workers to be there.
    certificate : Certificate, optional
        For a scheduler that speaks TLS; otherwise what the configuration of dask says.
    direct : bool
        Whether this process can reach the workers; else messages go through the scheduler.

    Returns
    -------
    Connection
        Its `close` leaves the cluster as it is.

    Raises
    ------
    SettingsError
        If not exactly one of `address` and `scheduler_file` is given, or the certificate cannot
        be used.
    ClusterError
        If the file is missing or damaged, if the scheduler does not answer in time, or if there
        are too few workers in time.
    """
    if (address is None) == (scheduler_file is None):
        raise SettingsError("give either the address of a scheduler or a scheduler file")
    if scheduler_file is not None:
        address = read_scheduler_file(Path(scheduler_file))
    security: Any = (
        certificate.security() if certificate else distributed.Security()  # type: ignore[no-untyped-call]
    )
    try:
        with quiet_logs(), ThreadPoolExecutor(1) as thread:  # apart from the caller's event loop
            thread.submit(asyncio.run, greet(str(address), timeout, security)).result()
            client = Client(
                address,
                timeout=timeout,
                security=security,
                direct_to_workers=direct,
                set_as_default=False,
            )
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise ClusterError(
            f"no dask scheduler answered at {address} within {timeout:g} s ({error}); "
            f"check the address and that the scheduler runs{_tls_advice(str(address), certificate)}"
        ) from error
    try:
        if n_workers:
            client.wait_for_workers(n_workers, timeout=timeout)
    except TimeoutError:
        found = len(client.nthreads())
        client.close()
        raise ClusterError(
            f"the scheduler at {address} has {found} workers after {timeout:g} s, "
            f"but {n_workers} must be there; start workers with: dask worker {address}"
        ) from None
    except BaseException:
        client.close()
        raise
    return Connection(client, client.close, leave)


def _tls_advice(address: str, certificate: Certificate | None) -> str:
    """Say what a scheduler that does not answer may miss."""
    if address.startswith("tls://"):
        held = "another certificate" if certificate else "no certificate"
        return f"; it takes only those who hold its certificate, this command holds {held} (--tls)"
    return "" if certificate is None else "; with a certificate its address begins with tls://"


def client_in_use() -> Any:
    """Return the client that dask computes with in this place, None if there is none."""
    try:
        return Client.current()
    except ValueError:
        return None


async def greet(address: str, timeout: float, security: Any) -> None:
    """Shake hands with a scheduler; a client would wait for a silent one without limit.

    Raises
    ------
    OSError
        If nothing answers in time.
    ValueError, TypeError, RuntimeError
        If the address is malformed, or does not fit the certificate.
    """
    arguments = security.get_connection_args("client")
    connecting = open_comm(address, timeout=timeout, **arguments)  # type: ignore[no-untyped-call]
    (await asyncio.wait_for(connecting, timeout)).abort()


def read_scheduler_file(path: Path) -> str:
    """Return the address that a scheduler wrote to a file.

    Raises
    ------
    ClusterError
        If the file is missing or does not hold an address.
    """
    try:
        found: Any = json.loads(path.read_text())
        return str(found["address"])
    except OSError as error:
        raise ClusterError(
            f"scheduler file {path} cannot be read ({error.strerror}); start the scheduler with: "
            f"dask scheduler --scheduler-file {path}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"scheduler file {path} holds no scheduler address") from error


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep the log lines of distributed from the terminal."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


class IgnoreInterrupts(distributed.WorkerPlugin):
    """Lets workers live on when an interrupt from the keyboard reaches all processes at once."""

    def setup(self, worker: distributed.Worker) -> None:
        """Ignore the signal; a worker process runs this in its main thread."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
