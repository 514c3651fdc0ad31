"""A large value for many tasks of a dask cluster that outlives the workers that hold it.

What a client scatters is gone with the last worker that holds it, and dask drops all copies but one
after a while; tasks that need it are then cancelled. A value that tasks make is made again.
"""

import pickle
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

PART_BYTES = 4 * 2**20
"""Dask warns of tasks of more than 10 MB."""


def share(client: Any, value: Any, **where: Any) -> Any:
    """Return a future of a value, to be an argument of tasks; returns at once.

    Parameters
    ----------
    client : distributed.Client
    value : object
        Picklable. The scheduler keeps its bytes for as long as the future, or what depends on it,
        is wanted.
    **where
        Of `Client.submit`: on which workers.
    """
    packed = cloudpickle.dumps(value)
    parts = [
        client.submit(_same, packed[start : start + PART_BYTES], pure=False, **where)
        for start in range(0, len(packed), PART_BYTES)
    ]
    return client.submit(_joined, parts, pure=False, **where)


def _same(part: bytes) -> bytes:
    return part


def _joined(parts: list[bytes]) -> Any:
    return pickle.loads(b"".join(parts))
