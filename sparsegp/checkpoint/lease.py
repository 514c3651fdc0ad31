"""A lease: what keeps a second process out of a run in a store of objects, which cannot be locked.

The holder puts `lease/00000007` and puts it again every few seconds, as a sign of life. Who wants
the lease looks at the newest number, and only when its holder is dead creates the next one; a store
that creates objects conditionally (S3, GCS) lets one of several do so. A holder that was silent too
long finds the next number there before its next checkpoint, and ends.

So this is weaker than a lock. A holder that was stopped for a while and goes on is found out only
when it looks again, and may put an object in between; objects that it puts have names of their own,
so that bundles stay whole.
"""

import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sparsegp.checkpoint.manifest import shown
from sparsegp.checkpoint.places import StorePath
from sparsegp.errors import StoreError

SECONDS = 60.0
"""After so long without a sign of life a holder counts as dead."""

BEATS = 5
"""Signs of life in that time."""

SKEW = 600.0
"""By how much the clocks of two machines may differ, in seconds."""

_log = logging.getLogger(__name__)
_NUMBER = re.compile(r"[0-9]{8,}")
_LARGEST = 1 << 16


class LeaseLostError(StoreError):
    """Another process has taken the run over; this one must not write any more."""


class Lease:
    """Held by one process at a time, as far as a store can see to that; a context manager.

    Parameters
    ----------
    path : StorePath
        Below it the signs of life are put.
    seconds : float
        After so long without a sign of life a holder counts as dead.
    on_wait : callable
        Is told in words what is waited for.
    """

    def __init__(
        self,
        path: StorePath,
        seconds: float = SECONDS,
        *,
        on_wait: Callable[[str], None] = _log.warning,
    ) -> None:
        self.path, self.seconds, self.on_wait = path, seconds, on_wait
        self._mine: StorePath | None = None
        self._token = ""
        self._ended = threading.Event()
        self._beating: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lease; where its holder may be dead, wait until that is certain.

        Raises
        ------
        StoreError
            If somebody holds it, or it cannot be written.
        """
        newest = _newest(self.path)
        if newest is not None:
            self._outlive(newest)
        mine = self.path / f"{1 if newest is None else int(newest.name) + 1:08d}"
        self._token, refused = uuid.uuid4().hex, None
        try:
            mine.create(self._sign())
        except StoreError as error:
            refused = error  # perhaps of a second try, when only the answer to the first was lost
        holder = _read(mine)
        if holder is None or _told(holder).get("token") != self._token:
            raise refused if holder is None and refused else self._held(holder)
        self._mine = mine
        self.check()
        with suppress(StoreError):  # of holders that are dead
            self.path.delete([name for name in self.path.find() if name != mine.name])
        self._ended.clear()
        self._beating = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._beating.start()

    def check(self) -> None:
        """Look whether the lease is still held; nothing happens where it never was.

        Raises
        ------
        LeaseLostError
            If another process has it.
        StoreError
            If the store cannot be asked.
        """
        if self._mine is None:
            return
        newest = _newest(self.path)
        holder = None if newest is None else _read(newest)
        if holder is None or _told(holder).get("token") != self._token:
            raise LeaseLostError(
                f"{self.path} is no longer held by {signed()}, but by {_owner(holder)}: there was "
                f"no sign of life for {self.seconds:g} s; let the other go on, or stop it and go "
                "on by --resume"
            )

    def release(self) -> None:
        """Give the lease back; nothing happens if it is not held."""
        self._ended.set()
        if self._beating is not None:
            self._beating.join(self.seconds)
            self._beating = None
        if self._mine is not None:
            with suppress(StoreError):  # it runs out by itself
                self.check()
                self.path.delete([self._mine.name])
            self._mine = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _beat(self) -> None:
        """Give signs of life until the lease is given back or lost."""
        while not self._ended.wait(self.seconds / BEATS):
            try:
                self.check()
                if self._mine is not None:
                    self._mine.write_bytes(self._sign())
            except LeaseLostError:
                return  # the next check tells it to the run
            except StoreError as error:
                _log.debug("no sign of life: %s", error)

    def _outlive(self, newest: StorePath) -> None:
        """Return when the holder is known to be dead or has given the lease back.

        Raises
        ------
        StoreError
            If it lives.
        """
        first = _read(newest)
        if first is None or _is_dead(_told(first), self.seconds):
            return
        ends = time.monotonic() + self.seconds
        self.on_wait(
            f"{self.path} is held by {_owner(first)}; if there is no sign of life within "
            f"{self.seconds:g} s, it is taken over"
        )
        while time.monotonic() < ends:
            time.sleep(min(1.0, self.seconds / BEATS))
            if (now := _read(newest)) is None:
                return
            if now != first:
                raise self._held(now)

    def _held(self, holder: bytes | None) -> StoreError:
        return StoreError(
            f"{self.path} is held by {_owner(holder)}; wait for it or use another directory"
        )

    def _sign(self) -> bytes:
        told = {"owner": signed(), "pid": os.getpid(), "home": _home(), "token": self._token}
        return json.dumps({**told, "time": time.time(), "sign": uuid.uuid4().hex}).encode()


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, as far as can be told.

    Parameters
    ----------
    owner : str
        In words.
    pid : int
    token : str
        Of this holder alone.
    here : bool
        Whether it is a process that this one can see.
    """

    owner: str
    pid: int
    token: str
    here: bool


def holder_of(path: StorePath, seconds: float = SECONDS) -> Holder | None:
    """Return who holds a lease; None if nobody does, or a process that is certainly dead.

    Parameters
    ----------
    path : StorePath
        Of the lease.
    seconds : float
        As for `Lease`.

    Raises
    ------
    StoreError
        If the store cannot be asked.
    """
    newest = _newest(path)
    content = None if newest is None else _read(newest)
    told = {} if content is None else _told(content)
    pid = told.get("pid")
    if content is None or type(pid) is not int or _is_dead(told, seconds):
        return None
    here = bool(_home()) and told.get("home") == _home()
    return Holder(_owner(content), pid, str(told.get("token")), here)


def _newest(path: StorePath) -> StorePath | None:
    numbers = [name for name in path.find() if _NUMBER.fullmatch(name)]
    return path / max(numbers, key=int) if numbers else None


def _read(path: StorePath) -> bytes | None:
    try:
        return path.read_bytes(_LARGEST)
    except FileNotFoundError:
        return None


def _told(holder: bytes) -> dict[str, Any]:
    """Return what a sign of life tells, nothing if it is none of ours."""
    with suppress(ValueError, RecursionError):
        told = json.loads(holder)
        if isinstance(told, dict):
            return told
    return {}


def _owner(holder: bytes | None) -> str:
    found = None if holder is None else _told(holder).get("owner")
    return "another process" if found is None else shown(found)


def signed() -> str:
    """Return who this process is, for messages to others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _home() -> str:
    """Return what the processes that this one could see have in common, nothing if unknown."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _is_dead(told: dict[str, Any], seconds: float) -> bool:
    """Tell whether a holder is certainly dead: its process is gone, or its last sign is too old."""
    pid, then = told.get("pid"), told.get("time")
    if _home() and told.get("home") == _home() and type(pid) is int and 0 < pid < 1 << 31:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it lives, as another user's
    return isinstance(then, float) and time.time() - then > seconds + SKEW
