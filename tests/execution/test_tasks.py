"""Pure functions side by side, on every runtime."""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest

from sparsegp.data import summarise
from sparsegp.errors import ClusterError, DataError
from sparsegp.execution.base import Runtime
from sparsegp.execution.dask import DaskRuntime
from sparsegp.execution.shared import share
from sparsegp.execution.tasks import computing
from sparsegp.execution.threads import ThreadRuntime
from tests.execution.blocks import Tally, parts
from tests.execution.by_hand import Cluster
from tests.execution.conftest import LIMITS
from tests.processes import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def scaled(factor: Any, task: Any) -> Any:
    return factor * task


def raise_on(shared: tuple[type[Exception], int], task: int) -> int:
    kind, which = shared
    if task == which:
        raise kind(f"from {task}")
    return task


def nap_and_note(shared: tuple[float, str], task: int) -> None:
    seconds, folder = shared
    (Path(folder) / str(task)).touch()
    time.sleep(seconds)


def die_at_first(mark: str, task: int) -> int:
    if task == 2 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * task


def die(shared: Any, task: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_task_is_answered_once(runtime: Runtime) -> None:
    shared = np.arange(3.0)
    answers = dict(runtime.run_tasks(scaled, shared, range(7)))
    assert sorted(answers) == list(range(7))
    for index, value in answers.items():
        np.testing.assert_array_equal(value, shared * index)
    assert list(runtime.run_tasks(scaled, shared, [])) == []


def test_one_thread_keeps_the_order() -> None:
    with ThreadRuntime(1) as runtime:
        tasks = runtime.run_tasks(scaled, 2.0, range(4))
        assert next(tasks) == (0, 0.0)
        assert list(tasks) == [(1, 2.0), (2, 4.0), (3, 6.0)]


@pytest.mark.parametrize("kind", [ValueError, OSError, RuntimeError, TimeoutError])
def test_exceptions_reach_the_caller_as_themselves(runtime: Runtime, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="from 2") as caught:
        list(runtime.run_tasks(raise_on, (kind, 2), range(5)))
    assert any("raised by task 2" in note for note in caught.value.__notes__)
    assert len(list(runtime.run_tasks(raise_on, (kind, 9), range(5)))) == 5


def test_blocks_are_left_alone(runtime: Runtime) -> None:
    runtime.build(Tally, parts(3))
    before = runtime.map_blocks("add", 1)
    tasks = runtime.run_tasks(scaled, 1.0, range(4))
    next(tasks)
    assert runtime.map_blocks("add", 1) == before
    tasks.close()
    assert runtime.map_blocks("name") == ["block 0", "block 1", "block 2"]


def test_closed_early_it_begins_no_more(runtime: Runtime, tmp_path: Path) -> None:
    tasks = runtime.run_tasks(nap_and_note, (0.05, str(tmp_path)), range(40))
    next(tasks)
    tasks.close()

    def at_rest() -> bool:  # tasks on workers may not be abandoned at once
        begun = len(list(tmp_path.iterdir()))
        time.sleep(0.5)
        return len(list(tmp_path.iterdir())) == begun

    assert wait_until(at_rest, 15)
    assert len(list(tmp_path.iterdir())) < 40


def test_what_is_raised_by_a_check_ends_it(runtime: Runtime, tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyError("enough")

    tasks = runtime.run_tasks(nap_and_note, (6.0, str(tmp_path)), range(12), stop)
    with pytest.raises(KeyError, match="enough"):
        next(tasks)
    assert len(list(tmp_path.iterdir())) < 12


def test_tasks_of_a_lost_worker_are_done_elsewhere(local_runtime: Runtime, tmp_path: Path) -> None:
    """The worker of one task is killed in its midst, once; what all share is sent again if lost."""
    mark = tmp_path / "died"
    answers = dict(local_runtime.run_tasks(die_at_first, str(mark), range(6)))
    assert mark.exists()
    assert answers == {index: 10 * index for index in range(6)}


def test_what_tasks_share_outlives_its_worker(local_runtime: DaskRuntime) -> None:
    client = local_runtime._client
    shared = share(client, bytes(9 << 20))
    assert client.submit(len, shared, pure=False).result(timeout=60) == 9 << 20
    for holder in client.who_has([shared])[shared.key]:
        os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
    assert client.submit(len, shared, pure=False).result(timeout=60) == 9 << 20


def test_workers_that_are_gone_for_good_end_it() -> None:
    reasons = r"task 0 lost its worker|lost their workers 3 times"
    with DaskRuntime.local(1, LIMITS) as runtime, pytest.raises(ClusterError, match=reasons):
        list(runtime.run_tasks(die, None, [0]))


# -- graphs of dask ------------------------------------------------------------------------------


def lazily(function: Any, *tasks: Any) -> list[Any]:
    """Calls of a function of this module, by value: workers cannot import it."""

    def by_value(task: Any) -> Any:
        return function(task)

    return [dask.delayed(by_value, pure=False)(task) for task in tasks]


def ten_times(task: int) -> int:
    return 10 * task


def refuse(task: int) -> int:
    raise DataError(f"row {task} is bad")


def end_at_first(task: tuple[str, int]) -> int:
    return die_at_first(*task)


def end(task: Any) -> None:
    die(None, task)


def test_a_graph_is_computed_as_dask_would(local_runtime: DaskRuntime, tmp_path: Path) -> None:
    """Also through the loss of a worker; what a task raises reaches the caller as itself."""
    get = computing(local_runtime._client, LIMITS)
    rows = da.arange(100, chunks=30)
    found = dask.compute(*lazily(ten_times, 1, 2), {"sum": rows.sum(), "all": rows}, scheduler=get)
    assert found[:2] == (10, 20)
    assert found[2]["sum"] == 4950
    np.testing.assert_array_equal(found[2]["all"], np.arange(100))
    with pytest.raises(DataError, match="row 3 is bad"):
        dask.compute(*lazily(refuse, 3), scheduler=get)
    tasks = [(str(tmp_path / "died"), index) for index in range(4)]
    assert dask.compute(*lazily(end_at_first, *tasks), scheduler=get) == (0, 10, 20, 30)
    assert (tmp_path / "died").exists()


def test_a_graph_is_given_up_when_workers_are_gone_for_good(tmp_path: Path) -> None:
    """Dask itself would wait for workers without end."""
    with Cluster(tmp_path, n_workers=1) as cluster:
        get = computing(cluster.client, replace(LIMITS, absent_seconds=1.0, silent_seconds=1.5))
        with pytest.raises(ClusterError, match="no worker was left for 1 s"):
            dask.compute(*lazily(end, 0), scheduler=get)


def test_rows_are_looked_through_by_the_client_in_use(local_runtime: DaskRuntime) -> None:
    assert local_runtime.scheduler() is None
    with local_runtime._client.as_current():
        get = local_runtime.scheduler()
        assert get is not None
        X = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(2, 2))
        assert summarise(X, "X", get).maximum == 11.0
