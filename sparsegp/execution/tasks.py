"""Pure functions as tasks of a dask cluster, through as many lost workers as dask can bear."""

import contextlib
import pickle
import time
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import distributed
from distributed.client import FuturesCancelledError
from distributed.scheduler import KilledWorker

from sparsegp.errors import ClusterError
from sparsegp.execution.base import Check, Work, name_task
from sparsegp.execution.host import Answer, pack, portable
from sparsegp.execution.inputs import SingleThreadedBLAS
from sparsegp.execution.limits import Limits
from sparsegp.execution.remote import (
    LOST,
    SCHEDULER_SECONDS,
    answering,
    living_workers,
    running_workers,
)
from sparsegp.execution.shared import share

ATTEMPTS = 3
"""How often tasks are sent that workers took away with them when they went silent."""

ADVICE = "check the memory of the workers"

wait: Any = distributed.wait  # distributed is typed in part
futures_of: Any = distributed.futures_of


class TasksLostError(Exception):
    """Tasks that dask does not bring to an end, with what it said."""


def run_on_cluster(
    client: Any,
    function: Work,
    shared: Any,
    tasks: Sequence[Any],
    limits: Limits,
    check: Check,
) -> Generator[tuple[int, Any], None, None]:
    """Yield index and answer of each task as they end; see `Runtime.run_tasks`.

    Parameters
    ----------
    client : distributed.Client
    function : callable
    shared : object
    tasks : sequence
    limits : Limits
        Tasks of a worker that gives no sign of life go to others. They are given up when there was
        no worker for `absent_seconds`.
    check : callable
    """
    missing = list(range(len(tasks)))
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for index, value in _attempt(client, function, shared, tasks, missing, limits, check):
                missing.remove(index)
                yield index, value
            return
        except TasksLostError as lost:
            _require_more(client, attempt, lost)


def computing(client: Any, limits: Limits) -> Callable[..., Any]:
    """Return what `dask.compute` may take as `scheduler`: a cluster, with a limit to every wait.

    Parameters
    ----------
    client : distributed.Client
    limits : Limits
        As for `run_on_cluster`.
    """

    def get(graph: Any, keys: Any, **options: Any) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return _compute(client, limits, graph, keys, options)
            except TasksLostError as lost:
                _require_more(client, attempt, lost)
        raise AssertionError  # the last attempt returns or raises

    return get


def _compute(
    client: Any, limits: Limits, graph: Any, keys: Any, options: dict[str, Any]
) -> list[Any]:
    """Compute keys of a graph once; raises TasksLostError if dask gives up."""
    watch = Watch(client, limits)
    watch.find()
    try:
        futures = client.get(graph, keys, sync=False, **options)
    except LOST as error:
        raise TasksLostError(repr(error)) from error
    pending = set(futures_of(futures))
    try:
        while pending:
            done = _wait(client, pending, limits.pulse_seconds)
            pending.difference_update(done)
            if not done:
                watch.look({future.key for future in pending})
        return [_nested(future, limits.silent_seconds) for future in futures]
    finally:
        with contextlib.suppress(*LOST):
            client.cancel(list(pending), force=True)


def _nested(found: Any, seconds: float) -> Any:
    """Return the values of futures in lists of lists."""
    if not isinstance(found, distributed.Future):
        return [_nested(each, seconds) for each in found] if isinstance(found, list) else found
    try:
        return found.result(timeout=seconds)
    except KilledWorker as error:
        raise ClusterError(f"a task lost its worker again and again ({error}); {ADVICE}") from error
    except LOST as error:
        raise TasksLostError(repr(error)) from error


def _wait(client: Any, pending: Collection[Any], seconds: float) -> list[Any]:
    """Return those of some futures that have ended, after waiting for one at least."""
    with contextlib.suppress(TimeoutError, FuturesCancelledError), client.as_current():
        wait(list(pending), timeout=seconds, return_when="FIRST_COMPLETED")
    return [future for future in pending if future.done()]


def _require_more(client: Any, attempt: int, lost: TasksLostError) -> None:
    """Go on after a loss, unless the scheduler is gone or it was the last attempt."""
    living_workers(client)  # raises where the scheduler is gone
    if attempt == ATTEMPTS:
        raise ClusterError(f"tasks lost their workers {ATTEMPTS} times (last: {lost}); {ADVICE}")


def _attempt(
    client: Any,
    function: Work,
    shared: Any,
    tasks: Sequence[Any],
    indices: Sequence[int],
    limits: Limits,
    check: Check,
) -> Generator[tuple[int, Any], None, None]:
    """Send tasks once and yield the answers; raises TasksLostError if dask gives up."""
    watch = Watch(client, limits)
    workers, some_hang = watch.find()
    where = {"workers": workers, "allow_other_workers": True} if some_hang else {}
    try:
        common = share(client, cloudpickle.dumps((function, shared)), **where)
        pending = {
            client.submit(
                _perform, common, cloudpickle.dumps(tasks[index]), pure=False, **where
            ): index
            for index in indices
        }
    except LOST as error:
        raise TasksLostError(repr(error)) from error
    try:
        while pending:
            done = _wait(client, pending, limits.pulse_seconds)
            for future in sorted(done, key=pending.__getitem__):
                index = pending.pop(future)
                yield index, _answer(future, index, limits.silent_seconds)
            if not done:
                check()
                watch.look({common.key, *(future.key for future in pending)})
    finally:
        with contextlib.suppress(*LOST):
            client.cancel(list(pending), force=True)


class Watch:
    """Looks after workers while nothing comes from them.

    Parameters
    ----------
    client : distributed.Client
    limits : Limits
    """

    def __init__(self, client: Any, limits: Limits) -> None:
        self._client, self._limits = client, limits
        self._alone_since: float | None = None
        self._silent_since: dict[str, float] = {}

    def find(self) -> tuple[list[str], bool]:
        """Return workers that answer, after waiting for some, and whether there are others.

        Raises
        ------
        ClusterError
            If there are none for long.
        """
        while True:
            running = running_workers(self._client)
            found = answering(self._client, running, self._limits.pulse_seconds)
            self._count_alone(not found)
            if found:
                return sorted(found), found != running
            time.sleep(0.05)

    def look(self, keys: set[str]) -> None:
        """Look for workers that are silent.

        Parameters
        ----------
        keys : set of str
            Of what is waited for.

        Raises
        ------
        TasksLostError
            If a worker that holds or computes one of the keys has been silent for too long.
        ClusterError
            If there was no worker for long.
        """
        living = living_workers(self._client)
        self._count_alone(not living)
        now = time.monotonic()
        silent = living - answering(self._client, living, self._limits.pulse_seconds)
        self._silent_since = {name: self._silent_since.get(name, now) for name in sorted(silent)}
        for name, since in self._silent_since.items():
            if now - since >= self._limits.silent_seconds and keys & self._keys_at(name):
                raise TasksLostError(f"worker {name}: no sign of life for {now - since:.0f} s")

    def _count_alone(self, alone: bool) -> None:
        now = time.monotonic()
        self._alone_since = (self._alone_since or now) if alone else None
        patience = self._limits.absent_seconds
        if self._alone_since is not None and now - self._alone_since > patience:
            raise ClusterError(
                f"no worker was left for {patience:.0f} s; start workers and try again"
            )

    def _keys_at(self, address: str) -> set[str]:
        """Ask the scheduler what a worker holds or computes."""
        scheduler, keys = self._client.scheduler, set()
        for question in (scheduler.processing, scheduler.has_what):
            with contextlib.suppress(*LOST):
                told = self._client.sync(
                    question, workers=[address], callback_timeout=SCHEDULER_SECONDS
                )
                keys |= set(told[address])
        return keys


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


def _answer(future: Any, index: int, seconds: float) -> Any:
    """Return the answer of a task that has ended, or raise what it raised."""
    try:
        answer = pickle.loads(future.result(timeout=seconds))  # who holds it may hang since
    except KilledWorker as error:
        raise ClusterError(
            f"task {index} lost its worker again and again ({error}); {ADVICE}"
        ) from error
    except LOST as error:
        raise TasksLostError(repr(error)) from error
    if answer.error is not None:
        name_task(answer.error, index)
        raise answer.error
    return answer.values[0]
