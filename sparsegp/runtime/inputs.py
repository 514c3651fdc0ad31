"""Inputs of blocks: Dask collections travel with no more than their tasks and become values."""

import math
import sys
from typing import Any

import numpy as np


def pack_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs to be pickled: lazy ones with only the tasks that they need."""
    from dask.base import optimize  # noqa: PLC0415 - dask is loaded only where it is used

    lazy = _lazy(inputs)
    if not lazy or _is_persisted(lazy):  # to cull a graph would lose its references to such data
        return inputs
    return inputs | dict(zip(lazy, optimize(*lazy.values()), strict=True))  # type: ignore[no-untyped-call]


def compute_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
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


def _lazy(inputs: dict[str, Any]) -> dict[str, Any]:
    from dask.base import is_dask_collection  # noqa: PLC0415 - dask is loaded only where it is used

    return {name: value for name, value in inputs.items() if is_dask_collection(value)}


def _is_persisted(lazy: dict[str, Any]) -> bool:
    """Tell whether collections refer to data that workers of a cluster hold."""
    if "distributed" not in sys.modules:  # it is loaded where there is such data
        return False
    from distributed import futures_of  # noqa: PLC0415

    return bool(futures_of(list(lazy.values())))  # type: ignore[no-untyped-call]
