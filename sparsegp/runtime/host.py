"""Code that runs on the workers of a Dask cluster, and the scheduler's list of workers."""

import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import distributed

from sparsegp.blas import single_threaded_blas
from sparsegp.errors import ClusterError
from sparsegp.runtime.base import Inputs, Work, compute_inputs

LOST = (OSError, RuntimeError, CancelledError, distributed.KilledWorker)
"""Exceptions of Dask when a worker, a task or the connection is lost."""
PULSE_SECONDS = 2.0  # interval between checks of a worker while waiting for it
SCHEDULER_SECONDS = 10.0  # time limit for answers of the scheduler


class WorkerLostError(Exception):
    """A worker that no longer answers."""


class Failure(NamedTuple):
    """Exception of a block or task on a worker, sent in place of an answer."""

    number: int
    error: Exception


def _pickled_result(work: Callable[[], Any], number: Callable[[], int]) -> bytes:
    """Return the pickled result of `work`, or a `Failure` with the traceback as a note."""
    try:
        with single_threaded_blas():
            return bytes(cloudpickle.dumps(work()))
    except Exception as error:
        trace, failure = "".join(traceback.format_exception(error)).rstrip(), error
        try:
            pickle.loads(cloudpickle.dumps(error))
        except Exception:
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        failure.add_note(f"on the worker:\n{trace}")
        return bytes(cloudpickle.dumps(Failure(number(), failure)))


class Host:
    """Actor that holds the blocks of one worker; its methods are called one at a time."""

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}
        self._index = -1  # block that is being built or called

    def ask(self, operation: str, indices: Sequence[int], packed: bytes) -> bytes:
        """Carry out an operation; return its exceptions, so that only lost workers raise any."""
        work = getattr(self, operation)
        return _pickled_result(lambda: work(indices, *pickle.loads(packed)), lambda: self._index)

    def build(self, indices: Sequence[int], factory: Callable[..., Any], inputs: Inputs) -> None:
        """Build one block, after computing its lazy inputs here."""
        [self._index] = indices
        self._blocks.pop(self._index, None)
        self._blocks[self._index] = factory(**compute_inputs(inputs))

    def call(
        self, indices: Sequence[int], method: str, args: Any, fold: Callable[[Iterator[Any]], Any]
    ) -> Any:
        """Call one method on some blocks and return the answers combined by `fold`."""

        def answers() -> Iterator[Any]:
            for self._index in indices:
                yield getattr(self._blocks[self._index], method)(*args)

        return fold(answers())

    def drop(self, indices: Sequence[int]) -> None:
        """Drop some blocks."""
        for index in indices:
            self._blocks.pop(index, None)


def run_task(common: tuple[Work, Any], task: bytes, index: int) -> bytes:
    """Run one task on a worker."""
    function, shared = common
    return _pickled_result(lambda: function(shared, pickle.loads(task)), lambda: index)


def shared_future(client: Any, value: Any) -> Any:
    """Return a future of a picklable value, an argument of many tasks, without waiting.

    Scattered data is lost with the last worker that holds it, while the result of a task is
    computed again. The scheduler keeps the bytes as long as the future or a dependent is needed.
    """
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # about large graphs
        return client.submit(pickle.loads, cloudpickle.dumps(value), pure=False)


def known_workers(client: Any) -> dict[str, dict[str, Any]]:
    """Return what the scheduler of a client knows about its workers, by address.

    Raises
    ------
    ClusterError
        If the scheduler does not answer.
    """
    try:
        # `client.scheduler_info()` hides that it does not answer, and may lack workers: Dask
        # overwrites it, now and then, by a short one
        found = client.sync(client.scheduler.identity, callback_timeout=SCHEDULER_SECONDS)
    except (*LOST, AttributeError, ValueError) as error:  # it has ended, or the client is closed
        raise ClusterError(
            f"the dask scheduler does not answer any more ({error!r}); start the cluster again "
            "and resume from the last checkpoint"
        ) from error
    return dict(found["workers"])
