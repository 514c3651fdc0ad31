"""Workers that are killed or hang, schedulers that do not answer, drivers that die."""

import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import dask
import psutil
import pytest
from distributed import Client, LocalCluster

from sparsegp.errors import ClusterError
from sparsegp.execution import Part
from sparsegp.execution.base import Message, Runtime
from sparsegp.execution.dask import DaskRuntime, Limits
from sparsegp.execution.threads import ThreadRuntime
from tests.execution.blocks import parts
from tests.execution.conftest import LIMITS
from tests.execution.rounds import FACTORY, run, undisturbed
from tests.processes import environment, wait_until, worker_processes


def test_worker_killed_between_calls(cluster: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    def kill(step: int) -> None:
        if step == 4:
            os.kill(cluster.call_block(1, "process"), signal.SIGKILL)

    with caplog.at_level(logging.WARNING, "sparsegp"):
        assert run(cluster, 8, before=kill) == undisturbed(8)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("sparsegp")]
    assert len(lines) == 1
    assert "rebuilt" in lines[0]


def test_worker_killed_in_mid_call(cluster: Runtime, tmp_path: Path) -> None:
    cluster.build(FACTORY, parts(5))
    cluster.map_blocks("add", 1)
    cluster.recovery = lambda: [("add", (1,))]
    answers = cluster.map_blocks("die", str(tmp_path / "mark"), 3)
    assert answers == [f"block {index}" for index in range(5)]
    assert (tmp_path / "mark").exists()
    with ThreadRuntime(1) as reference:
        reference.build(FACTORY, parts(5))
        reference.map_blocks("add", 1)
        assert cluster.map_blocks("add", 2) == reference.map_blocks("add", 2)


def test_worker_killed_while_building(cluster: Runtime, tmp_path: Path) -> None:
    cluster.build(
        FACTORY,
        [
            Part(index, {"index": index, "die_at_birth": str(tmp_path / "mark") if index else ""})
            for index in range(4)
        ],
    )
    assert (tmp_path / "mark").exists()
    assert cluster.map_blocks("name") == [f"block {index}" for index in range(4)]


def test_survivor_lost_after_its_answer(local_runtime: DaskRuntime) -> None:
    """Blocks that had answered and are lost while others are rebuilt hear the message again."""
    local_runtime.build(FACTORY, parts(5))
    answers = [local_runtime.map_blocks("add", 1)]
    pids = local_runtime.map_blocks("process")
    survivors = {pids[4]} - {pids[0]}

    def replay() -> list[Message]:
        local_runtime.limits = LIMITS
        while survivors:
            os.kill(survivors.pop(), signal.SIGKILL)
        return [("add", (1,))]

    local_runtime.recovery = replay
    local_runtime.limits = replace(LIMITS, rejoin_seconds=0.0)  # rebuild on the survivor
    os.kill(pids[0], signal.SIGKILL)
    answers.append(local_runtime.map_blocks("add", 2))
    assert not survivors
    local_runtime.recovery = lambda: [("add", (1,)), ("add", (2,))]
    answers.append(local_runtime.map_blocks("add", 3))
    assert answers == undisturbed(3)


def kill_at_random(
    stop: threading.Event, seed: int, most: int, steps: list[int], kills: list[int]
) -> None:
    """Kill one of this process's workers now and then, when the run has gone on since the last."""
    rng = random.Random(seed)
    while len(kills) <= most and not stop.wait(rng.uniform(0.1, 1.5)):
        if (step := steps[-1]) > kills[-1] and (workers := worker_processes(os.getpid())):
            with contextlib.suppress(psutil.NoSuchProcess):
                rng.choice(workers).kill()
                kills.append(step)


def disturbed(runtime: Runtime, n_steps: int, seed: int, most: int) -> int:
    """Do some steps while workers are killed, check the answers and return the number of kills."""
    stop, steps, kills = threading.Event(), [0], [0]
    killer = threading.Thread(target=kill_at_random, args=(stop, seed, most, steps, kills))
    killer.start()
    try:
        answers = run(runtime, n_steps, seconds=0.01, before=steps.append)
    finally:
        stop.set()
        killer.join()
    assert answers == undisturbed(n_steps)
    return len(kills) - 1


def test_workers_killed_at_random_instants(local_runtime: Runtime) -> None:
    assert disturbed(local_runtime, n_steps=80, seed=1, most=3) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_series_of_kills(seed: int) -> None:
    with DaskRuntime.local(2, Limits(max_losses_in_a_row=20)) as runtime:
        assert disturbed(runtime, n_steps=250, seed=seed, most=20) >= 2


def test_block_that_kills_every_worker_is_given_up(local_runtime: Runtime) -> None:
    local_runtime.build(FACTORY, parts(2))
    with pytest.raises(ClusterError, match=r"block [01] lost its worker 3 times without an answer"):
        local_runtime.map_blocks("die_always", 1)
    assert local_runtime.map_blocks("name") == ["block 0", "block 1"]


def test_worker_that_hangs_counts_as_lost(tmp_path: Path) -> None:
    limits = Limits(call_seconds=1.0, rejoin_seconds=0.5)
    with DaskRuntime.local(2, limits) as runtime:
        runtime.build(FACTORY, parts(2))
        begin = time.monotonic()
        answers = runtime.map_blocks("sleep_once", str(tmp_path / "mark"), 0, 20.0)
        assert answers == ["block 0", "block 1"]
        assert time.monotonic() - begin < 8
        assert runtime.n_workers == 1


def test_all_workers_gone_for_good(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
        LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
        ) as inside,
        Client(inside, set_as_default=False) as client,
    ):  # fmt: skip
        runtime = DaskRuntime(client, Limits(rejoin_seconds=0.3, absent_seconds=1.0))
        runtime.build(FACTORY, parts(2))
        inside.scale(0)
        assert wait_until(lambda: not client.nthreads(), 10)
        with pytest.raises(ClusterError, match="no worker is left and none joined"):
            runtime.map_blocks("name")
        runtime.close()
        assert client.status == "running"


def test_unpicklable_answers_and_errors(cluster: Runtime) -> None:
    cluster.build(FACTORY, parts(2))
    with pytest.raises(TypeError, match="cannot pickle"):
        cluster.map_blocks("unpicklable")
    with pytest.raises(RuntimeError, match="LocalError: odd"):
        cluster.map_blocks("fail_strangely")
    assert cluster.map_blocks("name") == ["block 0", "block 1"]


DRIVER = """
import sys, time
from sparsegp.execution import open_runtime, Part
class Block:
    def pid(self):
        import os
        return os.getpid()
    def nap(self):
        time.sleep(30)
if __name__ == "__main__":
    runtime = open_runtime(workers=2)
    runtime.build(Block, [Part(0), Part(1)])
    print(*runtime.map_blocks("pid"), flush=True)
    if "nap" in sys.argv:
        runtime.map_blocks("nap")
    runtime.close()
"""


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    path = tmp_path / "driver.py"
    path.write_text(DRIVER)
    return path


def test_killed_driver_leaves_no_workers(driver: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(driver), "nap"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    family = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert set(pids) <= set(family)
    assert len(pids) == 2
    process.kill()
    process.wait()
    process.stdout.close()
    assert wait_until(lambda: not any(map(psutil.pid_exists, family)), 15)


def test_terminal_stays_quiet(driver: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(driver)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=30,
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout.split()) == 2


def test_workers_do_not_see_interrupts(local_runtime: Runtime) -> None:
    local_runtime.build(FACTORY, parts(2))
    pids = local_runtime.map_blocks("process")
    for pid in pids:
        os.kill(pid, signal.SIGINT)
    time.sleep(0.2)
    assert local_runtime.map_blocks("process") == pids
