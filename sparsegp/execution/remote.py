"""The driver's side of one host: calls with a limit, and one exception for every way to lose it."""

import asyncio
import contextlib
import pickle
import time
from collections.abc import Iterable
from concurrent.futures import CancelledError as ThreadCancelledError
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from distributed.actor import Actor, ProxyRPC
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from sparsegp.errors import ClusterError
from sparsegp.execution.base import name_block
from sparsegp.execution.host import Answer, Host
from sparsegp.execution.limits import Limits

RETIRE_ATTEMPTS = 20
"""How often a retirement is asked for, a little later each time."""

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
        Whether the worker lives, but is busy with a call that it does not end in time.
    silent : bool
        Whether the worker may still exist, but gives no sign of life.
    """

    def __init__(self, reason: str, hung: bool = False, silent: bool = False) -> None:
        super().__init__(reason)
        self.hung, self.silent = hung, silent


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
    return _ask_scheduler(client, "ncores")


def running_workers(client: Any) -> set[str]:
    """Ask the scheduler for the addresses of those workers that begin new work.

    Others are paused, or about to close.

    Raises
    ------
    ClusterError
        If the scheduler does not answer.
    """
    return _ask_scheduler(client, "ncores_running")


def _ask_scheduler(client: Any, question: str) -> set[str]:
    try:
        ask = getattr(client.scheduler, question)
        found = client.sync(ask, callback_timeout=SCHEDULER_SECONDS)
    except (*LOST, AttributeError, ValueError) as error:
        raise ClusterError(
            f"the dask scheduler does not answer any more ({error!r}); start the cluster again "
            "and resume from the last checkpoint"
        ) from error
    return set(found)


def answering(client: Any, addresses: Iterable[str], seconds: float) -> set[str]:
    """Return which workers give a sign of life in time, asked the way that blocks are called.

    A worker answers while its blocks compute, as that is another thread's affair.
    """

    async def knock(address: str) -> str | None:
        direct = client.direct_to_workers
        worker: Any = client.rpc(address) if direct else ProxyRPC(client.scheduler, address)  # type: ignore[no-untyped-call]
        with contextlib.suppress(Exception):
            await asyncio.wait_for(worker.echo(data=0), seconds)
            return address
        return None

    async def knock_everywhere() -> list[str | None]:
        return await asyncio.gather(*map(knock, addresses))

    try:
        answers = client.sync(knock_everywhere, callback_timeout=2 * seconds)
    except LOST:
        return set()
    return {address for address in answers if address is not None}


def retire(client: Any, address: str) -> None:
    """Have the scheduler retire a worker, as soon as it holds no actor; returns at once."""

    async def ask() -> None:
        with contextlib.suppress(Exception):  # whoever wants it away will ask again
            for attempt in range(1, RETIRE_ATTEMPTS + 1):
                await asyncio.sleep(0.05 * attempt)
                if await client.scheduler.retire_workers(workers=[address], close_workers=True):
                    return

    client.loop.add_callback(ask)


class RemoteHost:
    """A host on the worker at `address`.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    address : str
        The worker to live on.
    limits : Limits
        A host that takes longer for a call, or gives no sign of life for so long, counts as lost.

    Raises
    ------
    HostLostError
        If the worker goes away meanwhile.
    ClusterError
        If the worker cannot import this package, or the scheduler is gone.
    """

    def __init__(self, client: Any, address: str, limits: Limits) -> None:
        self.address = address
        self._client = client
        self._limits = limits
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
        with contextlib.suppress(Exception):  # not release: the actor refers to its future too
            self._client.cancel([self._future], force=True)

    def _deadline(self) -> float:
        return time.monotonic() + self._limits.call_seconds

    def _collect(self, call: Call) -> Any:
        heard = time.monotonic()
        while True:
            left = max(call.deadline - time.monotonic(), GRACE_SECONDS)
            try:
                return _unpack(call.future.result(timeout=min(left, self._limits.pulse_seconds)))
            except TimeoutError:
                heard = self._look(call, heard)
            except LOST as error:
                raise HostLostError(f"{call.operation}: {error}") from error

    def _look(self, call: Call, heard: float) -> float:
        """Return when the worker last gave a sign of life.

        Raises
        ------
        HostLostError
            If it is gone, if that was too long ago, or if the call takes too long.
        """
        if self.address not in living_workers(self._client):
            raise HostLostError(f"{call.operation}: the worker is gone") from None
        if time.monotonic() >= call.deadline:
            reason = f"{call.operation} took longer than {self._limits.call_seconds:g} s"
            raise HostLostError(reason, hung=True) from None
        if answering(self._client, [self.address], self._limits.pulse_seconds):
            return time.monotonic()
        silence = time.monotonic() - heard
        if silence >= self._limits.silent_seconds:
            reason = f"{call.operation}: no sign of life for {silence:.0f} s"
            raise HostLostError(reason, silent=True) from None
        return heard


def _unpack(answer: Any) -> Any:
    return pickle.loads(answer) if isinstance(answer, bytes) else answer


def raise_first(answers: dict[RemoteHost, Answer], doing: str) -> None:
    """Raise what the first block raised, if any did."""
    failed = [(answer.index, host, answer) for host, answer in answers.items() if answer.error]
    if not failed:
        return
    index, host, answer = min(failed, key=lambda item: item[0])
    assert answer.error is not None
    name_block(answer.error, index, doing, f" on worker {host.address}")
    raise answer.error
