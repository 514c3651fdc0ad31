"""Following a run that goes on elsewhere, by glimpses of it, until it ends or is found dead."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparsegp.execution.glimpse import signature
from sparsegp.report.journal import Account, Ending, Work
from sparsegp.report.progress import NullProgress, Progress

FAILED = 2


@dataclass(frozen=True)
class Patience:
    """How long to wait for what, in seconds.

    Parameters
    ----------
    pause : float
        Between two glimpses.
    near, far : float
        Silence after which a run is dead if nobody holds its directory: seen on the machine of the
        driver, and from another one, which may see files late.
    silent : float
        Silence after which a driver that exists is given up.
    reading : float
        How long a driver may take until it holds the directory.
    """

    pause: float = 0.5
    near: float = 5.0
    far: float = 70.0
    silent: float = 120.0
    reading: float = 3600.0


class Clock:
    """The driver's clock: what it showed in the latest glimpse, and the time since."""

    def __init__(self) -> None:
        self.set(0.0)

    def set(self, seconds: float) -> None:
        """Show a time, and go on from there."""
        self._shown, self._since = seconds, time.monotonic()

    def __call__(self) -> float:
        """Return the time."""
        return self._shown + time.monotonic() - self._since


class Shown(Progress):
    """A progress that can be left while the work goes on."""

    def leave(self) -> None:
        """Take the bar away, without a word on how the work went."""
        screen, self._screen = self._screen, None
        if screen is not None:
            screen.close()


NOTHING = Work(-1, 0, "", "", 0.0, ended=0.0)


class Mirror:
    """Shows the progress of a run from elsewhere as the run itself would show it.

    Parameters
    ----------
    say : callable, optional
        Where messages go in place of a progress: nothing else is shown then.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._clock = Clock()
        self._shown = Shown(clock=self._clock) if say is None else NullProgress()
        self._say = say or self._shown.message
        self._session, self._message, self._stage = -math.inf, -1, ""
        self._work = NOTHING

    def show(self, account: Account) -> None:
        """Show what is new."""
        if account.began != self._session:
            self._session, self._message, self._stage = account.began, -1, ""
            self._work = NOTHING
        for number, text in account.messages:
            if number > self._message:
                self._say(text)
                self._message = number
        for work in account.works:
            if work.number > self._work.number:
                self._begin(work)
            if work.number == self._work.number and self._work.ended is None:
                self._go_on(work)
        self._clock.set(account.seconds)
        if self._work.ended is not None and account.stage not in ("", self._stage):
            self._shown.message(account.stage)
        self._stage = account.stage

    def close(self) -> None:
        """Say how far the work came that does not go on."""
        self._shown.finish()

    def leave(self) -> None:
        """Take away what does not stay."""
        if isinstance(self._shown, Shown):
            self._shown.leave()

    def _begin(self, work: Work) -> None:
        self._clock.set(work.began)
        self._shown.start(work.total, work.unit, work.description)
        self._work = Work(work.number, work.total, work.unit, work.description, work.began)
        self._stage = work.description
        if work.first is not None:
            self._clock.set(work.first[0])
            self._shown.update(work.first[1])

    def _go_on(self, work: Work) -> None:
        if work.last is not None and work.last != self._work.last:
            self._clock.set(work.last[0])
            self._shown.update(work.last[1], **work.figures)
        if work.ended is not None:
            self._clock.set(work.ended)
            self._shown.finish()
        self._work = work


class Follower:
    """Tells from one glimpse after the other whether a run has ended.

    Parameters
    ----------
    run : str
        Its directory, for messages.
    mirror : Mirror
        Shows the progress.
    patience : Patience, optional
    """

    def __init__(self, run: str, mirror: Mirror, patience: Patience | None = None) -> None:
        self.run, self.mirror = run, mirror
        self.patience = patience or Patience()
        self.account: Account | None = None
        self._stored: Account | None = None
        self._heard = time.monotonic()
        self._taken_over = False

    @property
    def silence(self) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self._heard

    def take(self, seen: Mapping[str, Any]) -> Ending | None:
        """Show what was seen, and return how the run ended, None if it goes on.

        Parameters
        ----------
        seen : mapping
            What `sparsegp.execution.glimpse.look` returned. Where the driver is a child of who
            looked there is a `driver` too: `pid`, `began`, its exit `code`, None while it lives,
            what it `said` last, and its `log`.

        Raises
        ------
        StoreError
            If the progress cannot be understood.
        """
        driver = self._hear(seen["progress"], seen.get("driver"))
        account, holder = self.account, seen["holder"]
        if account is not None:
            self.mirror.show(account)
            if holder is not None:
                self._taken_over = holder not in ("", signature(account.pid, account.host))
            if account.ending is not None and not self._taken_over:
                leaving = driver is not None and driver["code"] is None  # then no other can begin
                return None if leaving and self.silence < self.patience.silent else account.ending
        if driver is None:
            return self._alone(seen) if account is None else self._alive(account, seen)
        if driver["code"] is not None:
            return self._exited(driver)
        limit = self.patience.reading if account is None else self.patience.silent
        return None if self.silence < limit else self._hangs(f"process {driver['pid']}")

    def _hear(self, progress: Any, driver: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Keep what the driver wrote, if it is news; return the driver if the run is its."""
        if progress is None:
            return driver
        found, last = Account.from_json(progress), self.account
        self._stored = found
        if driver is not None and (found.pid != driver["pid"] or found.began < driver["began"]):
            if driver["code"] is None or found.began < driver["began"]:
                return driver  # of a driver before it
            driver = None  # of one after it, which was started otherwise
        if last is not None and found.began != last.began:
            self._taken_over = False
        if last is None or (found.began, found.beat) != (last.began, last.beat):
            self.account, self._heard = found, time.monotonic()
        return driver

    def _exited(self, driver: Mapping[str, Any]) -> Ending:
        """Return the end of a driver of which only the exit code is known."""
        code, log = driver["code"], f"its output is in {driver['log']}"
        if code < 0:
            what = f"the driver was ended by signal {-code} ({signal.strsignal(-code)})"
            return self._stopped(what, log)
        former = self._stored and self._stored.ending
        if code == 0 and former and former.code == 0:  # it was finished before
            return former
        return Ending(code, f"{driver['said']} (process {driver['pid']}; {log})")

    def _alone(self, seen: Mapping[str, Any]) -> Ending | None:
        """Judge a run that writes no progress."""
        if not seen["exists"]:
            return Ending(FAILED, f"error: there is no run {self.run} on {seen['host']}")
        if seen["holder"] == "" and seen["finished"]:
            more = ("next", f"sparsegp inspect {self.run}")
            return Ending(0, "", {"run": self.run}, (("finished", self.run), more))
        if seen["holder"] == "":
            return Ending(FAILED, f"error: no run goes on in {self.run} on {seen['host']}")
        near = (seen["holder"] or "").endswith(f" on {seen['host']}")
        if self.silence < (self.patience.near if near else self.patience.far):
            return None
        return Ending(
            FAILED,
            f"error: {seen['holder'] or 'a process'} holds {self.run} but writes no progress, as "
            "the command line does; `sparsegp inspect` shows its newest checkpoint",
        )

    def _alive(self, account: Account, seen: Mapping[str, Any]) -> Ending | None:
        """Judge a run by its signs of life, and by who holds its directory."""
        patience, holder = self.patience, seen["holder"]
        limit = patience.near if account.host == seen["host"] else patience.far
        if holder == "" and self.silence >= limit:
            whole = "its model is complete, see `sparsegp inspect`" if seen["finished"] else ""
            return self._stopped(f"{signature(account.pid, account.host)} ended", whole)
        if self.silence >= patience.silent:
            return self._hangs(holder or signature(account.pid, account.host))
        return None

    def _hangs(self, who: str) -> Ending:
        return Ending(
            FAILED,
            f"error: {who}, which drives {self.run}, gave no sign of life for "
            f"{self.silence:.0f} s: it hangs, or cannot write there; attach again, or end it and "
            "go on by --resume",
        )

    def _stopped(self, what: str, more: str) -> Ending:
        advice = "; ".join(filter(None, ["go on by the same command with --resume", more]))
        what += self._where()
        return Ending(FAILED, f"error: the run {self.run} does not go on: {what}; {advice}")

    def _where(self) -> str:
        """Say how far it was, where that is known."""
        if self.account is None or not (stage := self.account.stage):
            return ""
        work = self.account.works[-1] if self.account.works else None
        if work is None or work.ended is not None or work.last is None:
            return f" in stage {stage}"
        total = f" of {work.total}" if work.total else ""
        return f" at {work.last[1]}{total} {work.unit} in stage {stage}"


def follow(
    look: Callable[[bool], Mapping[str, Any]], follower: Follower, *, until_begun: bool = False
) -> Ending | None:
    """Show a run until it ends.

    Parameters
    ----------
    look : callable
        Returns a glimpse of the run; told whether to ask who holds it.
    follower : Follower
    until_begun : bool
        Wait only until the run holds its directory.

    Returns
    -------
    Ending or None
        None if the run goes on.

    Raises
    ------
    StoreError, ClusterError
        If the run cannot be seen.
    """
    near, asked = follower.patience.near, -math.inf
    try:
        while True:
            now = time.monotonic()
            probe = asked == -math.inf or (follower.silence >= near and now - asked >= near)
            asked = now if probe else asked
            if (ending := follower.take(look(probe))) is not None:
                follower.mirror.close()
                return ending
            if until_begun and follower.account is not None:
                return None
            time.sleep(follower.patience.pause)
    finally:
        follower.mirror.leave()
