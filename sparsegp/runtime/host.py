"""What the workers of a Dask cluster run, blocks and single tasks, and what is known of them."""

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
"""What Dask raises where a worker, a task or the connection to it is gone."""
PULSE_SECONDS = 2.0  # between two looks at workers that are waited for
SCHEDULER_SECONDS = 10.0  # that the scheduler may take to name its workers


class WorkerLostError(Exception):
    """A worker that does not answer any more."""


class Failure(NamedTuple):
    """The exception that a block or task raised on a worker, in place of an answer."""

    number: int
    error: Exception


def _answered(work: Callable[[], Any], number: Callable[[], int]) -> bytes:
    """Return the answer of some work pickled, or its failure, with the traceback as a note."""
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
    """The blocks of one worker: an actor, whose methods are called one at a time."""

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}
        self._index = -1  # of the block that is at work

    def ask(self, operation: str, indices: Sequence[int], packed: bytes) -> bytes:
        """Carry out an operation; what it raises is an answer, so that calls raise losses alone."""
        work = getattr(self, operation)
        return _answered(lambda: work(indices, *pickle.loads(packed)), lambda: self._index)

    def build(self, indices: Sequence[int], factory: Callable[..., Any], inputs: Inputs) -> None:
        """Build one block; its lazy inputs are computed here."""
        [self._index] = indices
        self._blocks.pop(self._index, None)
        self._blocks[self._index] = factory(**compute_inputs(inputs))

    def call(
        self, indices: Sequence[int], method: str, args: Any, fold: Callable[[Iterator[Any]], Any]
    ) -> Any:
        """Call one method on some blocks and return what `fold` makes of the answers."""

        def answers() -> Iterator[Any]:
            for self._index in indices:
                yield getattr(self._blocks[self._index], method)(*args)

        return fold(answers())

    def drop(self, indices: Sequence[int]) -> None:
        """Drop some blocks."""
        for index in indices:
            self._blocks.pop(index, None)


def perform(common: tuple[Work, Any], task: bytes, index: int) -> bytes:
    """Do one task, on a worker."""
    function, shared = common
    return _answered(lambda: function(shared, pickle.loads(task)), lambda: index)


def share(client: Any, value: Any) -> Any:
    """Return a future of a picklable value, to be an argument of many tasks; returns at once.

    What a client scatters is gone with the last worker that holds it; what a task makes is made
    again. The scheduler keeps the bytes for as long as the future or what depends on it is wanted.
    """
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of large graphs
        return client.submit(pickle.loads, cloudpickle.dumps(value), pure=False)


def known_workers(client: Any) -> dict[str, dict[str, Any]]:
    """Ask the scheduler of a client what it knows of its workers, by their addresses.

    Raises
    ------
    ClusterError
        If it does not answer.
    """
    try:
        found = client.sync(client.scheduler.identity, callback_timeout=SCHEDULER_SECONDS)
    except (*LOST, AttributeError, ValueError) as error:  # it is gone, or the client is closed
        raise ClusterError(
            f"the dask scheduler does not answer any more ({error!r}); start the cluster again "
            "and resume from the last checkpoint"
        ) from error
    return dict(found["workers"])
