"""Workers that are killed, hang, are retired and join; schedulers and drivers that are gone."""

import logging
import os
import signal
import time

import psutil
import pytest
from distributed import Client, LocalCluster

from sparsegp.errors import ClusterError
from sparsegp.runtime.dask import DaskRuntime
from sparsegp.runtime.host import shared_future
from tests.processes import PATIENCE, environment, run_python, start_python, wait_until
from tests.runtime.blocks import (
    FACTORY,
    Rounds,
    checked,
    die,
    die_at_first,
    nap_and_note,
    parts,
    undisturbed,
)
from tests.runtime.by_hand import Cluster

SHORT = {"rejoin_timeout": 1.0, "no_worker_timeout": 3.0, "rebalance_interval": 0.2}
SILENT = 5.0
"""After which a worker counts as hung: one that is only slow must have sent something."""
LONG = 60.0
"""Seconds in which a failure must be over, on a machine that does other things too."""


def test_worker_killed_between_calls(cluster, caplog):
    with checked(cluster) as rounds, caplog.at_level(logging.WARNING, "sparsegp"):
        rounds.go_on(3)
        os.kill(cluster.ask([1], "process")[0], signal.SIGKILL)
        rounds.go_on(3)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("sparsegp")]
    assert len(lines) == 1
    assert "was lost" in lines[0]


def test_worker_killed_in_mid_call(cluster, tmp_path):
    cluster.build(FACTORY, parts(5))
    answers = [cluster.map_blocks("add", 1)]
    cluster.recovery = lambda: [("add", (1,))]
    assert cluster.map_blocks("die", str(tmp_path / "mark"), 3)[4] == "block 4"
    found = cluster.sum_blocks(range(5), "share", 1, str(tmp_path / "other"), 3)
    assert found.tolist() == [0, 11111, 22222], "each block counts once"
    assert len(list(tmp_path.iterdir())) == 2
    assert [*answers, cluster.map_blocks("add", 2)] == undisturbed(2)


def test_worker_killed_while_building(cluster, tmp_path):
    mark = str(tmp_path / "mark")
    inputs = [{"index": index, "die_at_birth": mark if index else ""} for index in range(4)]
    cluster.build(FACTORY, inputs)
    assert (tmp_path / "mark").exists()
    assert cluster.map_blocks("name") == [f"block {index}" for index in range(4)]


@pytest.mark.slow
def test_survivor_lost_after_its_answer(local_runtime, monkeypatch):
    """Blocks that had answered and are lost while others are rebuilt hear the message again."""
    local_runtime.build(FACTORY, parts(5))
    answers = [local_runtime.map_blocks("add", 1)]
    pids = local_runtime.map_blocks("process")
    survivors = set(pids) - {pids[0]}

    def replay():
        monkeypatch.undo()
        while survivors:
            os.kill(survivors.pop(), signal.SIGKILL)
        return [("add", (1,))]

    local_runtime.recovery = replay
    monkeypatch.setattr(local_runtime, "rejoin_timeout", 0.0)  # rebuild on the survivor
    os.kill(pids[0], signal.SIGKILL)
    answers.append(local_runtime.map_blocks("add", 2))
    assert not survivors
    local_runtime.recovery = lambda: [("add", (1,)), ("add", (2,))]
    answers.append(local_runtime.map_blocks("add", 3))
    assert answers == undisturbed(3)


@pytest.mark.slow
def test_block_that_kills_every_worker_is_given_up(local_runtime):
    local_runtime.build(FACTORY, parts(2))
    with pytest.raises(ClusterError, match=r"block [01] lost its worker 3 times without an answer"):
        local_runtime.map_blocks("die_always", 1)
    assert local_runtime.map_blocks("name") == ["block 0", "block 1"]


def test_tasks_of_a_lost_worker_are_done_elsewhere(local_runtime, tmp_path):
    mark = tmp_path / "died"
    answers = dict(local_runtime.run_tasks(die_at_first, str(mark), range(6)))
    assert mark.exists()
    assert answers == {index: 10 * index for index in range(6)}


@pytest.mark.slow
def test_what_tasks_share_outlives_its_worker(local_runtime):
    client = local_runtime.client
    shared = shared_future(client, bytes(12 << 20))
    assert client.submit(len, shared, pure=False).result(timeout=PATIENCE) == 12 << 20
    for holder in client.who_has([shared])[shared.key]:
        os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
    assert client.submit(len, shared, pure=False).result(timeout=PATIENCE) == 12 << 20


def test_unpicklable_answers_and_errors(cluster):
    cluster.build(FACTORY, parts(2))
    with pytest.raises(TypeError, match="cannot pickle"):
        cluster.map_blocks("unpicklable")
    with pytest.raises(RuntimeError, match="LocalError: odd"):
        cluster.map_blocks("fail_strangely")
    assert cluster.map_blocks("name") == ["block 0", "block 1"]


@pytest.mark.slow
@pytest.mark.parametrize("direct", [True, False])
def test_hung_worker(direct, tmp_path):
    """With calls from here to the workers, or through the scheduler; and a call without an end."""
    with Cluster(tmp_path, n_workers=3) as cluster:
        runtime = cluster.runtime() if direct else DaskRuntime(cluster.client)
        for name, value in {**SHORT, "heartbeat_timeout": SILENT, "call_timeout": 12.0}.items():
            setattr(runtime, name, value)
        with runtime, checked(runtime) as rounds:
            rounds.go_on(3)
            cluster.signal("worker-1", signal.SIGSTOP)
            begin = time.monotonic()
            rounds.go_on()
            assert SILENT < time.monotonic() - begin < LONG
            assert len(set(runtime.map_blocks("process"))) == 2
            runtime.map_blocks("sleep_once", str(tmp_path / "mark"), 0, 10 * LONG)
            assert time.monotonic() - begin < 2 * LONG
            assert runtime.n_workers == 1


@pytest.mark.slow
def test_tasks_of_a_hung_worker_are_done_elsewhere(tmp_path):
    with Cluster(tmp_path, ttl="2s") as cluster, cluster.runtime() as runtime:
        answers = runtime.run_tasks(nap_and_note, (0.2, str(tmp_path)), range(8))
        found = dict([next(answers)])
        cluster.signal("worker-0", signal.SIGSTOP)
        begin = time.monotonic()
        found |= dict(answers)
        assert time.monotonic() - begin < LONG
        assert found == {index: index for index in range(8)}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_scheduler_is_gone(number, tmp_path):
    with Cluster(tmp_path, n_workers=1) as cluster, cluster.runtime(**SHORT) as runtime:
        rounds = Rounds(runtime)
        cluster.scheduler.send_signal(number)
        begin = time.monotonic()
        with pytest.raises(ClusterError, match="the dask scheduler does not answer any more"):
            rounds.go_on_until(lambda: False)
        runtime.close()
        assert time.monotonic() - begin < LONG


@pytest.mark.slow
def test_the_command_says_so_in_one_line(tmp_path):
    run = tmp_path / "run"
    with Cluster(tmp_path, n_workers=1) as cluster:
        how = "--n-active", 1000, "--kernel", "50*rbf", "--posterior", "active", "--panel", 1
        where = "--scheduler-file", cluster.file, "--out", run
        command = start_python("-m", "sparsegp", "train", "digits", *how, *where)
        assert wait_until((run / "progress.json").exists)
        cluster.scheduler.kill()
        shown = command.communicate(timeout=LONG)[1]
    assert command.returncode == 2
    assert "Traceback" not in shown
    assert "error: the dask scheduler does not answer any more" in shown.splitlines()[-1]


@pytest.mark.slow
def test_workers_that_are_all_gone(tmp_path):
    """Killed by their tasks, one after the other."""
    with Cluster(tmp_path) as cluster, cluster.runtime(**SHORT) as runtime:
        runtime.build(FACTORY, parts(2))
        begin = time.monotonic()
        with pytest.raises(ClusterError, match=r"lost its worker again|no worker is left"):
            list(runtime.run_tasks(die, None, range(4)))
        with pytest.raises(ClusterError, match="no worker is left and none joined"):
            runtime.map_blocks("name")
        assert time.monotonic() - begin < 2 * LONG


def homes(rounds, cluster):
    names = {process.pid: name for name, process in cluster.workers.items()}
    return [names[pid] for pid in rounds.runtime.map_blocks("process")]


@pytest.mark.slow
def test_workers_come_and_go(tmp_path):
    patient = {**SHORT, "rejoin_timeout": PATIENCE, "no_worker_timeout": PATIENCE}
    with (
        Cluster(tmp_path, n_workers=1) as cluster,
        cluster.runtime(**patient) as runtime,
        checked(runtime) as rounds,
    ):
        rounds.go_on(3)
        cluster.retire("worker-0")
        time.sleep(0.2)
        rounds.go_on(3)
        assert cluster.names() == {"worker-0"}, "the only one stays"
        cluster.add()
        rounds.go_on_until(lambda: cluster.names() == {"worker-1"})
        assert cluster.ended("worker-0") == 0
        assert homes(rounds, cluster) == ["worker-1"] * 5
        cluster.add()
        rounds.go_on_until(lambda: len(set(homes(rounds, cluster))) == 2)
        assert sorted(homes(rounds, cluster)) == ["worker-1"] * 3 + ["worker-2"] * 2
        assert runtime.n_workers == 2
        cluster.retire("worker-2")
        rounds.go_on_until(lambda: cluster.ended("worker-2", 0.01) == 0)
        assert homes(rounds, cluster) == ["worker-1"] * 5
        cluster.signal("worker-1", signal.SIGKILL)
        cluster.add()
        rounds.go_on()  # waits for it
        assert homes(rounds, cluster) == ["worker-3"] * 5


@pytest.mark.slow
def test_workers_scaled_away():
    """Dask's Adaptive takes workers that seem idle to it, down to the minimum."""
    options = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, host="127.0.0.1", silence_logs=50, **options
        ) as inside,
        Client(inside, direct_to_workers=True, set_as_default=False) as client,
        DaskRuntime(client) as runtime,
        checked(runtime) as rounds,
    ):
        runtime.rebalance_interval = 0.2
        assert len(set(runtime.map_blocks("process"))) == 3
        inside.adapt(minimum=1, maximum=3, interval="200ms", wait_count=2)
        rounds.go_on_until(lambda: len(client.nthreads()) == 1)
        assert len(set(runtime.map_blocks("process"))) == 1
        assert wait_until(lambda: len(inside.workers) == 1)


DRIVER = """
import os, sys, time
from sparsegp.runtime import open_runtime
class Block:
    def pid(self, seconds=0):
        time.sleep(seconds)
        return os.getpid()
if __name__ == "__main__":
    with open_runtime("workers=2") as runtime:
        runtime.build(Block, [{}, {}])
        print(*runtime.map_blocks("pid"), flush=True)
        runtime.map_blocks("pid", float(sys.argv[1]))
"""


@pytest.mark.slow
def test_killed_driver_leaves_no_workers(tmp_path):
    """The next start sweeps what is left on disk; its terminal stays quiet."""
    (tmp_path / "driver.py").write_text(DRIVER)
    names = environment() | {"DASK_TEMPORARY_DIRECTORY": str(tmp_path / "scratch")}
    with start_python(tmp_path / "driver.py", 30, env=names) as driver:
        pids = {int(pid) for pid in driver.stdout.readline().split()}
        family = {child.pid for child in psutil.Process(driver.pid).children(recursive=True)}
        assert len(pids & family) == 2
        driver.kill()
    assert wait_until(lambda: not any(map(psutil.pid_exists, family)))
    assert run_python(tmp_path / "driver.py", 0, env=names, timeout=PATIENCE).stderr == ""
    assert not list((tmp_path / "scratch").rglob("worker-*"))
