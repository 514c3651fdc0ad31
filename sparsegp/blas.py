"""Limit BLAS to one thread while results are computed, and reuse freed memory.

A matrix product on several BLAS threads differs in its last bits from one on a single thread, and
where blocks run in parallel, BLAS threads only compete with them. The number of threads belongs to
the process, so all code that needs a single one requests it here: the first request sets the limit,
and the end of the last one restores the previous number, whatever order they begin and end in.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

MMAP_THRESHOLD_BYTES = 2**25 - 2**16
"""Array size in bytes, just below 32 MiB: the limit up to which glibc keeps freed memory."""


class _Limit:
    """Limit on the number of BLAS threads, and the Python threads that hold it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: list[int] = []
        self.limits: Any = None

    @contextmanager
    def held(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self.lock:
            if not self.holders:
                self.limits = _libraries("blas").limit(limits=1)
                _leave_control()
            self.holders.append(thread)
        try:
            yield
        finally:
            with self.lock:
                self.holders.remove(thread)
                self._restore_if_last()

    def after_fork(self) -> None:
        """Forget, in the child process, the threads that exist only in the parent."""
        self.lock = threading.Lock()
        if self.holders:
            self.holders = [holder for holder in self.holders if holder == threading.get_ident()]
            self._restore_if_last()

    def _restore_if_last(self) -> None:
        if not self.holders:
            self.limits.restore_original_limits()
            _leave_control()


_LIMIT = _Limit()
os.register_at_fork(after_in_child=_LIMIT.after_fork)


@cache
def _libraries(kind: str) -> ThreadpoolController:
    """Return a controller of the libraries of one kind that NumPy and SciPy use."""
    import scipy.linalg  # noqa: F401, PLC0415 - loads its libraries, as numpy has done

    return ThreadpoolController().select(user_api=kind)


def _leave_control() -> None:
    """Let any thread change the limit next; threadpoolctl reserves this for the first thread."""
    with _libraries("blas").limit(limits=None):
        pass


@cache
def keep_freed_memory() -> None:
    """Make the C library reuse the memory of freed arrays, as glibc does after freeing a large one.

    Otherwise it returns arrays of a few megabytes to the system, which clears every page before
    allocating it again. That can take longer than the computation.
    """
    np.empty(MMAP_THRESHOLD_BYTES, np.uint8)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS, and OpenMP in the calling thread, to one thread within the context.

    A limit that another thread has set directly with threadpoolctl, and still holds, is unchanged.
    """
    keep_freed_memory()
    with _libraries("openmp").limit(limits=1), _LIMIT.held():
        yield


def limit_this_thread() -> None:
    """Limit OpenMP to one thread in calls from this Python thread, until it ends."""
    _libraries("openmp").limit(limits=1)
