"""The interface of runtimes, which hold the row blocks of a fit.

The rows are divided into blocks. A block is a plain object that holds the state of its rows; the
driver calls one method on all blocks with one message and gets the answers in block order. Block
methods must be deterministic and idempotent (a repeated message gets the same answer), because a
runtime that loses a worker rebuilds its blocks and sends the interrupted message again.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np

Message: TypeAlias = tuple[str, tuple[Any, ...]]
"""Name of a block method, and its arguments."""

Inputs: TypeAlias = dict[str, Any]
"""Keyword arguments of the function that builds a block. Dask collections (delayed objects, arrays)
are computed where the block will be held, and replaced by their values."""

Work: TypeAlias = Callable[[Any, Any], Any]
"""A function of what all tasks share and of one task."""

Check: TypeAlias = Callable[[], None]
"""A function that is called every few seconds while tasks run; an exception in it ends them."""


def do_nothing() -> None:
    """Do nothing."""


class Runtime(ABC):
    """Holder of row blocks, which sends messages to them; a context manager.

    The driver sets `recovery`, which returns the messages that bring a new block up to date; it is
    used only by runtimes that can lose blocks.

    Exceptions of a block method or a task reach the caller unchanged, with a note that names the
    block (the first one, if several raise) or the task. If workers are lost for good, calls raise a
    ClusterError.
    """

    n_blocks: int  # that were built
    n_workers: int  # threads or workers that work in parallel

    def __init__(self) -> None:
        self.n_blocks = 0
        self.recovery: Callable[[], Sequence[Message]] = tuple

    @abstractmethod
    def build(self, factory: Callable[..., Any], inputs: Sequence[Inputs]) -> None:
        """Replace all blocks by new ones, one for each element of `inputs`, which may be empty.

        `factory` must be picklable.
        """

    @abstractmethod
    def ask(self, indices: Sequence[int], method: str, *args: Any) -> list[Any]:
        """Call one method on the blocks `indices` and return the answers in that order."""

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call one method on every block and return the answers in block order."""
        return self.ask(range(self.n_blocks), method, *args)

    @abstractmethod
    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method without side effects on some blocks and return the sum of the answers.

        Answers are added where the blocks are, and then as they arrive, so that few of them are in
        memory at a time. The order of the terms is undefined, so it must not matter.
        """

    @abstractmethod
    def run_tasks(
        self, function: Work, shared: Any, tasks: Sequence[Any], check: Check = do_nothing
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a pure function once for each task, in parallel and independently of all blocks.

        Tasks start in the given order. Closing the iterator drops tasks that have not started, and
        waits for running ones if they cannot be abandoned.

        Parameters
        ----------
        function : callable
            ``function(shared, task)``; picklable, and so are its arguments and answers. It must
            be deterministic: a task whose worker is lost is started again.
        shared : object
            What all tasks need; it is sent once to each worker.
        tasks : sequence
        check : callable
            Called every few seconds while no task ends; an exception ends the iteration.

        Yields
        ------
        index, answer : int, object
            Number and result of a task, in the order in which tasks end.
        """

    def run_in_workers(self, function: Callable[..., Any]) -> list[Any]:
        """Call a function in each worker process and return the answers; none for threads."""
        del function
        return []

    def scheduler(self) -> Callable[..., Any] | None:
        """Return the scheduler with which `dask.compute` reads the rows before a run.

        None means the current client or, without one, Dask's own threads.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Drop the blocks and release threads, processes and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a runtime cannot leave its process; compute delayed block calls with "
            "scheduler='threads'"
        )


def pack_inputs(inputs: Inputs) -> Inputs:
    """Return inputs for pickling: Dask collections keep only the tasks that they need."""
    from dask.base import optimize  # noqa: PLC0415 - dask is loaded only where it is used

    lazy = _lazy(inputs)
    if not lazy or _is_persisted(lazy):  # culling a graph loses its references to such data
        return inputs
    return inputs | dict(zip(lazy, optimize(*lazy.values()), strict=True))


def compute_inputs(inputs: Inputs) -> Inputs:
    """Replace the Dask collections among `inputs` by their values, computed in this thread.

    An array is filled chunk by chunk, so that memory holds it only once, plus one chunk.
    """
    from dask.local import get_sync  # noqa: PLC0415 - by name it would load distributed

    found, lazy = dict(inputs), _lazy(inputs)
    if _is_persisted(lazy):
        from distributed import get_client, get_worker  # noqa: PLC0415

        near: dict[str, Any] = {"workers": [get_worker().address], "allow_other_workers": True}
        client: Any = get_client()
        futures = client.compute(list(lazy.values()), **near)
        return found | {name: each.result() for name, each in zip(lazy, futures, strict=True)}
    for name, value in lazy.items():
        is_array = hasattr(type(value), "store")  # delayed objects appear to have any attribute
        if is_array and value.npartitions > 1 and all(map(math.isfinite, value.shape)):
            found[name] = np.empty(value.shape, value.dtype)
            value.store(found[name], lock=False, scheduler=get_sync)
        else:
            found[name] = value.compute(scheduler=get_sync)
    return found


def _lazy(inputs: Inputs) -> Inputs:
    from dask.base import is_dask_collection  # noqa: PLC0415 - dask is loaded only where it is used

    return {name: value for name, value in inputs.items() if is_dask_collection(value)}


def _is_persisted(lazy: dict[str, Any]) -> bool:
    """Return whether collections refer to data held by workers of a cluster."""
    if "distributed" not in sys.modules:  # such data require it
        return False
    from distributed import futures_of  # noqa: PLC0415

    return bool(futures_of(list(lazy.values())))
