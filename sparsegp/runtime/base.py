"""What a fit asks of the place where its row blocks live.

The rows are split into blocks. A block is a plain object that holds the state of its rows; the
driver calls one method on all blocks with one message and gets the answers in block order. Block
methods must be deterministic and idempotent (a message that comes twice is answered as at first),
because a runtime that loses a worker rebuilds its blocks and sends the interrupted message again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias

Message: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of the blocks and its arguments."""

Recovery: TypeAlias = Callable[[], Sequence[Message]]
"""Gives the messages that bring a freshly built block to the present."""

Work: TypeAlias = Callable[[Any, Any], Any]
"""A task as a function of what all tasks share and of what is its own."""

Check: TypeAlias = Callable[[], None]
"""What is called now and then while tasks are at work; it ends them by raising."""


def nothing_to_replay() -> Sequence[Message]:
    """Return no messages: a fresh block is already in the present."""
    return ()


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Part:
    """What one block is built from.

    Parameters
    ----------
    index : int
        Number of the block, from 0.
    inputs : dict
        Keyword arguments of the factory. Dask collections (delayed objects, arrays) are computed
        where the block will live and replaced by their values; anything else is passed as it is.
    """

    index: int
    inputs: dict[str, Any] = field(default_factory=dict)


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
    """

    n_blocks: int
    n_workers: int

    def __init__(self) -> None:
        self.n_blocks = 0
        self.recovery: Recovery = nothing_to_replay

    @abstractmethod
    def build(self, factory: Callable[..., Any], parts: Sequence[Part]) -> None:
        """Build one block from each part; blocks of an earlier call are dropped, also by no parts.

        Parameters
        ----------
        factory : callable
            Called with the inputs of a part, returns the block. It must be picklable.
        parts : sequence of Part
            With indices 0, 1, 2, ... in order.

        Raises
        ------
        ValueError
            If the indices of the parts are not 0, 1, 2, ...
        ClusterError
            If no worker is left to build on.
        """

    @abstractmethod
    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call one method on every block and return the answers in block order.

        What a block method raises reaches the caller as it is, with a note that names the block
        (the first one, if several raise).

        Raises
        ------
        ClusterError
            If workers were lost for good.
        """

    @abstractmethod
    def call_block(self, index: int, method: str, *args: Any) -> Any:
        """Call one method on one block.

        Raises
        ------
        IndexError
            If there is no such block.
        ClusterError
            If workers were lost for good.
        """

    @abstractmethod
    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method that changes nothing on some blocks, and return the sum of the answers.

        Answers are added where the blocks are, and then as they come, so that few of them are in
        memory at a time. The order of the sum is not defined: it must not matter.

        Parameters
        ----------
        indices : sequence of int
            At least one.
        method : str
        *args

        Raises
        ------
        ClusterError
            If workers were lost for good.
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
        index : int
            Of a task, in the order in which they end.
        answer : object

        Raises
        ------
        ClusterError
            If workers were lost for good.

        What a task raises reaches the caller as it is, with a note that names the task.
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
    def describe(self) -> str:
        """Say in a few words where the blocks live."""

    @abstractmethod
    def close(self) -> None:
        """Drop the blocks and give back threads, processes and connections."""

    def as_dask(self, method: str, *args: Any) -> list[Any]:
        """Return one delayed call of `method` per block, to show block state as dask arrays.

        The calls go through this runtime, so they must be computed in its process: by dask's
        threaded or synchronous scheduler.
        """
        from dask.delayed import delayed  # noqa: PLC0415 - dask is loaded only where it is used

        return [
            delayed(self.call_block, pure=False)(index, method, *args)
            for index in range(self.n_blocks)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a runtime cannot leave its process; compute delayed block calls with "
            "scheduler='threads'"
        )


def check_parts(parts: Sequence[Part]) -> None:
    """Refuse parts that are not numbered in order, by a ValueError."""
    found = [part.index for part in parts]
    if found != list(range(len(parts))):
        raise ValueError(f"parts must be numbered 0, 1, 2, ... in order, found {found}")


def check_index(index: int, n_blocks: int) -> None:
    """Refuse the index of a block that does not exist, by an IndexError."""
    if not 0 <= index < n_blocks:
        raise IndexError(f"there is no block {index}; blocks are 0 to {n_blocks - 1}")
