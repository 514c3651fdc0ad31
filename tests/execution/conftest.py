"""One runtime of each kind for the whole session; a real scheduler with two workers over TCP."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import psutil
import pytest

import sparsegp
from sparsegp.execution.base import Runtime, nothing_to_replay
from sparsegp.execution.dask import DaskRuntime, Limits
from sparsegp.execution.threads import ThreadRuntime
from tests.execution import blocks

cloudpickle.register_pickle_by_value(blocks)

LIMITS = Limits(call_seconds=30, rejoin_seconds=10)


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def worker_processes(of: int) -> list[psutil.Process]:
    """Return the worker processes below a process: those that its nannies spawned."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(of).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child)
    return found


def environment() -> dict[str, str]:
    root = str(Path(sparsegp.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}


def start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its session, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


@pytest.fixture(scope="session")
def scheduler_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cluster")
    path = folder / "scheduler.json"
    common = ["--scheduler-file", str(path), "--host", "127.0.0.1"]
    common += ["--dashboard-address", "127.0.0.1:0"]
    worker = ["--nthreads", "1", "--memory-limit", "0", "--local-directory", str(folder)]
    processes = [start("distributed.cli.dask_scheduler", "--port", "0", *common)]
    try:
        for _ in range(2):
            processes.append(start("distributed.cli.dask_worker", *common, *worker))  # noqa: PERF401
        assert wait_until(path.exists, 30), "the scheduler did not start"
        yield path
    finally:
        for process in reversed(processes):
            end(process)


@pytest.fixture(scope="session")
def thread_runtime() -> Iterator[Runtime]:
    with ThreadRuntime(2) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def local_runtime() -> Iterator[Runtime]:
    with DaskRuntime.local(2, LIMITS) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def tcp_runtime(scheduler_file: Path) -> Iterator[Runtime]:
    with DaskRuntime.connect(None, scheduler_file, LIMITS, n_workers=2) as runtime:
        yield runtime


def _fresh(request: pytest.FixtureRequest) -> Runtime:
    runtime: Runtime = request.getfixturevalue(f"{request.param}_runtime")
    runtime.recovery = nothing_to_replay
    return runtime


@pytest.fixture(params=["thread", "local", "tcp"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return _fresh(request)


@pytest.fixture(params=["local", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Runtime:
    """A runtime whose workers can be killed."""
    return _fresh(request)
