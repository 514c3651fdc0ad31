"""A scheduler and workers that a test starts one by one, each a process, and does things to."""

import gc
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from distributed import Client

from sparsegp.runtime.clusters import connect
from sparsegp.runtime.dask import DaskRuntime
from tests.processes import PATIENCE, is_written, start_dask, wait_until


class Cluster:
    """A scheduler and workers without nannies, so that nobody starts a lost one again.

    The scheduler gives up a worker that is silent for `ttl`, or twice as long.
    """

    def __init__(self, folder: Path, n_workers: int = 2, ttl: str = "300s") -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.n_workers, self.ttl = n_workers, ttl
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.scheduler = self._start("scheduler", "--port", "0")
        assert wait_until(lambda: is_written(self.file)), "the scheduler did not start"
        for _ in range(self.n_workers):
            self.add()
        gc.collect()  # a client of an earlier test, finalized while this one starts, would hang
        self.client: Any = Client(scheduler_file=str(self.file), set_as_default=False)
        self.client.wait_for_workers(self.n_workers, timeout=PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close(timeout=0.5)
        for process in [*self.workers.values(), self.scheduler]:
            process.kill()
            process.wait()

    def add(self) -> None:
        name = f"worker-{len(self.workers)}"
        common = ["--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--name", name]
        common += ["--local-directory", str(self.folder)]
        self.workers[name] = self._start("worker", *common)

    def retire(self, name: str) -> None:
        self.client.retire_workers([self.address(name)])

    def signal(self, name: str, number: signal.Signals) -> None:
        self.workers[name].send_signal(number)

    def address(self, name: str) -> str:
        """Return the address of a worker as the scheduler knows it."""
        found: dict[str, Any] = self.client.sync(self.client.scheduler.identity)
        return next(at for at, worker in found["workers"].items() if worker["name"] == name)

    def runtime(self, **limits: float) -> DaskRuntime:
        """Return a runtime on all workers, with some limits of its own."""
        runtime = connect(self.file, n_workers=len(self.workers), seconds=PATIENCE)
        for name, value in limits.items():
            setattr(runtime, name, value)
        return runtime

    def names(self) -> set[str]:
        found: dict[str, Any] = self.client.sync(self.client.scheduler.identity)
        return {worker["name"] for worker in found["workers"].values()}

    def holder(self, pid: int) -> str:
        return next(name for name, process in self.workers.items() if process.pid == pid)

    def ended(self, name: str, seconds: float = PATIENCE) -> int | None:
        """Return the exit code of a worker, None if it does not end in time."""
        with suppress(subprocess.TimeoutExpired):
            return self.workers[name].wait(seconds)
        return None

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        where = ["--scheduler-file", str(self.file), "--host", "127.0.0.1"]
        ttl = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": self.ttl}
        return start_dask(*arguments, *where, "--dashboard-address", ":0", **ttl)
