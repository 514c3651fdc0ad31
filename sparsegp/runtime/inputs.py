"""Inputs of blocks: Dask collections travel with no more than their tasks and become values."""

import math
import sys
from typing import Any


def pack_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs to be pickled: lazy ones with only the tasks that they need."""
    lazy = {name: value for name, value in inputs.items() if is_lazy(value)}
    if not lazy or _futures(lazy):  # to cull a graph would lose its references to persisted data
        return inputs
    from dask.base import optimize  # noqa: PLC0415 - dask is loaded only where it is used

    return inputs | dict(zip(lazy, optimize(*lazy.values()), strict=True))  # type: ignore[no-untyped-call]


def compute_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Replace the Dask collections among `inputs` by their values, computed in this thread.

    An array is filled chunk by chunk, so that it is in memory once, with one of its chunks.
    """
    lazy = {name: value for name, value in inputs.items() if is_lazy(value)}
    if not lazy:
        return inputs
    if _futures(lazy):
        return inputs | _fetched(lazy)
    import numpy as np  # noqa: PLC0415
    from dask.base import compute  # noqa: PLC0415 - dask is loaded only where it is used
    from dask.local import get_sync  # noqa: PLC0415 - by its name, distributed would be loaded

    arrays = {name: value for name, value in lazy.items() if _is_whole(value)}
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        found[name] = np.empty(array.shape, array.dtype)
        array.store(found[name], lock=False, scheduler=get_sync)
    others = {name: value for name, value in lazy.items() if name not in arrays}
    values = compute(*others.values(), scheduler=get_sync)  # type: ignore[no-untyped-call]
    return inputs | found | dict(zip(others, values, strict=True))


def is_lazy(value: Any) -> bool:
    """Tell whether `value` is a Dask collection, without importing Dask."""
    if isinstance(value, type):
        return False
    graph = getattr(value, "__dask_graph__", None)
    return callable(graph) and graph() is not None


def _is_whole(value: Any) -> bool:
    """Tell whether `value` is a Dask array of known sizes with more than one chunk."""
    arrays: Any = sys.modules.get("dask.array")  # loaded where there is one
    is_array = arrays is not None and isinstance(value, arrays.Array)
    return is_array and value.npartitions > 1 and all(map(math.isfinite, value.shape))


def _futures(lazy: dict[str, Any]) -> bool:
    """Tell whether collections refer to data that workers of a cluster hold (persisted)."""
    if "distributed" not in sys.modules:  # it is loaded where there is such data
        return False
    from distributed import futures_of  # noqa: PLC0415

    return bool(futures_of(list(lazy.values())))  # type: ignore[no-untyped-call]


def _fetched(lazy: dict[str, Any]) -> dict[str, Any]:
    """Return the values of persisted collections, on a worker."""
    from distributed import get_client, get_worker  # noqa: PLC0415

    here = {"workers": [get_worker().address], "allow_other_workers": True}
    client: Any = get_client()
    futures = client.compute(list(lazy.values()), **here)
    return {name: future.result() for name, future in zip(lazy, futures, strict=True)}
