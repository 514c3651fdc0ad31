"""The driver's side of one host: calls with a limit, and one exception for every way to lose it."""

import contextlib
import pickle
import time
from concurrent.futures import CancelledError as ThreadCancelledError
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from distributed.actor import Actor
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from sparsegp.errors import ClusterError
from sparsegp.execution.host import Answer, Host

POLL_SECONDS = 5.0
"""How often a silent call asks the scheduler whether its worker still exists."""

GRACE_SECONDS = 0.1
"""How long to wait for an answer that may have come while another host was waited for."""

SCHEDULER_SECONDS = 10.0
"""How long the scheduler may take to name its workers."""

LOST = (OSError, RuntimeError, KilledWorker, FutureCancelledError, ThreadCancelledError)
"""What the transport raises: no contact, closed connections, lost actors, cancelled futures."""


class HostLostError(Exception):
    """A host that does not answer any more.

    Parameters
    ----------
    reason : str
        What was seen.
    hung : bool
        Whether the worker may still exist but does not answer in time.
    """

    def __init__(self, reason: str, hung: bool = False) -> None:
        super().__init__(reason)
        self.hung = hung


@dataclass(frozen=True)
class Call:
    """A call under way, and the moment after which its host counts as lost."""

    future: Any
    operation: str
    deadline: float


def living_workers(client: Any) -> set[str]:
    """Ask the scheduler for the addresses of its workers.

    Raises
    ------
    ClusterError
        If the scheduler does not answer.
    """
    try:
        found = client.sync(client.scheduler.ncores, callback_timeout=SCHEDULER_SECONDS)
    except (*LOST, AttributeError, ValueError) as error:
        raise ClusterError(
            f"the dask scheduler does not answer any more ({error!r}); start the cluster again "
            "and resume from the last checkpoint"
        ) from error
    return set(found)


class RemoteHost:
    """A host on the worker at `address`.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    address : str
        The worker to live on.
    call_seconds : float
        A call that takes longer counts as lost.

    Raises
    ------
    HostLostError
        If the worker goes away meanwhile.
    ClusterError
        If the worker cannot import this package, or the scheduler is gone.
    """

    def __init__(self, client: Any, address: str, call_seconds: float) -> None:
        self.address = address
        self._client = client
        self._call_seconds = call_seconds
        try:
            self._future = client.submit(
                Host,
                key=f"sparsegp-host-{uuid4().hex}",
                workers=[address],
                allow_other_workers=False,
                pure=False,
                actor=True,
            )
        except LOST as error:
            raise HostLostError(f"no host: {error}") from error
        try:
            self._collect(Call(self._future, "start", self._deadline()))
            with client.as_current():  # the actor belongs to this client, not to the default one
                self._actor = Actor(Host, address, self._future.key)  # type: ignore[no-untyped-call]
        except HostLostError:
            self.release()
            raise
        except Exception as error:
            self.release()
            raise ClusterError(
                f"worker {address} cannot hold row blocks ({error!r}); install the same version "
                "of sparsegp and its requirements on all workers"
            ) from error

    def send(self, operation: str, *args: Any) -> Call:
        """Begin an operation of the host.

        Raises
        ------
        HostLostError
            If the host is known to be lost.
        """
        try:
            future = getattr(self._actor, operation)(*args)
        except LOST as error:
            raise HostLostError(f"{operation}: {error}") from error
        return Call(future, operation, self._deadline())

    def collect(self, call: Call) -> Answer:
        """Wait for the answer to a call.

        Raises
        ------
        HostLostError
            If the host was lost, or did not answer in time.
        ClusterError
            If the scheduler is gone.
        """
        answer = self._collect(call)
        return answer if isinstance(answer, Answer) else Answer([])

    def release(self) -> None:
        """Let the worker drop the host, if it can still be reached."""
        with contextlib.suppress(*LOST):
            self._future.release()

    def _deadline(self) -> float:
        return time.monotonic() + self._call_seconds

    def _collect(self, call: Call) -> Any:
        while True:
            left = max(call.deadline - time.monotonic(), GRACE_SECONDS)
            try:
                return _unpack(call.future.result(timeout=min(left, POLL_SECONDS)))
            except TimeoutError:
                if self.address not in living_workers(self._client):
                    raise HostLostError(f"{call.operation}: the worker is gone") from None
                if time.monotonic() >= call.deadline:
                    reason = f"{call.operation} took longer than {self._call_seconds:g} s"
                    raise HostLostError(reason, hung=True) from None
            except LOST as error:
                raise HostLostError(f"{call.operation}: {error}") from error


def _unpack(answer: Any) -> Any:
    return pickle.loads(answer) if isinstance(answer, bytes) else answer
