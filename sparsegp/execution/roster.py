"""The workers of a cluster as a run sees them: where blocks may live, who is to go, who was lost.

Dask does not retire a worker that holds an actor: it refuses and says so in the events of that
worker. A roster listens to the events of the workers that hold blocks, so that the run can let go
of a worker between two rounds and have it retired.
"""

import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sparsegp.errors import ClusterError
from sparsegp.execution.clusters import leave
from sparsegp.execution.limits import Limits
from sparsegp.execution.remote import (
    HostLostError,
    answering,
    living_workers,
    retire,
    running_workers,
)

logger = logging.getLogger(__name__)

LEFT = "left, as it was to be retired"


@dataclass(frozen=True)
class Departure:
    """A worker that went and how, to be reported when its blocks live again."""

    address: str
    how: str
    blocks: tuple[int, ...]
    moment: float


class Roster:
    """Workers that run, that are to leave, and that were lost.

    Parameters
    ----------
    client : distributed.Client
    limits : Limits

    Attributes
    ----------
    expected : int
        Workers that there were when last seen, less those that left for good.
    replenish : callable
        Starts so many workers more, where that can be done; returns at once.
    """

    def __init__(self, client: Any, limits: Limits) -> None:
        self.limits = limits
        self.replenish: Callable[[int], None] = leave
        self.expected = max(1, len(living_workers(client)))
        self._client = client
        self._refused: deque[str] = deque()
        self._leaving: set[str] = set()
        self._banned: set[str] = set()
        self._avoided: dict[str, float] = {}
        self._departures: list[Departure] = []
        self._n_losses = 0
        self._in_a_row: Counter[int] = Counter()

    # -- who is there ------------------------------------------------------------------------------

    def usable(self) -> set[str]:
        """Ask the scheduler which workers blocks may live on."""
        running, now = running_workers(self._client), time.monotonic()
        if self._leaving:
            self._leaving &= living_workers(self._client)
        avoided = {address for address, until in self._avoided.items() if until > now}
        return running - self._banned - self._wanted_away() - avoided

    def find(self) -> list[str]:
        """Return workers that answer, in order, after waiting for replacements of lost ones.

        Raises
        ------
        ClusterError
            If none is left and none joins.
        """
        patience, start = self.limits.rejoin_seconds, time.monotonic()
        replenish_at = patience
        while True:
            usable, waited = self.usable(), time.monotonic() - start
            if waited >= patience and not usable:  # better than none, if they answer
                usable = running_workers(self._client) - self._banned
            if waited >= replenish_at:
                self.replenish(self.expected - len(usable))
                replenish_at *= 2  # those that start may be lost too
            if len(usable) >= self.expected or (usable and waited >= patience):
                usable -= self._avoid(usable - self._answering(usable))
                if len(usable) >= self.expected or (usable and waited >= patience):
                    self.expected = len(usable)
                    return sorted(usable)
            if waited >= self.limits.absent_seconds:
                raise ClusterError(
                    f"no worker is left and none joined within {waited:.0f} s ({self._reason()}); "
                    "start workers and resume from the last checkpoint"
                )
            time.sleep(0.05)

    def _answering(self, addresses: set[str]) -> set[str]:
        return answering(self._client, addresses, self.limits.pulse_seconds)

    def ban(self, address: str) -> None:
        """Never use a worker again."""
        self._banned.add(address)

    def _avoid(self, addresses: set[str]) -> set[str]:
        """Leave workers alone for a while."""
        until = time.monotonic() + max(self.limits.silent_seconds, self.limits.rejoin_seconds)
        self._avoided |= dict.fromkeys(addresses, until)
        return addresses

    def _reason(self) -> str:
        return self._departures[-1].how if self._departures else "none was ever there"

    # -- who is to go ------------------------------------------------------------------------------

    def watch(self, address: str) -> None:
        """Listen for a retirement that dask refuses."""

        def heard(event: Any) -> None:  # in the thread of the client
            told = event[1] if isinstance(event, tuple) else event
            if isinstance(told, Mapping) and told.get("action") == "could-not-retire":
                self._refused.append(address)

        self._client.subscribe_topic(address, heard)

    def unwatch(self, address: str) -> None:
        """Listen no more."""
        with contextlib.suppress(Exception):  # the client may be closed
            self._client.unsubscribe_topic(address)

    def is_told(self) -> bool:
        """Whether a worker is to go that was not to go before."""
        return bool(self._refused)

    def to_leave(self, addresses: Iterable[str]) -> list[str]:
        """Return which of these workers are to go."""
        return sorted(self._wanted_away() & set(addresses))

    def let_go(self, address: str, blocks: tuple[int, ...]) -> None:
        """Have a worker retired that holds nothing of this run any more."""
        self.unwatch(address)
        self._went(address, LEFT, blocks)
        self.expected = max(1, self.expected - 1)
        retire(self._client, address)

    def _wanted_away(self) -> set[str]:
        while self._refused:
            self._leaving.add(self._refused.popleft())
        return self._leaving

    def _went(self, address: str, how: str, blocks: tuple[int, ...]) -> None:
        self._departures.append(Departure(address, how, blocks, time.monotonic()))

    # -- who was lost ------------------------------------------------------------------------------

    def lose(self, address: str, loss: HostLostError, blocks: tuple[int, ...]) -> None:
        """Count the loss of a worker that held some blocks.

        Raises
        ------
        ClusterError
            If that is too much.
        """
        self.unwatch(address)
        if loss.hung:
            self.ban(address)
        self._avoid({address})
        wanted = address in self._wanted_away()
        self._went(address, LEFT if wanted else f"lost ({loss})", blocks)
        if wanted or loss.hung or loss.silent:  # nobody replaces it
            self.expected = max(1, self.expected - 1)
        if wanted:
            return
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

    def answered(self, blocks: Iterable[int]) -> None:
        """Forget losses while blocks were waited for that have answered."""
        for index in blocks:
            self._in_a_row.pop(index, None)

    def report(self) -> None:
        """Log the departures that are mended, one line each."""
        for gone in self._departures:
            blocks = f"blocks {list(gone.blocks)} rebuilt" if gone.blocks else "it held no blocks"
            lost = time.monotonic() - gone.moment
            logger.warning("worker %s %s; %s, %.1f s lost", gone.address, gone.how, blocks, lost)
        self._departures.clear()
