"""Blocks in the workers of a dask cluster, rebuilt elsewhere when a worker is lost.

One actor per worker (`Host`) holds all blocks of that worker, so a round costs one call per worker.
Nothing restarts a lost actor: its blocks are built again on living workers, brought to the present
by the driver's `recovery` messages, and asked again. Every wait has a limit.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sparsegp.errors import ClusterError
from sparsegp.execution.base import Part, Runtime, check_index, check_parts, name_block
from sparsegp.execution.clusters import Connection, connect, leave, start_local
from sparsegp.execution.host import Answer, pack, pack_part
from sparsegp.execution.remote import HostLostError, RemoteHost, living_workers
from sparsegp.execution.tasks import run_on_cluster

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """How long to wait and how much to bear.

    Parameters
    ----------
    call_seconds : float
        A worker that takes longer for one call counts as lost.
    rejoin_seconds : float
        How long to wait for a replacement of a lost worker; three times as long if none is left.
    max_losses : int
        Losses of workers in all, after which a run is given up.
    max_losses_in_a_row : int
        Losses while the same block was waited for, without an answer between them.
    """

    call_seconds: float = 600.0
    rejoin_seconds: float = 10.0
    max_losses: int = 100
    max_losses_in_a_row: int = 3


@dataclass(frozen=True)
class Loss:
    """A lost host, to be reported when its blocks live again."""

    address: str
    reason: str
    blocks: tuple[int, ...]
    moment: float


class DaskRuntime(Runtime):
    """Runs blocks in the workers of a dask cluster.

    Parameters
    ----------
    client : distributed.Client
        A connection that the caller owns and closes; calls are fastest with
        ``direct_to_workers=True``.
    limits : Limits, optional
        Waiting times and numbers of losses.
    """

    def __init__(self, client: Any, limits: Limits | None = None) -> None:
        super().__init__()
        self.limits = limits or Limits()
        self._client = client
        self._close: Callable[[], None] = leave
        self._replenish: Callable[[int], None] = leave
        self._place = f"dask cluster at {client.scheduler.address}"
        self._lock = threading.RLock()
        self._factory: Callable[..., Any] = leave
        self._parts: Sequence[Part] = ()
        self._hosts: dict[str, RemoteHost] = {}
        self._home: dict[int, RemoteHost] = {}
        self._present: set[int] = set()
        self._expected = max(1, len(living_workers(client)))
        self._avoided: set[str] = set()
        self._hung: set[str] = set()
        self._losses: list[Loss] = []
        self._n_losses = 0
        self._in_a_row: Counter[int] = Counter()

    @classmethod
    def local(cls, n_workers: int, limits: Limits | None = None, *, timeout: float = 60.0) -> Self:
        """Start worker processes on this machine; `close` ends them.

        Raises
        ------
        SettingsError
            If `n_workers` is less than 1.
        ClusterError
            If they do not start within `timeout` seconds.
        """
        runtime = cls._own(start_local(n_workers, timeout), limits)
        runtime._place = "worker processes of this machine"
        return runtime

    @classmethod
    def connect(
        cls,
        address: str | None = None,
        scheduler_file: str | Path | None = None,
        limits: Limits | None = None,
        *,
        n_workers: int = 1,
        timeout: float = 30.0,
    ) -> Self:
        """Connect to a running scheduler and wait until it has `n_workers` workers.

        Raises
        ------
        SettingsError
            If not exactly one of `address` and `scheduler_file` is given.
        ClusterError
            If the file is missing, or scheduler or workers do not answer within `timeout` seconds.
        """
        return cls._own(connect(address, scheduler_file, n_workers, timeout), limits)

    @classmethod
    def _own(cls, connection: Connection, limits: Limits | None) -> Self:
        try:
            runtime = cls(connection.client, limits)
        except BaseException:
            connection.close()
            raise
        runtime._close, runtime._replenish = connection.close, connection.replenish
        return runtime

    @property
    def n_blocks(self) -> int:
        """Number of blocks built."""
        return len(self._parts)

    @property
    def n_workers(self) -> int:
        """Number of workers, as last seen."""
        return self._expected

    def describe(self) -> str:
        """Say which cluster this is and how many workers it has."""
        return f"{self._place}, {self._expected} worker{'s' if self._expected > 1 else ''}"

    def build(self, factory: Callable[..., Any], parts: Sequence[Part]) -> None:
        """Build one block from each part, on workers dealt in order and evenly."""
        check_parts(parts)
        with self._lock:
            self._parts = ()
            self._home.clear()
            self._present.clear()
            self._in_a_row.clear()
            self._each_host(dict.fromkeys(self._hosts.values(), ("reset",)))
            self._factory, self._parts = factory, tuple(parts)
            try:
                self._settle(replay=False)
            except BaseException:
                self._parts = ()
                self._home.clear()
                raise

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call one method on every block and return the answers in block order."""
        answers = self._ask(range(self.n_blocks), method, args)
        return [answers[index] for index in range(self.n_blocks)]

    def call_block(self, index: int, method: str, *args: Any) -> Any:
        """Call one method on one block."""
        check_index(index, self.n_blocks)
        return self._ask([index], method, args)[index]

    def run_tasks(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function once for each task, as dask places them on the workers."""
        yield from run_on_cluster(
            self._client, function, shared, tasks, patience=3 * self.limits.rejoin_seconds
        )

    def close(self) -> None:
        """Drop the blocks; end what this runtime started."""
        for host in self._hosts.values():
            host.release()
        self._hosts.clear()
        self._home.clear()
        self._present.clear()
        self._parts = ()
        close, self._close = self._close, leave
        close()

    def _ask(self, indices: Iterable[int], method: str, args: tuple[Any, ...]) -> dict[int, Any]:
        """Get the answers of some blocks, through as many losses as it takes."""
        packed = pack((method, args))
        answers: dict[int, Any] = {}
        with self._lock:
            while any(index not in answers for index in indices):
                for index in self._settle(replay=True):
                    answers.pop(index, None)  # its successor has not heard the message
                missing = [index for index in indices if index not in answers]
                answers |= self._round(packed, method, missing)
            for index in indices:
                self._in_a_row.pop(index, None)
            self._report()
        return answers

    def _round(
        self, packed: bytes, method: str, indices: Iterable[int], keep: bool = True
    ) -> dict[int, Any]:
        """Call some blocks once, all of a host in one call; blocks of lost hosts are left out."""
        held: dict[RemoteHost, list[int]] = {}
        for index in indices:
            if index in self._home:
                held.setdefault(self._home[index], []).append(index)
        answers = self._each_host({host: ("call", packed, held[host], keep) for host in held})
        _raise_first(answers, method)
        return {
            index: value
            for host, answer in answers.items()
            for index, value in zip(held[host], answer.values, strict=True)
        }

    def _each_host(self, requests: dict[RemoteHost, tuple[Any, ...]]) -> dict[RemoteHost, Answer]:
        """Send each host its request and wait for the answers of those that survive."""
        calls, answers = [], {}
        for host, request in requests.items():
            try:
                calls.append((host, host.send(*request)))
            except HostLostError as loss:
                self._lose(host, loss)
        for host, call in calls:
            try:
                answers[host] = host.collect(call)
            except HostLostError as loss:
                self._lose(host, loss)
        return answers

    def _settle(self, replay: bool) -> set[int]:
        """Bring every block to the present, on a worker that lives; return those rebuilt."""
        rebuilt: set[int] = set()
        while absent := [part.index for part in self._parts if part.index not in self._present]:
            rebuilt.update(absent)
            self._find_homes([index for index in absent if index not in self._home])
            built = self._build_at_home([index for index in absent if index in self._home])
            for method, args in self.recovery() if replay else ():
                self._round(pack((method, args)), method, built, keep=False)
            self._present.update(index for index in built if index in self._home)
        self._report()
        return rebuilt

    def _build_at_home(self, indices: Sequence[int]) -> list[int]:
        """Build blocks, one at a time on each host so that one part is in flight for each."""
        queues: dict[RemoteHost, deque[int]] = {}
        for index in indices:
            queues.setdefault(self._home[index], deque()).append(index)
        built: list[int] = []
        while queues:
            answers = self._each_host(
                {host: ("build", queue[0], self._pack(queue[0])) for host, queue in queues.items()}
            )
            _raise_first(answers, "its construction")
            built += [queues[host].popleft() for host in answers]
            queues = {host: queues[host] for host in answers if queues[host]}
        return [index for index in built if index in self._home]

    def _pack(self, index: int) -> bytes:
        return pack_part(self._factory, self._parts[index].inputs)

    def _find_homes(self, homeless: Sequence[int]) -> None:
        """Deal blocks evenly and in order at first; later to the hosts that hold the fewest."""
        while homeless:
            hosts = [host for host in map(self._host, self._find_workers()) if host is not None]
            if not hosts:
                continue
            if not self._home:
                n_hosts = min(len(hosts), len(homeless))
                for order, index in enumerate(homeless):
                    self._home[index] = hosts[order * n_hosts // len(homeless)]
                return
            loads = Counter(dict.fromkeys(hosts, 0))
            loads.update(host for host in self._home.values() if host in loads)
            for index in homeless:
                self._home[index] = min(hosts, key=lambda host: loads[host])
                loads[self._home[index]] += 1
            return

    def _host(self, address: str) -> RemoteHost | None:
        if address not in self._hosts:
            try:
                host = RemoteHost(self._client, address, self.limits.call_seconds)
            except HostLostError as loss:
                self._count_loss(address, loss, ())
                return None
            self._hosts[address] = host
        return self._hosts[address]

    def _find_workers(self) -> list[str]:
        """Return living workers, in order, after waiting for replacements of lost ones."""
        patience = self.limits.rejoin_seconds
        start = time.monotonic()
        replenished = False
        while True:
            living = living_workers(self._client) - self._hung
            waited = time.monotonic() - start
            usable = living - self._avoided
            if waited >= patience and not usable:
                usable = living  # out of contact once, but the scheduler still has them
            if len(usable) >= self._expected or (usable and waited >= patience):
                self._expected = len(usable)
                return sorted(usable)
            if waited >= patience / 2 and not replenished:
                self._replenish(self._expected - len(usable))
                replenished = True
            if waited >= 3 * patience:
                seen = self._losses[-1].reason if self._losses else "none was ever there"
                raise ClusterError(
                    f"no worker is left and none joined within {waited:.0f} s ({seen}); "
                    "start workers and resume from the last checkpoint"
                )
            time.sleep(0.05)

    def _lose(self, host: RemoteHost, loss: HostLostError) -> None:
        """Forget a host, so that its blocks will be built elsewhere."""
        self._hosts.pop(host.address, None)
        host.release()
        blocks = tuple(index for index, home in self._home.items() if home is host)
        for index in blocks:
            del self._home[index]
            self._present.discard(index)
        self._count_loss(host.address, loss, blocks)

    def _count_loss(self, address: str, loss: HostLostError, blocks: tuple[int, ...]) -> None:
        (self._hung if loss.hung else self._avoided).add(address)
        self._losses.append(Loss(address, str(loss), blocks, time.monotonic()))
        self._n_losses += 1
        self._in_a_row.update(blocks)
        worst = max(blocks, key=self._in_a_row.__getitem__, default=None)
        if worst is not None and self._in_a_row[worst] >= self.limits.max_losses_in_a_row:
            raise ClusterError(
                f"block {worst} lost its worker {self._in_a_row[worst]} times without an answer "
                f"(last: {loss}); check the memory of the workers, use more and smaller blocks"
            )
        if self._n_losses >= self.limits.max_losses:
            raise ClusterError(
                f"{self._n_losses} workers were lost (last: {loss}); check the cluster and resume "
                "from the last checkpoint"
            )

    def _report(self) -> None:
        """Log the losses that are mended, one line each."""
        for loss in self._losses:
            logger.warning(
                "worker %s lost (%s); blocks %s rebuilt, %.1f s lost",
                loss.address,
                loss.reason,
                list(loss.blocks),
                time.monotonic() - loss.moment,
            )
        self._losses.clear()


def _raise_first(answers: dict[RemoteHost, Answer], doing: str) -> None:
    """Raise what the first block raised, if any did."""
    failed = [(answer.index, host, answer) for host, answer in answers.items() if answer.error]
    if not failed:
        return
    index, host, answer = min(failed, key=lambda item: item[0])
    assert answer.error is not None
    name_block(answer.error, index, doing, f" on worker {host.address}")
    raise answer.error
