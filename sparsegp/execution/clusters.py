"""Starting worker processes on this machine and connecting to a running scheduler."""

import asyncio
import contextlib
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.comm.core import connect as open_comm

from sparsegp.errors import ClusterError, SettingsError

# distributed is typed in part: its objects are taken as they come
Client: Any = distributed.Client
LocalCluster: Any = distributed.LocalCluster

LOOPBACK = "127.0.0.1"
START_ATTEMPTS = 3

LOCAL_SETTINGS = {
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


def leave(*_: int) -> None:
    """Do nothing: the cluster belongs to somebody else."""


def start_local(n_workers: int, timeout: float) -> Connection:
    """Start worker processes with one thread each, reachable from this machine alone.

    The workers end by themselves when this process ends, however it ends. They do not see an
    interrupt from the keyboard: the driver decides what an interrupt means. The main module of a
    script is imported by each worker, so a script needs the guard ``if __name__ == "__main__"``.

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
    began = time.monotonic()
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            return _start_local(n_workers, timeout)
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


def _start_local(n_workers: int, timeout: float) -> Connection:
    stack = ExitStack()
    stack.enter_context(quiet_logs())
    try:
        with dask.config.set(LOCAL_SETTINGS):
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    host=LOOPBACK,
                    dashboard_address=f"{LOOPBACK}:0",
                    worker_dashboard_address=f"{LOOPBACK}:0",
                    silence_logs=logging.CRITICAL,
                )
            )
            client = Client(cluster, direct_to_workers=True, set_as_default=False)
            stack.callback(client.close)
            client.wait_for_workers(n_workers, timeout=timeout)
            client.register_plugin(IgnoreInterrupts())
    except BaseException:
        stack.close()
        raise

    def replenish(missing: int) -> None:  # a nanny whose worker dies while it starts gives up
        cluster.scale(len(cluster.worker_spec) + missing)

    return Connection(client, stack.close, replenish)


def connect(
    address: str | None, scheduler_file: str | Path | None, n_workers: int, timeout: float
) -> Connection:
    """Connect to a running scheduler that has at least `n_workers` workers.

    Returns
    -------
    Connection
        Its `close` leaves the cluster as it is.

    Raises
    ------
    SettingsError
        If not exactly one of `address` and `scheduler_file` is given.
    ClusterError
        If the file is missing or damaged, if the scheduler does not answer in time, or if there
        are too few workers in time.
    """
    if (address is None) == (scheduler_file is None):
        raise SettingsError("give either the address of a scheduler or a scheduler file")
    if scheduler_file is not None:
        address = read_scheduler_file(Path(scheduler_file))
    try:
        with quiet_logs(), ThreadPoolExecutor(1) as thread:  # apart from the caller's event loop
            thread.submit(asyncio.run, greet(str(address), timeout)).result()
            client = Client(address, timeout=timeout, direct_to_workers=True, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterError(
            f"no dask scheduler answered at {address} within {timeout:g} s ({error}); "
            "check the address and that the scheduler runs"
        ) from error
    try:
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


def client_in_use() -> Any:
    """Return the client that dask computes with in this place, None if there is none."""
    try:
        return Client.current()
    except ValueError:
        return None


async def greet(address: str, timeout: float) -> None:
    """Shake hands with a scheduler; a client would wait for a silent one without limit.

    Raises
    ------
    OSError
        If nothing answers in time.
    ValueError
        If the address is malformed.
    """
    security = distributed.Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    connecting = open_comm(address, timeout=timeout, **security)  # type: ignore[no-untyped-call]
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
