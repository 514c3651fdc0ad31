"""Waiting for workers of Dask that may be lost: every wait ends."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import Any

import distributed

from sparsegp.errors import ClusterError

LOST = (OSError, RuntimeError, CancelledError, distributed.KilledWorker)
"""What Dask raises where a worker, a task or the connection to it is gone."""
PULSE_SECONDS = 2.0  # between two looks at workers that are waited for
SCHEDULER_SECONDS = 10.0  # that the scheduler may take to name its workers


class WorkerLostError(Exception):
    """A worker that does not answer any more."""


def answer_of(
    future: Any,
    look: Callable[[], Mapping[str, Any] | None],
    silent_seconds: float,
    call_seconds: float,
) -> Any:
    """Return what a future brings.

    Parameters
    ----------
    future : Future
    look : callable
        Returns what the scheduler knows of the worker; None if it is gone.
    silent_seconds, call_seconds : float
        That may pass without a heartbeat, and without an answer.

    Raises
    ------
    WorkerLostError
        If the worker is lost.
    """
    began = heard = time.monotonic()
    last_seen = None
    while True:
        try:
            return future.result(timeout=PULSE_SECONDS)
        except TimeoutError:
            worker, now = look(), time.monotonic()
        except LOST as error:
            raise WorkerLostError(str(error)) from error
        if worker is None:
            raise WorkerLostError("it is gone")
        if worker["last_seen"] != last_seen:
            last_seen, heard = worker["last_seen"], now
        if now - heard > silent_seconds:
            raise WorkerLostError(f"no heartbeat for {now - heard:.0f} s")
        if now - began > call_seconds:
            raise WorkerLostError(f"a call took more than {now - began:.0f} s")


def known_workers(client: Any) -> dict[str, dict[str, Any]]:
    """Ask the scheduler of a client what it knows of its workers, by their addresses.

    Raises
    ------
    ClusterError
        If it does not answer.
    """
    try:
        found = client.sync(client.scheduler.identity, callback_timeout=SCHEDULER_SECONDS)
    except (*LOST, AttributeError, ValueError) as error:  # it is gone, or the client is closed
        raise ClusterError(
            f"the dask scheduler does not answer any more ({error!r}); start the cluster again "
            "and resume from the last checkpoint"
        ) from error
    return dict(found["workers"])
