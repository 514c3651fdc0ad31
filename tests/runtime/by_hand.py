"""A scheduler and workers that a test starts one by one, each a process, and does things to."""

import gc
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Self

from distributed import Client, Security

from sparsegp.runtime.clusters import connect
from sparsegp.runtime.dask import DaskRuntime
from sparsegp.runtime.host import known_workers
from tests.processes import PATIENCE, environment, start_python, wait_until


def security(tls: Path | None) -> Security:
    if tls is None:
        return Security()
    ca, cert, key = (str(tls / f"{name}.pem") for name in ("ca", "cert", "key"))
    options = {"tls_ca_file": ca, "tls_client_cert": cert, "tls_client_key": key}
    return Security(require_encryption=True, **options)


class Cluster:
    """A scheduler and workers, where nobody starts a lost one again unless there are nannies.

    The scheduler gives up a worker that is silent for `ttl`, or twice as long.
    """

    def __init__(
        self,
        folder: Path,
        n_workers: int = 2,
        ttl: str = "300s",
        nannies: bool = False,
        tls: Path | None = None,
    ) -> None:
        self.folder, self.tls = folder, tls
        self.file = folder / "scheduler.json"
        self.n_workers, self.ttl, self.nannies = n_workers, ttl, nannies
        self.workers: dict[str, Popen[str]] = {}

    def __enter__(self) -> Self:
        self.scheduler = self._start("scheduler", "--port", "0")
        assert wait_until(self.is_written), "the scheduler did not start"
        for _ in range(self.n_workers):
            self.add()
        gc.collect()  # a client of an earlier test, finalized while this one starts, would hang
        how = {"scheduler_file": str(self.file), "security": security(self.tls)}
        self.client: Any = Client(**how, set_as_default=False)
        self.client.wait_for_workers(self.n_workers, timeout=PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close(timeout=0.5)
        for process in [*self.workers.values(), self.scheduler]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def is_written(self) -> bool:
        """Whether the file of the scheduler is there, and whole."""
        with suppress(OSError, ValueError):
            return bool(json.loads(self.file.read_text()))
        return False

    def add(self) -> None:
        name = f"worker-{len(self.workers)}"
        common = ["--nanny" if self.nannies else "--no-nanny", "--nthreads", "1", "--name", name]
        common += ["--memory-limit", "0", "--local-directory", str(self.folder)]
        self.workers[name] = self._start("worker", *common)

    def retire(self, name: str) -> None:
        self.client.retire_workers(names=[name])

    def signal(self, name: str, number: signal.Signals) -> None:
        self.workers[name].send_signal(number)

    def runtime(self, **limits: float) -> DaskRuntime:
        """Return a runtime on all workers, with some limits of its own."""
        runtime = connect(self.file, n_workers=len(self.workers), seconds=PATIENCE)
        for name, value in limits.items():
            setattr(runtime, name, value)
        return runtime

    def names(self) -> set[str]:
        return {worker["name"] for worker in known_workers(self.client).values()}

    def ended(self, name: str, seconds: float = PATIENCE) -> int | None:
        """Return the exit code of a worker, None if it does not end in time."""
        with suppress(TimeoutExpired):
            return self.workers[name].wait(seconds)
        return None

    def _start(self, *arguments: str) -> "Popen[str]":
        words = ["--scheduler-file", str(self.file), "--host", "127.0.0.1"]
        words += ["--dashboard-address", "127.0.0.1:0"]
        if self.tls:
            words += ["--protocol", "tls", "--tls-ca-file", str(self.tls / "ca.pem")]
            words += ["--tls-cert", str(self.tls / "cert.pem")]
            words += ["--tls-key", str(self.tls / "key.pem")]
        names = environment() | {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": self.ttl}
        silent = {"stdout": DEVNULL, "stderr": DEVNULL}
        return start_python(
            "-m", "dask", *arguments, *words, env=names, start_new_session=True, **silent
        )
