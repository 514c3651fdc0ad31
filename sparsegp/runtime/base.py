"""What a fit needs of the place where its row blocks live.

The rows are split into blocks. A block is a plain object that holds the state of its rows; the
driver calls one method on all blocks with one message and gets the answers in block order. Block
methods must be deterministic and idempotent (a message that comes twice is answered as at first),
because a runtime that loses a worker rebuilds its blocks and sends the interrupted message again.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np

Message: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of the blocks and its arguments."""

Inputs: TypeAlias = dict[str, Any]
"""Arguments of what builds a block, by name. Dask collections (delayed objects, arrays) are
computed where the block will live and replaced by their values."""

Work: TypeAlias = Callable[[Any, Any], Any]
"""A task as a function of what all tasks share and of what is its own."""

Check: TypeAlias = Callable[[], None]
"""What is called now and then while tasks are at work; it ends them by raising."""


def nothing() -> None:
    """Do nothing."""


class Runtime(ABC):
    """Holds row blocks and carries messages to them. Use it as a context manager.

    Attributes
    ----------
    n_blocks : int
        Blocks that were built.
    n_workers : int
        Threads or workers that answer at the same time.
    recovery : callable
        Set by the driver: returns the messages that bring a fresh block to the present. Used only
        by runtimes that can lose blocks.

    What a block method or a task raises reaches the caller as it is, with a note that names the
    block (the first one, if several raise) or the task. Where workers are lost for good, calls
    raise a ClusterError.
    """

    n_blocks: int
    n_workers: int

    def __init__(self) -> None:
        self.n_blocks = 0
        self.recovery: Callable[[], Sequence[Message]] = tuple

    @abstractmethod
    def build(self, factory: Callable[..., Any], inputs: Sequence[Inputs]) -> None:
        """Build one block from each inputs; those of an earlier call are dropped, also by none.

        `factory` must be picklable.
        """

    @abstractmethod
    def ask(self, indices: Sequence[int], method: str, *args: Any) -> list[Any]:
        """Call one method on some blocks and return the answers in the same order."""

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call one method on every block and return the answers in block order."""
        return self.ask(range(self.n_blocks), method, *args)

    @abstractmethod
    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method that changes nothing on some blocks, and return the sum of the answers.

        Answers are added where the blocks are, and then as they come, so that few of them are in
        memory at a time. The order of the sum is not defined: it must not matter.
        """

    @abstractmethod
    def run_tasks(
        self, function: Work, shared: Any, tasks: Sequence[Any], check: Check = nothing
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a pure function once for each task, side by side, apart from all blocks.

        Tasks begin in their order. To close the iterator drops those that have not begun, and
        waits for the others where they cannot be abandoned.

        Parameters
        ----------
        function : callable
            ``function(shared, task)``; picklable, and so are its arguments and answers. It must
            be deterministic: a task whose worker is lost is begun again.
        shared : object
            What all tasks need; it travels once to each worker.
        tasks : sequence
        check : callable
            Called every few seconds while none ends; what it raises ends the iteration.

        Yields
        ------
        index, answer : int, object
            Of a task, in the order in which they end.
        """

    def run_in_workers(self, function: Callable[..., Any]) -> list[Any]:
        """Return what a function answers in each worker process, of which threads have none."""
        del function
        return []

    def scheduler(self) -> Callable[..., Any] | None:
        """Return what `dask.compute` is to use while rows are looked through before a run.

        None stands for the client in use, or Dask's own threads where there is none.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Drop the blocks and give back threads, processes and connections."""

    def as_dask(self, method: str, *args: Any) -> list[Any]:
        """Return one delayed call of `method` per block, to show block state as dask arrays.

        The calls go through this runtime, so they must be computed in its process: by dask's
        threaded or synchronous scheduler.
        """
        from dask.delayed import delayed  # noqa: PLC0415 - dask is loaded only where it is used

        ask: Any = delayed(self.ask, pure=False)
        return [ask([index], method, *args)[0] for index in range(self.n_blocks)]

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
    """Return inputs to be pickled: lazy ones with only the tasks that they need."""
    from dask.base import optimize  # noqa: PLC0415 - dask is loaded only where it is used

    lazy = _lazy(inputs)
    if not lazy or _is_persisted(lazy):  # to cull a graph would lose its references to such data
        return inputs
    return inputs | dict(zip(lazy, optimize(*lazy.values()), strict=True))  # type: ignore[no-untyped-call]


def compute_inputs(inputs: Inputs) -> Inputs:
    """Replace the Dask collections among `inputs` by their values, computed in this thread.

    An array is filled chunk by chunk, so that it is in memory once, with one of its chunks.
    """
    from dask.local import get_sync  # noqa: PLC0415 - by its name, distributed would be loaded

    found, lazy = dict(inputs), _lazy(inputs)
    if _is_persisted(lazy):
        from distributed import get_client, get_worker  # noqa: PLC0415

        near: dict[str, Any] = {"workers": [get_worker().address], "allow_other_workers": True}
        client: Any = get_client()
        futures = client.compute(list(lazy.values()), **near)
        return found | {name: each.result() for name, each in zip(lazy, futures, strict=True)}
    for name, value in lazy.items():
        is_array = hasattr(type(value), "store")  # a delayed object seems to have any attribute
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
    """Tell whether collections refer to data that workers of a cluster hold."""
    if "distributed" not in sys.modules:  # it is loaded where there is such data
        return False
    from distributed import futures_of  # noqa: PLC0415

    return bool(futures_of(list(lazy.values())))  # type: ignore[no-untyped-call]
