"""Blocks in the workers of a dask cluster, rebuilt elsewhere when a worker is lost.

One actor per worker (`Host`) holds all blocks of that worker, so a round costs one call per worker.
Nothing restarts a lost actor: its blocks are built again on living workers, brought to the present
by the driver's `recovery` messages, and asked again. In the same way blocks move between two
rounds: away from a worker that is to leave, and to workers that have come. Every wait has a limit.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import distributed

from sparsegp.errors import ClusterError
from sparsegp.execution.base import Check, Part, Runtime, Work, check_index, check_parts, nothing
from sparsegp.execution.clusters import Connection, connect, leave, start_local
from sparsegp.execution.host import Answer, pack, pack_part
from sparsegp.execution.limits import HOSTS_AT_A_TIME, Limits
from sparsegp.execution.memory import Room
from sparsegp.execution.remote import HostLostError, RemoteHost, raise_first
from sparsegp.execution.roster import Roster
from sparsegp.execution.tasks import computing, run_on_cluster

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often to look, between two rounds, for workers that have come."""

SETTLED = 10.0
"""Blocks move to workers that have come when so many times as long has passed as blocks took to be
built last, so that a run spends a tenth of its time on moves at most."""


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
        self._client = client
        self._roster = Roster(client, limits or Limits())
        self._close: Callable[[], None] = leave
        self._place = f"dask cluster at {client.scheduler.address}"
        self._lock = threading.RLock()
        self._factory: Callable[..., Any] = leave
        self._parts: Sequence[Part] = ()
        self._hosts: dict[str, RemoteHost] = {}
        self._home: dict[int, RemoteHost] = {}
        self._present: set[int] = set()
        self._next_look = self._next_move = 0.0

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
        runtime = cls.own(start_local(n_workers, timeout), limits)
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
        return cls.own(connect(address, scheduler_file, n_workers, timeout), limits)

    @classmethod
    def own(cls, connection: Connection, limits: Limits | None = None) -> Self:
        """Take over a connection; `close` ends it."""
        try:
            runtime = cls(connection.client, limits)
        except BaseException:
            connection.close()
            raise
        runtime._close, runtime._roster.replenish = connection.close, connection.replenish
        return runtime

    @property
    def limits(self) -> Limits:
        """How long to wait and how much to bear."""
        return self._roster.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._roster.limits = limits

    @property
    def n_blocks(self) -> int:
        """Number of blocks built."""
        return len(self._parts)

    @property
    def n_workers(self) -> int:
        """Number of workers, as last seen."""
        return self._roster.expected

    def rooms(self) -> list[Room]:
        """Return what memory the workers may take that are there now."""
        with self._lock:
            hosts = [host for host in map(self._host, self._roster.find()) if host is not None]
            answers = self._each_host(dict.fromkeys(hosts, ("room",)))
        raise_first(answers, "a look at its memory")
        return [room for answer in answers.values() for room in answer.values]

    def scheduler(self) -> Callable[..., Any] | None:
        """Return the cluster of the client in use, if there is one: dask's default."""
        default_client: Any = distributed.default_client  # distributed is typed in part
        try:
            return computing(default_client(), self.limits)
        except ValueError:
            return None

    def describe(self) -> str:
        """Say which cluster this is and how many workers it has."""
        n = self.n_workers
        return f"{self._place}, {n} worker{'s' if n > 1 else ''}"

    def build(self, factory: Callable[..., Any], parts: Sequence[Part]) -> None:
        """Build one block from each part, on workers dealt in order and evenly."""
        check_parts(parts)
        with self._lock:
            self._roster.answered(range(self.n_blocks))
            self._parts = ()
            self._home.clear()
            self._present.clear()
            self._let_go()
            if not parts:
                self._release_hosts()
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

    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method on some blocks and return the sum of the answers."""
        packed, total = pack((method, args)), None
        with self._lock:
            self._adapt()
            missing = set(indices)
            while missing:
                self._settle(replay=True)
                held = {h: [i for i in these if i in missing] for h, these in self._held().items()}
                few = [host for host in held if held[host]][:HOSTS_AT_A_TIME]
                answers = self._each_host({host: ("total", packed, held[host]) for host in few})
                raise_first(answers, method)
                for host, answer in answers.items():
                    total = answer.values[0] if total is None else total + answer.values[0]
                    missing.difference_update(held[host])
            self._roster.answered(indices)
            self._roster.report()
        return total

    def run_tasks(
        self, function: Work, shared: Any, tasks: Sequence[Any], check: Check = nothing
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function once for each task, as dask places them on the workers."""
        yield from run_on_cluster(self._client, function, shared, tasks, self.limits, check)

    def close(self) -> None:
        """Drop the blocks; end what this runtime started."""
        self._release_hosts()
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
            self._adapt()
            while any(index not in answers for index in indices):
                for index in self._settle(replay=True):
                    answers.pop(index, None)  # its successor has not heard the message
                missing = [index for index in indices if index not in answers]
                answers |= self._round(packed, method, missing)
            self._roster.answered(indices)
            self._roster.report()
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
        raise_first(answers, method)
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
        began = time.monotonic()
        while absent := [part.index for part in self._parts if part.index not in self._present]:
            rebuilt.update(absent)
            self._find_homes([index for index in absent if index not in self._home])
            built = self._build_at_home([index for index in absent if index in self._home])
            for method, args in self.recovery() if replay else ():
                self._round(pack((method, args)), method, built, keep=False)
            self._present.update(index for index in built if index in self._home)
        if rebuilt:
            now = time.monotonic()
            self._next_move = now + SETTLED * (now - began)
        self._roster.report()
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
            raise_first(answers, "its construction")
            built += [queues[host].popleft() for host in answers]
            queues = {host: queues[host] for host in answers if queues[host]}
        return [index for index in built if index in self._home]

    def _pack(self, index: int) -> bytes:
        return pack_part(self._factory, self._parts[index].inputs)

    def _find_homes(self, homeless: Sequence[int]) -> None:
        """Deal blocks evenly and in order at first; later to the hosts that hold the fewest."""
        while homeless:
            hosts = [host for host in map(self._host, self._roster.find()) if host is not None]
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
                host = RemoteHost(self._client, address, self.limits)
            except HostLostError as loss:
                self._roster.lose(address, loss, ())
                return None
            self._hosts[address] = host
            self._roster.watch(address)
        return self._hosts[address]

    def _lose(self, host: RemoteHost, loss: HostLostError) -> None:
        """Forget a host that was lost, so that its blocks will be built elsewhere."""
        self._roster.lose(host.address, loss, self._evict(host))

    def _release_hosts(self) -> None:
        for address, host in self._hosts.items():
            self._roster.unwatch(address)
            host.release()
        self._hosts.clear()

    def _evict(self, host: RemoteHost) -> tuple[int, ...]:
        """Forget a host; return the blocks that have to be built elsewhere."""
        self._hosts.pop(host.address, None)
        host.release()
        return self._displace(index for index, home in self._home.items() if home is host)

    def _displace(self, indices: Iterable[int]) -> tuple[int, ...]:
        blocks = tuple(indices)
        for index in blocks:
            del self._home[index]
            self._present.discard(index)
        return blocks

    # -- moves between two rounds ------------------------------------------------------------------

    def _adapt(self) -> None:
        """Leave workers that are to go, and use those that have come."""
        now = time.monotonic()
        if not self._parts or (now < self._next_look and not self._roster.is_told()):
            return
        self._next_look = now + LOOK_SECONDS
        self._let_go()
        usable = self._roster.usable()
        if now >= self._next_move:
            self._spread(usable)

    def _let_go(self) -> None:
        """Leave workers that are to go, unless there are no others."""
        leaving = self._roster.to_leave(self._hosts)
        if leaving and self._roster.usable():
            for address in leaving:
                self._roster.let_go(address, self._evict(self._hosts[address]))

    def _spread(self, usable: set[str]) -> None:
        """Take blocks from the workers that hold the most, if there are workers that hold fewer."""
        if not usable or self._most() <= -(-self.n_blocks // len(usable)):
            return
        for address in sorted(usable - self._hosts.keys()):
            self._welcome(address)
        most = -(-self.n_blocks // max(1, len(usable & self._hosts.keys())))
        surplus: dict[RemoteHost, tuple[Any, ...]] = {}
        for host, blocks in self._held().items():
            if len(blocks) > most:
                surplus[host] = ("drop", list(self._displace(blocks[most:])))
        self._each_host(surplus)

    def _welcome(self, address: str) -> None:
        """Take up a worker; if it cannot hold blocks, the run goes on with the others."""
        try:
            self._host(address)
        except ClusterError as error:
            self._roster.ban(address)
            logger.warning("worker %s joined but is not used: %s", address, error)

    def _held(self) -> dict[RemoteHost, list[int]]:
        held: dict[RemoteHost, list[int]] = {}
        for index, host in sorted(self._home.items()):
            held.setdefault(host, []).append(index)
        return held

    def _most(self) -> int:
        return max(map(len, self._held().values()), default=0)
