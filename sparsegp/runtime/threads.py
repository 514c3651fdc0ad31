"""Runtime in threads of this process, the default: blocks are plain objects, never lost."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from sparsegp.blas import limit_this_thread, single_threaded_blas
from sparsegp.errors import SettingsError
from sparsegp.runtime.base import Check, Inputs, Runtime, Work, compute_inputs, do_nothing

CHECK_SECONDS = 1.0
"""Interval between calls of `check` while no task ends."""


def usable_cpus() -> int:
    """Return the number of processors that this process may use, or its container's quota."""
    from dask.system import CPU_COUNT  # noqa: PLC0415 - dask is loaded only where it is used

    return int(CPU_COUNT)


class ThreadRuntime(Runtime):
    """Runtime that runs blocks in a pool of threads, by default one for each usable processor.

    While it is open, BLAS is limited to one thread in the whole process; `close` restores it.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        super().__init__()
        if n_threads is not None and n_threads < 1:
            raise SettingsError(f"the number of threads must be at least 1, got {n_threads}")
        self.n_workers = n_threads or usable_cpus()
        self._blocks: list[Any] = []
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0  # id of the process that has these threads
        self._blas = ExitStack()
        self._blas.enter_context(single_threaded_blas())

    @property
    def _pool(self) -> ThreadPoolExecutor | None:
        """Thread pool if there are several threads; after a fork the child creates its own."""
        if self.n_workers > 1 and self._process != os.getpid():
            self._process = os.getpid()
            self._threads = ThreadPoolExecutor(
                self.n_workers, thread_name_prefix="sparsegp", initializer=limit_this_thread
            )
        return self._threads

    def scheduler(self) -> Callable[..., Any]:
        """Return a dask scheduler on the threads of this runtime: dask's do not survive a fork."""
        from dask import local, threaded  # noqa: PLC0415 - dask is loaded only where it is used

        pool = self._pool
        return local.get_sync if pool is None else partial(threaded.get, pool=pool)

    def build(self, factory: Callable[..., Any], inputs: Sequence[Inputs]) -> None:
        """Build one block for each element of `inputs`, as many at a time as there are threads."""
        self._blocks, self.n_blocks = [], 0
        self._blocks = self._run(lambda each: factory(**compute_inputs(each)), inputs)
        self.n_blocks = len(self._blocks)

    def ask(self, indices: Sequence[int], method: str, *args: Any) -> list[Any]:
        """Call one method on some blocks; a single block is called in the caller's thread."""

        def call(index: int) -> Any:
            try:
                return getattr(self._blocks[index], method)(*args)
            except Exception as error:
                error.add_note(f"raised by block {index}")
                raise

        return self._run(call, indices)

    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method on some blocks and return the sum of the answers."""
        total: Any = None
        for start in range(0, len(indices), self.n_workers):
            for value in self.ask(indices[start : start + self.n_workers], method, *args):
                total = value if total is None else total + value
        return total

    def run_tasks(
        self, function: Work, shared: Any, tasks: Sequence[Any], check: Check = do_nothing
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function once for each task, as many at a time as there are threads."""

        def work(index: int) -> Any:
            try:
                return function(shared, tasks[index])
            except Exception as error:
                error.add_note(f"raised by task {index}")
                raise

        pool = self._pool
        if pool is None:
            yield from ((index, work(index)) for index in range(len(tasks)))
            return
        for index, answer, error in _answers(pool, work, range(len(tasks)), check):
            if error is not None:
                raise error
            yield index, answer

    def close(self) -> None:
        """Drop the blocks, end the threads and restore the thread limit of BLAS."""
        if self._threads is not None and self._process == os.getpid():
            self._threads.shutdown(wait=True, cancel_futures=True)
        self._blocks, self.n_blocks = [], 0
        self._blas.close()

    def _run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        pool = self._pool
        if pool is None or len(items) == 1:
            return [work(item) for item in items]
        ended = sorted(_answers(pool, work, items), key=lambda each: each[0])
        if errors := [error for _, _, error in ended if error is not None]:
            raise errors[0]
        return [answer for _, answer, _ in ended]


def _answers(
    pool: ThreadPoolExecutor,
    work: Callable[[Any], Any],
    items: Sequence[Any],
    check: Check = do_nothing,
) -> Iterator[tuple[int, Any, BaseException | None]]:
    """Yield number, answer and error of each call as it ends; after an interrupt none is running.

    The queue can be interrupted at any instant; futures have locks that an interrupted call may
    keep, and then the threads never end. It is polled with a timeout, because a signal that comes
    just before an unlimited wait is handled only after it.
    """
    ended, begun = SimpleQueue[tuple[int, Any, BaseException | None]](), list[int]()
    done, stopped, left = list[int](), list[bool](), len(items)

    def call(number: int) -> None:
        begun.append(number)
        try:
            if not stopped:
                ended.put((number, work(items[number]), None))
        except BaseException as error:
            ended.put((number, None, error))
        finally:
            done.append(number)

    try:
        for number in range(len(items)):
            pool.submit(call, number)
        while left:
            try:
                found = ended.get(timeout=CHECK_SECONDS)
            except Empty:
                check()
                continue
            left -= 1
            yield found
    finally:
        stopped.append(True)
        while left and len(done) < len(begun):
            time.sleep(0.001)
