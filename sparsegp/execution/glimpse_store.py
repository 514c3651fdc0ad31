"""What can be seen of a run in a store of objects, see `sparsegp.execution.glimpse`."""

import json
import os
import socket
from contextlib import suppress
from typing import Any

from sparsegp.checkpoint import StorePath, is_bundle, place_of
from sparsegp.checkpoint.lease import Holder, holder_of
from sparsegp.errors import StoreError
from sparsegp.execution.glimpse import MOST_BYTES, progress_file, terminate


def _place(run: str) -> StorePath:
    place = place_of(run)
    assert isinstance(place, StorePath)  # `in_store` was asked
    return place


def _holder(place: StorePath) -> Holder | None:
    return holder_of(place / "lease")


def last_claim(place: StorePath) -> str | None:
    """Return the token of who took the lease of a run last; None if nobody did."""
    with suppress(StoreError):
        holder = _holder(place)
        return None if holder is None else holder.token
    return None


def is_mine(place: StorePath, before: str | None) -> bool:
    """Tell whether this process has taken a run, since a `last_claim`, for a run to do."""
    with suppress(StoreError):
        holder = _holder(place)
        if holder is None or holder.token == before:
            return False
        return holder.here and holder.pid == os.getpid() and not is_bundle(place / "model")
    return False


def write_progress(place: StorePath, text: str) -> None:
    """Replace the progress of a run; nothing happens where that cannot be done."""
    with suppress(StoreError):
        progress_file(place).write_bytes(text.encode())


def look(run: str, probe: bool) -> dict[str, Any]:
    """Return all that is seen of a run at this moment, as `glimpse.look` does.

    Raises
    ------
    StoreError
        If the store cannot be asked.
    """
    place, holder = _place(run), None
    if probe:
        found = _holder(place)
        holder = "" if found is None else found.owner
    return {
        "host": socket.gethostname(),
        "exists": place.exists(),
        "finished": is_bundle(place / "model"),
        "progress": _read(progress_file(place)),
        "holder": holder,
    }


def stop(run: str) -> bool:
    """Ask the driver of a run, a process of this machine, to end with a checkpoint.

    Returns
    -------
    bool
        Whether there is one that holds the lease.

    Raises
    ------
    StoreError
        If the store cannot be asked.
    """
    holder = _holder(_place(run))
    return holder is not None and holder.here and terminate(holder.pid)


def _read(place: StorePath) -> Any:
    """Return the content of a progress object, None if there is none that is whole."""
    try:
        return json.loads(place.read_bytes(MOST_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
