"""What the workers of a Dask cluster run: the blocks that each of them holds, and single tasks."""

import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from sparsegp.blas import single_threaded_blas
from sparsegp.runtime.base import Inputs, Work, compute_inputs


class Failure(NamedTuple):
    """The exception that a block or task raised on a worker, in place of an answer."""

    number: int
    error: Exception


def _packed_failure(number: int, error: Exception) -> bytes:
    """Return a failure pickled, with the traceback of this process as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"on the worker:\n{trace}")
    return bytes(cloudpickle.dumps(Failure(number, error)))


class Host:
    """The blocks of one worker: an actor, whose methods are called one at a time."""

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}
        self._index = -1  # of the block that is at work

    def ask(self, operation: str, indices: Sequence[int], packed: bytes) -> bytes:
        """Carry out an operation; what it raises is an answer, so that calls raise losses alone."""
        try:
            with single_threaded_blas():
                answer = getattr(self, operation)(indices, *pickle.loads(packed))
                return bytes(cloudpickle.dumps(answer))
        except Exception as error:
            return _packed_failure(self._index, error)

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
    try:
        with single_threaded_blas():
            function, shared = common
            return bytes(cloudpickle.dumps(function(shared, pickle.loads(task))))
    except Exception as error:
        return _packed_failure(index, error)


def share(client: Any, value: Any) -> Any:
    """Return a future of a picklable value, to be an argument of many tasks; returns at once.

    What a client scatters is gone with the last worker that holds it; what a task makes is made
    again. The scheduler keeps the bytes for as long as the future or what depends on it is wanted.
    """
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of large graphs
        return client.submit(pickle.loads, cloudpickle.dumps(value), pure=False)
