"""Workers that join, are retired, reach the end of their lifetime, or are scaled away."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from sparsegp.execution.dask import DaskRuntime
from sparsegp.execution.limits import Limits
from tests.execution.by_hand import Cluster
from tests.execution.rounds import Rounds, checked
from tests.processes import wait_until

LIMITS = Limits(rejoin_seconds=60, absent_seconds=60)
"""To wait for a replacement of a worker that left on purpose would take too long for a test."""


@contextmanager
def disturbed(cluster: Cluster) -> Iterator[Rounds]:
    """Yield rounds on all workers of a cluster, whose answers are checked in the end."""
    with (
        DaskRuntime.connect(None, cluster.file, LIMITS, n_workers=cluster.n_workers) as runtime,
        checked(runtime) as rounds,
    ):
        yield rounds


def homes(rounds: Rounds, cluster: Cluster) -> list[str]:
    """Return the worker of each block."""
    return [cluster.holder(pid) for pid in rounds.runtime.map_blocks("process")]


def test_workers_come_and_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "sparsegp"),
        Cluster(tmp_path, n_workers=1) as cluster,
        disturbed(cluster) as rounds,
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
        assert rounds.runtime.n_workers == 2
        cluster.retire("worker-2")
        rounds.go_on_until(lambda: cluster.ended("worker-2", 0.01) == 0)
        assert homes(rounds, cluster) == ["worker-1"] * 5
        cluster.signal("worker-1", signal.SIGKILL)
        cluster.add()
        rounds.go_on()  # waits for it
        assert homes(rounds, cluster) == ["worker-3"] * 5
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("sparsegp")]
    assert ["left, as it was to be retired" in line for line in lines] == [True, True, False]


@pytest.mark.slow
def test_worker_at_the_end_of_its_lifetime(tmp_path: Path) -> None:
    with Cluster(tmp_path, n_workers=1) as cluster:
        cluster.add("--lifetime", "5s")
        cluster.client.wait_for_workers(2, timeout=60)
        begin = time.monotonic()
        with disturbed(cluster) as rounds:
            assert set(homes(rounds, cluster)) == {"worker-0", "worker-1"}
            rounds.go_on_until(lambda: cluster.ended("worker-1", 0.01) == 0)
            assert homes(rounds, cluster) == ["worker-0"] * 5
        assert time.monotonic() - begin < LIMITS.rejoin_seconds


@pytest.mark.slow
def test_workers_scaled_away() -> None:
    """Dask's Adaptive takes workers that seem idle to it, down to the minimum."""
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, memory_limit="2GB", host="127.0.0.1",
            dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as inside,
        Client(inside, direct_to_workers=True, set_as_default=False) as client,
        DaskRuntime(client, LIMITS) as runtime,
        checked(runtime) as rounds,
    ):  # fmt: skip
        assert len(set(runtime.map_blocks("process"))) == 3
        inside.adapt(minimum=1, maximum=3, interval="200ms", wait_count=2)
        rounds.go_on_until(lambda: len(client.nthreads()) == 1)
        assert len(set(runtime.map_blocks("process"))) == 1
        assert wait_until(lambda: len(inside.workers) == 1, 10)
