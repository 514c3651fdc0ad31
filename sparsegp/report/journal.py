"""The progress of a run as its driver writes it down, so that others can follow it from elsewhere.

One small file in the run directory is replaced a few times a second at most, by a thread of its own
and without waiting for the disk: it costs the run nothing, and a disk that is full does not end it.
In a store of objects it is an object, which is put every few seconds.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sparsegp.errors import StoreError
from sparsegp.execution import glimpse

if TYPE_CHECKING:
    from sparsegp.checkpoint import Place

VERSION = 1

PAUSE_SECONDS, STORE_PAUSE_SECONDS = 0.4, 3.0
"""Between two writings, at least: to a disk, to a store of objects."""

SOON_SECONDS = 1.0
"""Before another stage is told to a store."""

BEAT_SECONDS, STORE_BEAT_SECONDS = 2.0, 15.0
"""Between two writings, at most: a sign of life where there is no news."""

CLOSING_SECONDS = 5.0
"""How long the end of a run waits for a writing that is under way."""

MOST_WORKS, MOST_MESSAGES, MOST_LETTERS = 8, 20, 500
"""Pieces of work, messages, and letters of a message that are kept."""


@dataclass
class Work:
    """A piece of work as `Progress` was told of it; moments are seconds of the driver's clock.

    Parameters
    ----------
    number : int
        Of this piece, from 0.
    total, unit, description
        As of `Progress.start`.
    began : float
    first, last : (float, int), optional
        Moment and units of the first and the latest update.
    figures : dict
    ended : float, optional
        When it was finished.
    """

    number: int
    total: int
    unit: str
    description: str
    began: float
    first: tuple[float, int] | None = None
    last: tuple[float, int] | None = None
    figures: dict[str, float] = field(default_factory=dict)
    ended: float | None = None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Return the piece of work that `asdict` told of."""
        first, last, ended = stored["first"], stored["last"], stored["ended"]
        return cls(
            int(stored["number"]),
            int(stored["total"]),
            str(stored["unit"]),
            str(stored["description"]),
            float(stored["began"]),
            None if first is None else (float(first[0]), int(first[1])),
            None if last is None else (float(last[0]), int(last[1])),
            {str(name): float(value) for name, value in stored["figures"].items()},
            None if ended is None else float(ended),
        )


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Parameters
    ----------
    code : int
        Exit code of its command.
    text : str
        What there is to say of a run that failed or was stopped.
    record : dict, optional
        What the command prints by ``--json``.
    summary : sequence of (str, str)
        What it prints otherwise, names and values.
    """

    code: int
    text: str = ""
    record: dict[str, Any] | None = None
    summary: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Return the ending that `asdict` told of."""
        record = stored["record"]
        return cls(
            int(stored["code"]),
            str(stored["text"]),
            None if record is None else dict(record),
            tuple((str(name), str(value)) for name, value in stored["summary"]),
        )


@dataclass
class Account:
    """All that a progress file tells.

    Parameters
    ----------
    pid, host : int, str
        The process of the driver.
    began : float
        When it did, in seconds since 1970.
    beat : int
        Of this writing, from 1.
    seconds : float
        The driver's clock at this writing.
    stage : str
        What is done, also where nothing is counted.
    works : list of Work
        The latest ones, in order.
    messages : list of (int, str)
        The latest ones, in order, with their numbers.
    ending : Ending, optional
        None while the run goes on.
    """

    pid: int
    host: str
    began: float
    beat: int = 0
    seconds: float = 0.0
    stage: str = ""
    works: list[Work] = field(default_factory=list)
    messages: list[tuple[int, str]] = field(default_factory=list)
    ending: Ending | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        """Return the account that a progress file holds.

        Raises
        ------
        StoreError
            If another version wrote it, or it is damaged.
        """
        try:
            if (version := stored["version"]) != VERSION:
                raise StoreError(
                    f"progress must be of version {VERSION}, found {version!r}; use the version "
                    "of sparsegp that runs there"
                )
            ending = stored["ending"]
            return cls(
                int(stored["pid"]),
                str(stored["host"]),
                float(stored["began"]),
                int(stored["beat"]),
                float(stored["seconds"]),
                str(stored["stage"]),
                [Work.from_json(work) for work in stored["works"]],
                [(int(number), str(text)) for number, text in stored["messages"]],
                None if ending is None else Ending.from_json(ending),
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StoreError(f"the progress of the run is damaged ({error!r})") from None


class Warnings(logging.Handler):
    """Passes warnings of the package on."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one on."""
        self._tell(f"warning: {record.getMessage()}")


class Journal:
    """Writes down what a `Progress` is told, as soon as this process holds the run directory.

    Parameters
    ----------
    run : Path or StorePath
        The directory of the run, or its place in a store.
    """

    def __init__(self, run: "Place") -> None:
        self._sight: Any = glimpse
        self._pause, self._beat = PAUSE_SECONDS, BEAT_SECONDS
        if glimpse.in_store(run):
            from sparsegp.execution import glimpse_store  # noqa: PLC0415 - attach is to be quick

            self._sight = glimpse_store
            self._pause, self._beat = STORE_PAUSE_SECONDS, STORE_BEAT_SECONDS
        self.run, self._before = run, self._sight.last_claim(run)
        self.account = Account(os.getpid(), socket.gethostname(), time.time())
        self._started = self._written = time.monotonic()
        self._lock = threading.Lock()
        self._news = self._soon = self._claimed = False
        self._n_works = self._n_messages = 0
        self._warnings = Warnings(self.message)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="sparsegp-journal", daemon=True)

    def open(self) -> None:
        """Begin to write; warnings of the package are messages meanwhile."""
        logging.getLogger("sparsegp").addHandler(self._warnings)
        self._thread.start()

    def begin(self, stage: str) -> None:
        """Name what is done now."""
        with self._lock:
            self.account.stage, self._news, self._soon = stage, True, True

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a piece of work."""
        self.finish()
        with self._lock:
            work = Work(self._n_works, total, unit, description, self._now())
            self.account.works = [*self.account.works, work][-MOST_WORKS:]
            self._n_works, self._news = self._n_works + 1, True

    def update(self, done: int, **figures: float) -> None:
        """Tell how much of it is done, and the latest figures."""
        with self._lock:
            if self.account.works and (work := self.account.works[-1]).ended is None:
                work.last = (self._now(), done)
                work.first = work.first or work.last
                work.figures.update(figures)
                self._news = True

    def message(self, text: str) -> None:
        """Keep a message."""
        with self._lock:
            said = (self._n_messages, text[:MOST_LETTERS])
            self.account.messages = [*self.account.messages, said][-MOST_MESSAGES:]
            self._n_messages, self._news = self._n_messages + 1, True

    def finish(self) -> None:
        """End the piece of work, if there is one."""
        with self._lock:
            if self.account.works and (work := self.account.works[-1]).ended is None:
                work.ended, self._news = self._now(), True

    def close(self, ending: Ending) -> None:
        """Tell how the run ended, and write no more."""
        logging.getLogger("sparsegp").removeHandler(self._warnings)
        self.finish()
        with self._lock:
            self.account.ending = ending
        self._over.set()
        self._thread.join(CLOSING_SECONDS)
        if not self._thread.is_alive():  # a disk that hangs does not hold the end of a run
            self._write()

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _keep(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            pause = self._pause if self._news else self._beat
            if self._soon or not self._claimed:
                pause = min(self._pause, SOON_SECONDS)
            if time.monotonic() - self._written >= pause:
                self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self._claimed = self._claimed or self._sight.is_mine(self.run, self._before)
        if not self._claimed:
            return
        with self._lock:
            self.account.beat += 1
            self.account.seconds = self._now()
            text = json.dumps(self.account.to_json(), default=float)
            self._news = self._soon = False
        self._sight.write_progress(self.run, text)
