"""Blocks as plain objects in the threads of this process: the default, with nothing to fail."""

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from sparsegp.errors import SettingsError
from sparsegp.execution.base import (
    Check,
    Part,
    Runtime,
    Work,
    check_index,
    check_parts,
    name_block,
    name_task,
    nothing,
)
from sparsegp.execution.inputs import SingleThreadedBLAS, compute_inputs, limit_this_thread
from sparsegp.execution.memory import Room

CHECK_SECONDS = 1.0
"""How long a call of `check` may have to wait."""


def usable_cpus() -> int:
    """Return the number of processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ThreadRuntime(Runtime):
    """Runs blocks in a pool of threads.

    While it is open, BLAS is limited to one thread in the whole process; `close` restores it.

    Parameters
    ----------
    n_threads : int, optional
        Default: as many as there are usable processors.

    Raises
    ------
    SettingsError
        If `n_threads` is less than 1.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        super().__init__()
        if n_threads is not None and n_threads < 1:
            raise SettingsError(f"the number of threads must be at least 1, got {n_threads}")
        self._n_threads = n_threads or usable_cpus()
        self._blocks: list[Any] = []
        self._pool: ThreadPoolExecutor | None = None
        if self._n_threads > 1:
            self._pool = ThreadPoolExecutor(
                self._n_threads, thread_name_prefix="sparsegp", initializer=limit_this_thread
            )
        self._blas = SingleThreadedBLAS()
        self._blas.limit()

    @property
    def n_blocks(self) -> int:
        """Number of blocks built."""
        return len(self._blocks)

    @property
    def n_workers(self) -> int:
        """Number of threads."""
        return self._n_threads

    def rooms(self) -> list[Room]:
        """Return what memory this process may take."""
        return [Room.of_this_process("this process")]

    def scheduler(self) -> str:
        """Return threads, whatever dask would use."""
        return "threads"

    def describe(self) -> str:
        """Say how many threads there are."""
        return f"{self._n_threads} thread{'s' if self._n_threads > 1 else ''} of this process"

    def build(self, factory: Callable[..., Any], parts: Sequence[Part]) -> None:
        """Build one block from each part, as many at a time as there are threads."""
        check_parts(parts)
        self._blocks = []
        self._blocks = self._run(lambda part: factory(**compute_inputs(part.inputs)), parts)
        self._blas.limit()  # the inputs may have loaded another BLAS

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call one method on every block and return the answers in block order."""
        return self._run(lambda index: self._call(index, method, args), range(len(self._blocks)))

    def call_block(self, index: int, method: str, *args: Any) -> Any:
        """Call one method on one block, in the thread of the caller."""
        check_index(index, self.n_blocks)
        return self._call(index, method, args)

    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method on some blocks and return the sum of the answers."""
        total: Any = None
        for start in range(0, len(indices), self._n_threads):
            some = indices[start : start + self._n_threads]
            for value in self._run(lambda index: self._call(index, method, args), some):
                total = value if total is None else total + value
        return total

    def run_tasks(
        self, function: Work, shared: Any, tasks: Sequence[Any], check: Check = nothing
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function once for each task, as many at a time as there are threads."""

        def work(index: int) -> Any:
            try:
                return function(shared, tasks[index])
            except Exception as error:
                name_task(error, index)
                raise

        if self._pool is None:
            yield from ((index, work(index)) for index in range(len(tasks)))
            return
        futures = {self._pool.submit(work, index): index for index in range(len(tasks))}
        going = set(futures)
        try:
            while going:
                ended, going = wait(going, CHECK_SECONDS, return_when=FIRST_COMPLETED)
                for future in sorted(ended, key=futures.__getitem__):
                    yield futures[future], future.result()
                if not ended:
                    check()
        finally:
            _abandon(list(futures))

    def close(self) -> None:
        """Drop the blocks, end the threads and restore the threads of BLAS."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._blocks = []
        self._blas.restore()

    def _call(self, index: int, method: str, args: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._blocks[index], method)(*args)
        except Exception as error:
            name_block(error, index, method)
            raise

    def _run(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        items = list(items)
        if self._pool is None or len(items) == 1:
            return [work(item) for item in items]
        futures = [self._pool.submit(work, item) for item in items]
        try:
            wait(futures)
        except BaseException:  # an interrupt: leave no call running behind the caller's back
            _abandon(futures)
            raise
        return [future.result() for future in futures]


def _abandon(futures: Sequence[Future[Any]]) -> None:
    """Cancel calls that have not begun and wait for the others."""
    for future in futures:
        future.cancel()
    wait(futures)
