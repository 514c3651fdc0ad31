"""Inputs of blocks: dask collections are replaced by their values, BLAS is kept to one thread."""

import math
import sys
import threading
from contextlib import ExitStack
from typing import Any, ClassVar


def is_lazy(value: Any) -> bool:
    """Tell whether `value` is a dask collection, without importing dask."""
    if isinstance(value, type):
        return False
    graph = getattr(value, "__dask_graph__", None)
    return callable(graph) and graph() is not None


def compute_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Replace the dask collections among `inputs` by their values, computed in this thread.

    An array is filled chunk by chunk, so that it is in memory once, with one of its chunks.
    """
    lazy = {name: value for name, value in inputs.items() if is_lazy(value)}
    if not lazy:
        return dict(inputs)
    import numpy as np  # noqa: PLC0415
    from dask.base import compute  # noqa: PLC0415 - dask is loaded only where it is used

    arrays = {name: value for name, value in lazy.items() if _is_whole(value)}
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        found[name] = np.empty(array.shape, array.dtype)
        array.store(found[name], lock=False, scheduler="synchronous")
    others = {name: value for name, value in lazy.items() if name not in arrays}
    values = compute(*others.values(), scheduler="synchronous")  # type: ignore[no-untyped-call]
    return inputs | found | dict(zip(others, values, strict=True))


def _is_whole(value: Any) -> bool:
    """Tell whether `value` is a dask array of known sizes with more than one chunk."""
    arrays: Any = sys.modules.get("dask.array")  # loaded where there is one
    is_array = arrays is not None and isinstance(value, arrays.Array)
    return is_array and value.npartitions > 1 and all(map(math.isfinite, value.shape))


class SingleThreadedBLAS:
    """Keeps BLAS and OpenMP of this process at one thread until `restore`.

    Blocks run side by side, so threads inside BLAS would compete with them. The limit holds for
    the libraries that are loaded when `limit` is called: call it again after imports.

    The number of threads belongs to the process. Several holders, in whatever order they come and
    go, share one limit; the last to restore gives back what the first one found. (Where another
    thread has set a limit that still holds, threadpoolctl leaves OpenBLAS as it is.)
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _holders: ClassVar[set[int]] = set()
    _limits: ClassVar[ExitStack] = ExitStack()

    def limit(self) -> None:
        """Limit the libraries that are loaded now."""
        import numpy  # noqa: F401, PLC0415 - loads the library to be limited
        from threadpoolctl import threadpool_info, threadpool_limits  # noqa: PLC0415

        with self._lock:
            self._holders.add(id(self))
            if any(library["num_threads"] != 1 for library in threadpool_info()):
                self._limits.enter_context(threadpool_limits(limits=1))

    def restore(self) -> None:
        """Give every library the number of threads it had before, unless others hold the limit."""
        with self._lock:
            self._holders.discard(id(self))
            if not self._holders:
                self._limits.close()


def limit_this_thread() -> None:
    """Limit the libraries that count threads for each thread that calls them, as OpenMP does."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    threadpool_limits(limits=1)
