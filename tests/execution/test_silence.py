"""Workers that hang, networks that are cut, a scheduler that is gone: nobody says that it fails."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from sparsegp.errors import ClusterError
from sparsegp.execution.dask import DaskRuntime
from sparsegp.execution.limits import Limits
from tests.execution.blocks import Tally, parts
from tests.execution.by_hand import Cluster
from tests.execution.proxy import Proxy, free_port
from tests.execution.rounds import Rounds, checked

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LIMITS = Limits(silent_seconds=1.5, rejoin_seconds=1.0, absent_seconds=3.0)
BOUND = 20.0
"""Seconds in which a failure must be over, on a machine that does other things too."""


def connect(cluster: Cluster) -> DaskRuntime:
    return DaskRuntime.connect(None, cluster.file, LIMITS, n_workers=cluster.n_workers)


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster whose workers go on after a test that stopped them."""
    yield shared_cluster
    for name in shared_cluster.workers:
        shared_cluster.signal(name, signal.SIGCONT)


@pytest.mark.parametrize("direct", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_hung_worker_and_its_return(direct: bool, cluster: Cluster) -> None:
    """With calls from here to the workers, or by way of the scheduler."""
    runtime = connect(cluster) if direct else DaskRuntime(cluster.client, LIMITS)
    with runtime, checked(runtime) as rounds:
        rounds.go_on(3)
        cluster.signal("worker-1", signal.SIGSTOP)
        begin = time.monotonic()
        rounds.go_on()
        assert 1.5 < time.monotonic() - begin < BOUND
        assert len(set(runtime.map_blocks("process"))) == 1
        cluster.signal("worker-1", signal.SIGCONT)
        rounds.go_on_until(lambda: len(set(runtime.map_blocks("process"))) == 2)


def nap(seconds: Any, task: Any) -> Any:
    time.sleep(seconds)
    return task


def test_tasks_of_a_hung_worker_are_done_elsewhere(cluster: Cluster) -> None:
    with connect(cluster) as runtime:
        answers = runtime.run_tasks(nap, 0.2, range(8))
        found = dict([next(answers)])
        cluster.signal("worker-0", signal.SIGSTOP)
        begin = time.monotonic()
        found |= dict(answers)
        assert time.monotonic() - begin < BOUND
        assert found == {index: index for index in range(8)}


def test_network_is_cut_between_driver_and_a_worker(tmp_path: Path) -> None:
    """The scheduler still hears of the worker, which hears of the scheduler."""
    port = free_port()
    with Proxy(port) as proxy, Cluster(tmp_path, n_workers=1) as cluster:
        cluster.add_behind(port, proxy.address)
        cluster.client.wait_for_workers(2, timeout=60)
        with connect(cluster) as runtime, checked(runtime) as rounds:
            rounds.go_on(3)
            assert len(set(runtime.map_blocks("process"))) == 2
            proxy.cut()
            begin = time.monotonic()
            rounds.go_on()
            assert 1.5 < time.monotonic() - begin < BOUND
            assert len(set(runtime.map_blocks("process"))) == 1
            assert len(cluster.names()) == 2


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
def test_scheduler_is_gone(number: signal.Signals, tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        runtime = connect(cluster)
        rounds = Rounds(runtime)
        cluster.scheduler.send_signal(number)
        begin = time.monotonic()
        with pytest.raises(ClusterError, match="the dask scheduler does not answer any more"):
            rounds.go_on_until(lambda: False)
        runtime.close()
        assert time.monotonic() - begin < BOUND


@pytest.mark.slow
def test_workers_that_all_hang(cluster: Cluster) -> None:
    with connect(cluster) as runtime:
        runtime.build(Tally, parts(2))
        for name in cluster.names():
            cluster.signal(name, signal.SIGSTOP)
        begin = time.monotonic()
        with pytest.raises(ClusterError, match="no worker is left and none joined"):
            runtime.map_blocks("name")
        assert time.monotonic() - begin < BOUND
