"""Runtime on a Dask cluster, which rebuilds blocks on other workers when a worker is lost.

One actor per worker (`Host`) holds all its blocks, so a round costs one call per worker: 2 ms for
two workers, instead of 15 ms with tasks, which a client sends every 10 ms. A lost actor is not
restarted: its blocks are built on other workers, brought up to date by the driver's `recovery`
messages, and called again. Between two rounds, blocks are moved in the same way: away from workers
that are being retired, and to workers that joined. A wait ends with an answer, when the connection
is lost, when the scheduler no longer knows the worker or hears from it, or after `call_timeout`.
"""

import logging
import pickle
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial, reduce
from itertools import islice, zip_longest
from operator import add
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import distributed

from sparsegp.errors import ClusterError
from sparsegp.runtime.base import Check, Inputs, Runtime, Work, do_nothing, pack_inputs
from sparsegp.runtime.host import (
    LOST,
    PULSE_SECONDS,
    SCHEDULER_SECONDS,
    Failure,
    Host,
    WorkerLostError,
    known_workers,
    run_task,
    shared_future,
)

logger = logging.getLogger(__name__)

HOSTS_AT_A_TIME = 32  # workers whose sums the driver holds in memory at the same time

ADD: Callable[[Iterator[Any]], Any] = partial(reduce, add)
IGNORE: Callable[[Iterator[Any]], Any] = partial(deque, maxlen=0)
"""Functions by which a worker combines the answers of its blocks, if not in a list."""


class DaskRuntime(Runtime):
    """Runtime that holds the blocks in the workers of a Dask cluster.

    Calls are fastest if the client has ``direct_to_workers=True``. `close` shuts down what was
    started for this runtime; `replenish` starts replacements for lost workers, if possible, and
    returns immediately.
    """

    call_timeout = 600.0  # a worker counts as lost if one call takes longer than this,
    heartbeat_timeout = 30.0  # or if it sends no heartbeat for this long during a call
    rejoin_timeout = 5.0  # wait for replacements before the remaining workers take the blocks,
    no_worker_timeout = 60.0  # and wait for any worker if none is left
    rebalance_interval = 5.0  # interval between checks for workers that have joined
    max_losses = 3  # an error if one block loses this many workers without an answer

    def __init__(
        self,
        client: Any,
        close: Callable[[], None] = do_nothing,
        replenish: Callable[[], None] = do_nothing,
    ) -> None:
        super().__init__()
        self.client, self._close, self._replenish = client, close, replenish
        self._lock = threading.RLock()
        self._factory: Callable[..., Any] = do_nothing
        self._inputs: Sequence[Inputs] = ()
        self._hosts: dict[str, tuple[Any, Any]] = {}  # future and actor, by address
        self._address_of: dict[int, str] = {}  # address by block, for blocks that are up to date
        self._losses: Counter[int] = Counter()  # lost workers by block, since the last answer
        self._lost: set[str] = set()
        self._leaving: set[str] = set()  # being retired
        self._next_rebalance = 0.0
        self.n_workers = max(1, len(known_workers(self.client)))  # expected number
        client.subscribe_topic("all", self._on_retirement_event)

    def run_in_workers(self, function: Callable[..., Any]) -> list[Any]:
        """Call a function in each worker; it gets the worker as `dask_worker`, if it takes that."""
        client, options = self.client, {"callback_timeout": self.no_worker_timeout}
        found = client.sync(client.run, function, on_error="ignore", **options)
        return [found[address] for address in sorted(found)]

    def build(self, factory: Callable[..., Any], inputs: Sequence[Inputs]) -> None:
        """Build one block for each element of `inputs`, spread evenly over the workers."""
        with self._lock:
            self._forget()
            self._factory, self._inputs, self.n_blocks = factory, tuple(inputs), len(inputs)
            try:
                self._rebuild_missing_blocks(replay=False)
            except BaseException:
                self._forget()
                raise

    def ask(self, indices: Sequence[int], method: str, *args: Any) -> list[Any]:
        """Call one method on some blocks; where a worker is lost, call it again on another one."""
        packed, blocks = cloudpickle.dumps((method, args, list)), range(self.n_blocks)
        indices, answers = [blocks[index] for index in indices], dict[int, Any]()
        with self._lock:
            self._adapt_to_workers()
            while {*indices} - answers.keys():
                for index in self._rebuild_missing_blocks():
                    answers.pop(index, None)  # the rebuilt block has not received the message
                held = self._held({*indices} - answers.keys())
                found = self._request("call", {a: (held[a], packed) for a in held})
                for address, of_blocks in found.items():
                    answers.update(zip(held[address], of_blocks, strict=True))
            self._losses.clear()
        return [answers[index] for index in indices]

    def sum_blocks(self, indices: Sequence[int], method: str, *args: Any) -> Any:
        """Call a method on some blocks and return the sum of the answers."""
        packed, missing = cloudpickle.dumps((method, args, ADD)), set(indices)
        sums: list[Any] = []
        with self._lock:
            self._adapt_to_workers()
            while missing:
                self._rebuild_missing_blocks()
                held = dict(islice(self._held(missing).items(), HOSTS_AT_A_TIME))
                answers = self._request("call", {a: (held[a], packed) for a in held})
                sums = [ADD(iter([*sums, *answers.values()]))] if answers else sums
                missing.difference_update(*(held[address] for address in answers))
            self._losses.clear()
        return sums[0]

    def run_tasks(
        self, function: Work, shared: Any, tasks: Sequence[Any], check: Check = do_nothing
    ) -> Generator[tuple[int, Any], None, None]:
        """Call a function once for each task, on workers chosen by Dask."""
        wait: Any = distributed.wait  # distributed is only partly typed
        client, seen = self.client, time.monotonic()
        common = shared_future(client, (function, shared))
        pending = {
            client.submit(run_task, common, cloudpickle.dumps(task), index, pure=False): index
            for index, task in enumerate(tasks)
        }
        try:
            while pending:
                with client.as_current(), suppress(TimeoutError, CancelledError):
                    wait(list(pending), PULSE_SECONDS, "FIRST_COMPLETED")
                ended = [future for future in pending if future.done()]
                for future in ended:
                    yield pending.pop(future), self._task_answer(future)
                if not ended:
                    check()
                    seen = time.monotonic() if known_workers(self.client) else seen
                    self._require_worker_since(seen)
        finally:
            with suppress(*LOST):
                client.cancel(list(pending), force=True)

    def close(self) -> None:
        """Drop the blocks and shut down what was started for this runtime."""
        with suppress(Exception):  # scheduler or client may have ended
            self._forget()
            self.client.unsubscribe_topic("all")
            self._retire()
        close, self._close = self._close, do_nothing
        close()

    # -- calls -------------------------------------------------------------------------------------

    def _request(self, action: str, requests: dict[str, tuple[list[int], bytes]]) -> dict[str, Any]:
        """Request an operation from several workers; return the answers of those not lost."""
        calls, answers = {}, {}
        for address in requests.keys() & self._hosts.keys():
            try:
                calls[address] = self._hosts[address][1].ask(action, *requests[address])
            except LOST as error:
                self._handle_lost_worker(address, error, requests[address][0])
        for address, call in calls.items():
            try:
                answers[address] = pickle.loads(self._wait(address, call))
            except WorkerLostError as loss:
                self._handle_lost_worker(address, loss, requests[address][0])
        failed = [(a, answer) for a, answer in answers.items() if isinstance(answer, Failure)]
        for address, failure in sorted(failed, key=lambda item: item[1].number):
            failure.error.add_note(f"raised by block {failure.number} on worker {address}")
            raise failure.error
        return answers

    def _wait(self, address: str, future: Any) -> Any:
        """Return the result of a future; raise a WorkerLostError if its worker is lost."""
        began = heard = time.monotonic()
        last_seen = None
        while True:
            try:
                return future.result(timeout=PULSE_SECONDS)
            except TimeoutError:
                worker, now = known_workers(self.client).get(address), time.monotonic()
            except LOST as error:
                raise WorkerLostError(str(error)) from error
            if worker is None:
                raise WorkerLostError("it is gone")
            if worker["last_seen"] != last_seen:
                last_seen, heard = worker["last_seen"], now
            if now - heard > self.heartbeat_timeout:
                raise WorkerLostError(f"no heartbeat for {now - heard:.0f} s")
            if now - began > self.call_timeout:
                raise WorkerLostError(f"a call took more than {now - began:.0f} s")

    def _task_answer(self, future: Any) -> Any:
        """Return the answer of a task that has ended, or raise its exception."""
        try:
            # via the scheduler, which knows of lost workers; direct calls notice after 30 s
            answer = pickle.loads(self.client.gather(future, direct=False))
        except LOST as error:
            known_workers(self.client)  # raises if the scheduler does not answer
            raise ClusterError(
                f"a task lost its worker again and again ({error}); check the memory of the workers"
            ) from error
        if isinstance(answer, Failure):
            answer.error.add_note(f"raised by task {answer.number}")
            raise answer.error
        return answer

    # -- where blocks are --------------------------------------------------------------------------

    def _rebuild_missing_blocks(self, replay: bool = True) -> set[int]:
        """Rebuild missing blocks on live workers, update them, and return their numbers."""
        built: set[int] = set()
        while absent := [i for i in range(self.n_blocks) if i not in self._address_of]:
            built.update(absent)
            fresh = self._build(self._assign_workers(absent))
            for method, args in self.recovery() if replay else ():
                packed = cloudpickle.dumps((method, args, IGNORE))
                self._request("call", {a: (indices, packed) for a, indices in fresh.items()})
            for address in fresh.keys() & self._hosts.keys():
                self._address_of.update(dict.fromkeys(fresh[address], address))
        return built

    def _build(self, assigned: dict[str, list[int]]) -> dict[str, list[int]]:
        """Build blocks, one at a time on each worker; return the blocks built, by worker."""
        built: dict[str, list[int]] = {}
        for some in zip_longest(*assigned.values()):
            requests = {
                address: ([i], cloudpickle.dumps((self._factory, pack_inputs(self._inputs[i]))))
                for address, i in zip(assigned, some, strict=True)
                if i is not None
            }
            for address in self._request("build", requests):
                built.setdefault(address, []).extend(requests[address][0])
        return built

    def _assign_workers(self, indices: Sequence[int]) -> dict[str, list[int]]:
        """Assign each block to the worker that has the fewest."""
        loads = Counter(dict.fromkeys(self._find_workers(), 0))
        loads.update(address for address in self._address_of.values() if address in loads)
        assigned: dict[str, list[int]] = {}
        for index in indices:
            address = min(loads, key=loads.__getitem__)
            loads[address] += 1
            assigned.setdefault(address, []).append(index)
        return assigned

    def _find_workers(self) -> list[str]:
        """Return workers with an actor, after waiting for replacements of lost workers."""
        began = time.monotonic()
        while True:
            patient = time.monotonic() - began < self.rejoin_timeout
            wanted = self.n_workers if patient else 1
            if len(usable := self._usable()) >= wanted:
                self._create_hosts(usable)
                if len(usable := usable & self._hosts.keys()) >= wanted:
                    self.n_workers = len(usable)
                    return sorted(usable)
            self._require_worker_since(began)
            if not patient:
                self._replenish()
            time.sleep(0.05 if patient else 1.0)

    def _require_worker_since(self, seen: float) -> None:
        if (waited := time.monotonic() - seen) > self.no_worker_timeout:
            raise ClusterError(
                f"no worker is left and none joined within {waited:.0f} s; start workers and "
                "resume from the last checkpoint"
            )

    def _usable(self) -> set[str]:
        """Return the workers on which blocks may be built."""
        workers = known_workers(self.client).items()
        running = {address for address, worker in workers if worker["status"] == "running"}
        return running - self._lost - self._leaving

    def _create_hosts(self, addresses: Iterable[str]) -> None:
        """Create an actor on each worker that has none."""
        kind = {"actor": True, "pure": False, "allow_other_workers": False}
        made = {
            address: self.client.submit(Host, workers=[address], **kind)
            for address in sorted(set(addresses) - self._hosts.keys())
        }
        for address, future in made.items():
            try:
                with self.client.as_current():  # the default client may be another one
                    self._hosts[address] = future, self._wait(address, future)
            except WorkerLostError as loss:
                self._handle_lost_worker(address, loss)
            except ImportError as error:
                raise ClusterError(
                    f"worker {address} cannot hold row blocks ({error!r}); install the same "
                    "version of sparsegp and its requirements on all workers"
                ) from error

    def _held(self, indices: Iterable[int]) -> dict[str, list[int]]:
        """Group blocks by the worker that holds them."""
        held: dict[str, list[int]] = {}
        for index in sorted(self._address_of.keys() & set(indices)):
            held.setdefault(self._address_of[index], []).append(index)
        return held

    def _drop_host(self, address: str) -> list[int]:
        """Drop a worker's actor, if it can still be reached; return the blocks that it held."""
        blocks = [index for index, at in self._address_of.items() if at == address]
        for index in blocks:
            del self._address_of[index]
        with suppress(KeyError, *LOST):
            self.client.cancel([self._hosts.pop(address)[0]], force=True)
        return blocks

    def _forget(self) -> None:
        """Drop all blocks and actors."""
        for address in list(self._hosts):
            self._drop_host(address)
        self._inputs, self.n_blocks = (), 0
        self._losses.clear()

    # -- workers that leave and join ---------------------------------------------------------------

    def _handle_lost_worker(self, address: str, loss: Exception, asked: Iterable[int] = ()) -> None:
        """Forget a lost worker; raise a ClusterError if a block has lost too many workers."""
        blocks = sorted({*self._drop_host(address), *asked})
        self._lost.add(address)
        if address in self._leaving:
            self.n_workers = max(1, self.n_workers - 1)
            return
        logger.warning("worker %s was lost (%s); its blocks %s move", address, loss, blocks)
        self._losses.update(blocks)
        for block, count in self._losses.most_common(1):
            if count >= self.max_losses:
                raise ClusterError(
                    f"block {block} lost its worker {count} times without an answer (last: "
                    f"{loss}); check the memory of the workers, use more and smaller blocks"
                )

    def _on_retirement_event(self, event: Any) -> None:
        """Note workers to be retired, which Dask refuses as long as they hold an actor."""
        self._leaving.update(event[1].get("could-not-retire", ()))

    def _adapt_to_workers(self) -> None:
        """Move blocks, between two rounds, from workers being retired and to new workers."""
        now, leaving = time.monotonic(), self._leaving & self._hosts.keys()
        if not self.n_blocks or (now < self._next_rebalance and not leaving):
            return
        self._next_rebalance = now + self.rebalance_interval
        self._replenish()
        self.client.submit(do_nothing, pure=False)  # else the scheduler may count as idle
        usable = self._usable()
        for address in self._leaving & self._hosts.keys() if usable else ():
            blocks = self._drop_host(address)
            logger.warning("worker %s is to be retired; its blocks %s move", address, blocks)
            self.n_workers = max(1, self.n_workers - 1)
        self._retire()
        self._rebalance(usable)

    def _retire(self) -> None:
        """Request again the retirements that were refused."""
        client = self.client
        if waiting := list(self._leaving - self._hosts.keys()):
            with suppress(*LOST):
                client.sync(client.retire_workers, waiting, callback_timeout=SCHEDULER_SECONDS)
            self._leaving &= known_workers(self.client).keys()

    def _rebalance(self, usable: set[str]) -> None:
        """Drop blocks of the fullest workers, to be rebuilt on others, if the load is uneven."""
        most = max(Counter(self._address_of.values()).values(), default=0)
        if not usable or most <= -(-self.n_blocks // len(usable)):
            return
        self._create_hosts(usable)
        self.n_workers = len(self._hosts)
        share = -(-self.n_blocks // self.n_workers)
        surplus = {a: blocks[share:] for a, blocks in self._held(self._address_of).items()}
        self._address_of = {i: at for i, at in self._address_of.items() if i not in surplus[at]}
        self._request("drop", {a: (blocks, pickle.dumps(())) for a, blocks in surplus.items()})
