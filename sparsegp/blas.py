"""One thread for BLAS while results are computed, in memory that is used again.

A matrix product that BLAS divides among threads has other last bits than on one thread, and where
blocks run side by side its threads only compete with them. The number of threads belongs to the
process, so whatever needs one thread asks for it here: however many ask, in whatever order they
come and go, the first sets the limit and the last restores what was found.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

KEPT = 2**25 - 2**16
"""Bytes of the largest array that is asked for to keep the memory of freed ones: a little less than
32 MiB, the most that counts."""


class _Limit:
    """The limit on the threads of BLAS, and the threads of Python that need it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: list[int] = []
        self.limits: Any = None

    def hold(self, thread: int) -> None:
        with self.lock:
            if not self.holders:
                self.limits = _libraries("blas").limit(limits=1)
                _leave_control()
            self.holders.append(thread)

    def release(self, thread: int) -> None:
        with self.lock:
            self.holders.remove(thread)
            self._restore_if_last()

    def after_fork(self) -> None:
        """Forget, in the child, the threads that only the parent has."""
        self.lock = threading.Lock()
        if self.holders:
            self.holders = [holder for holder in self.holders if holder == threading.get_ident()]
            self._restore_if_last()

    def _restore_if_last(self) -> None:
        if not self.holders:
            self.limits.restore_original_limits()
            _leave_control()


_LIMIT = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.after_fork)


@cache
def _libraries(kind: str) -> ThreadpoolController:
    """Find the libraries of one kind that NumPy and SciPy compute with."""
    import scipy.linalg  # noqa: F401, PLC0415 - it loads, as numpy does, what is looked for

    return ThreadpoolController().select(user_api=kind)


def _leave_control() -> None:
    """Let any thread change the limit next: threadpoolctl keeps that to the one that began."""
    with _libraries("blas").limit(limits=None):
        pass


@cache
def keep_freed_memory() -> None:
    """Let the C library use the memory of freed arrays again, as glibc does once a large one was.

    It would give that of arrays of a few megabytes back to the system, which clears every page
    anew. That can take longer than what is computed in them.
    """
    np.empty(KEPT, np.uint8)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS at one thread within the context, and OpenMP, which counts for each caller.

    A limit that another thread has set by threadpoolctl itself, and still holds, stays as it is.
    """
    keep_freed_memory()
    thread = threading.get_ident()
    with _libraries("openmp").limit(limits=1):
        _LIMIT.hold(thread)
        try:
            yield
        finally:
            _LIMIT.release(thread)


def limit_this_thread() -> None:
    """Keep OpenMP at one thread in calls from this thread, for as long as it lives."""
    _libraries("openmp").limit(limits=1)
