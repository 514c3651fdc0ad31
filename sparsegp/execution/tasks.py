"""Pure functions as tasks of a dask cluster, through as many lost workers as dask can bear."""

import contextlib
import pickle
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import distributed
from distributed.client import FuturesCancelledError
from distributed.scheduler import KilledWorker

from sparsegp.errors import ClusterError
from sparsegp.execution.base import name_task
from sparsegp.execution.host import Answer, pack, portable
from sparsegp.execution.inputs import SingleThreadedBLAS
from sparsegp.execution.remote import LOST, POLL_SECONDS, living_workers

ATTEMPTS = 3
"""How often tasks are sent again after what they share was lost with its last worker."""

wait: Any = distributed.wait  # distributed is typed in part


class TasksLostError(Exception):
    """Tasks that dask does not bring to an end, with what it said."""


def run_on_cluster(
    client: Any,
    function: Callable[[Any, Any], Any],
    shared: Any,
    tasks: Sequence[Any],
    patience: float,
) -> Generator[tuple[int, Any], None, None]:
    """Yield index and answer of each task as they end; see `Runtime.run_tasks`.

    Parameters
    ----------
    client : distributed.Client
    function : callable
    shared : object
    tasks : sequence
    patience : float
        Seconds without any worker after which the tasks are given up.
    """
    missing = list(range(len(tasks)))
    packed = cloudpickle.dumps((function, shared))
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for index, value in _attempt(client, packed, tasks, list(missing), patience):
                missing.remove(index)
                yield index, value
            return
        except TasksLostError as lost:
            living_workers(client)  # raises where the scheduler is gone
            if attempt == ATTEMPTS:
                raise ClusterError(
                    f"tasks lost their workers {ATTEMPTS} times (last: {lost}); check the memory "
                    "of the workers"
                ) from lost


def _attempt(
    client: Any, packed: bytes, tasks: Sequence[Any], indices: list[int], patience: float
) -> Generator[tuple[int, Any], None, None]:
    """Send tasks once and yield the answers; raises TasksLostError if dask gives up."""
    try:
        common = client.scatter(packed, hash=False)
        pending = {
            client.submit(_perform, common, cloudpickle.dumps(tasks[index]), pure=False): index
            for index in indices
        }
    except (*LOST, TimeoutError) as error:
        raise TasksLostError(repr(error)) from error
    try:
        alone_since = None
        while pending:
            with contextlib.suppress(TimeoutError, FuturesCancelledError), client.as_current():
                wait(list(pending), timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
            done = [future for future in pending if future.done()]
            for future in sorted(done, key=pending.__getitem__):
                index = pending.pop(future)
                yield index, _answer(future, index)
            if done or living_workers(client):
                alone_since = None
            else:
                alone_since = alone_since or time.monotonic()
                if time.monotonic() - alone_since > patience:
                    raise ClusterError(
                        f"no worker was left for {patience:.0f} s; start workers and try again"
                    )
    finally:
        with contextlib.suppress(*LOST):
            client.cancel(list(pending), force=True)


def _perform(packed: bytes, task: bytes) -> bytes:
    """Do one task, on a worker."""
    blas = SingleThreadedBLAS()
    try:
        function, shared = pickle.loads(packed)
        blas.limit()
        return pack(Answer([function(shared, pickle.loads(task))]))
    except Exception as error:
        return pack(Answer([], portable(error)))
    finally:
        blas.restore()


def _answer(future: Any, index: int) -> Any:
    """Return the answer of a task that has ended, or raise what it raised."""
    try:
        answer = pickle.loads(future.result())
    except KilledWorker as error:
        raise ClusterError(
            f"task {index} lost its worker again and again ({error}); check the memory of the "
            "workers"
        ) from error
    except LOST as error:
        raise TasksLostError(repr(error)) from error
    if answer.error is not None:
        name_task(answer.error, index)
        raise answer.error
    return answer.values[0]
