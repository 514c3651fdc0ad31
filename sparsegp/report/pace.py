"""Rate and time left of work in steps, and the words for them."""

from collections import deque
from collections.abc import Callable

WINDOW = 60.0
"""Seconds of recent work that a rate is taken from."""

SPACING = 1.0
"""Least seconds between the remembered moments, so that they are few."""

FEWEST = 5
"""Moments that are kept however old they are, for steps longer than the window."""


class Pace:
    """Rate of the recent work of this session, whatever earlier sessions did.

    The first record is where this session begins: nothing is known about the time before it.

    Parameters
    ----------
    total : int
        Units in all.
    clock : callable
        Returns seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self.total = total
        self.done = 0
        self._clock = clock
        self._started = clock()
        self._first: tuple[float, int] | None = None
        self._moments: deque[tuple[float, int]] = deque()

    def record(self, done: int) -> None:
        """Note that `done` units are complete now."""
        now = self._clock()
        if self._first is None or done < self.done:
            self._moments = deque([(now, done)])
            self._first = (now, done)
        self.done = done
        moments = self._moments
        if len(moments) > 1 and now - moments[-2][0] < SPACING:
            moments.pop()
        moments.append((now, done))
        while len(moments) > FEWEST and moments[1][0] <= now - WINDOW:
            moments.popleft()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    @property
    def rate(self) -> float | None:
        """Units per second of recent work; None while nothing can be said."""
        return _rate(self._moments[0], self._moments[-1]) if self._first else None

    @property
    def average(self) -> float | None:
        """Units per second of all work of this session; None if nothing can be said."""
        return _rate(self._first, self._moments[-1]) if self._first else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all units are done; None while nothing can be said."""
        rate = self.rate
        if rate is None or not self.total:
            return None
        since = self._clock() - self._moments[-1][0]
        return max((self.total - self.done) / rate - since, 0.0)


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float | None:
    seconds, units = end[0] - start[0], end[1] - start[1]
    return units / seconds if seconds > 0 and units > 0 else None


def duration(seconds: float) -> str:
    """Words for a time: ``40 s``, ``3 min 20 s``, ``2 h 05 min``, ``3 d 4 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def speed(rate: float) -> str:
    """Words for units per second: ``41.2/s``; per minute or hour when slow."""
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        value = rate * seconds
        if value >= 1 or unit == "h":
            break
    return f"{value:.0f}/{unit}" if value >= 100 else f"{value:.1f}/{unit}"
