"""How far long work has come: a bar on a terminal, a line now and then elsewhere.

All is written to standard error; standard output stays clean.
"""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, TextIO

from sparsegp.report.pace import Pace, duration, speed

INTERVAL = 30.0
"""Seconds between the lines where there is no terminal."""

NAMES = {
    "train_error": "training error",
    "heldout_error": "held-out error",
    "train_mse": "training MSE",
    "heldout_mse": "held-out MSE",
    "train_nlpp": "training NLPP",
    "heldout_nlpp": "held-out NLPP",
}
"""Words for figures; other names have their underscores replaced."""


class Screen(Protocol):
    """Where progress is shown."""

    def refresh(self) -> None:
        """Show the present state, if it is time to."""

    def print(self, text: str) -> None:
        """Write a line that stays."""

    def close(self) -> None:
        """Take away what does not stay."""


class Progress:
    """Progress of one piece of work after another.

    ``start`` begins a piece, ``update`` tells how much of it is done, ``finish`` ends it; as a
    context manager it finishes when the work ends or fails. Rate and time left count from the
    first update, which says how much earlier sessions did. An update outside of a piece of work
    does nothing.

    Parameters
    ----------
    stream : text file, optional
        Standard error, as it is at the start of a piece, unless given.
    interval : float
        Least seconds between two lines where there is no terminal.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._interval = interval
        self._clock = clock
        self._screen: Screen | None = None
        self._figures: dict[str, float] = {}
        self._unit = ""
        self._pace: Pace
        self.description = ""

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a piece of work.

        Parameters
        ----------
        total : int
            Units in all, those of earlier sessions included; 0 where nobody knows.
        unit : str
            What is counted, in the plural ("rows").
        description : str
            What is done, in a word or two ("select").
        """
        self.finish()
        self._pace = Pace(total, self._clock)
        self._figures = {}
        self._unit = unit
        self.description = description
        self._screen = self._open()

    def turn_to(self, description: str) -> None:
        """Name the next part of a piece of work; the figures of the former one are forgotten."""
        self.description, self._figures = description, {}

    def update(self, done: int, **figures: float) -> None:
        """Tell that `done` units are complete, and the latest figures (``heldout_error=0.05``)."""
        if self._screen is None:
            return
        self._pace.record(done)
        self._figures.update(figures)
        self._screen.refresh()

    def message(self, text: str) -> None:
        """Write a line without breaking the bar."""
        screen = self._screen
        if screen is None:
            _write_line(self._stream or sys.stderr, text)
        else:
            screen.print(text)

    def finish(self) -> None:
        """End the piece of work, if there is one, with a line that says how it went."""
        screen, self._screen = self._screen, None
        if screen is not None:
            screen.close()
            screen.print(_join(self._outcome(), self.figures))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()

    @property
    def fraction(self) -> float:
        """The share of the work that is done."""
        return min(self._pace.done / self._pace.total, 1.0) if self._pace.total else 1.0

    @property
    def size(self) -> str:
        """Units in all."""
        return f"{self._pace.total} {self._unit}" if self._pace.total else self._unit

    @property
    def line(self) -> str:
        """All that is known in one line."""
        return _join(f"{self.description} {self.state}", self.figures)

    @property
    def state(self) -> str:
        """Units done, rate and time left in words."""
        rate, left = self._pace.rate, self._pace.seconds_left
        return _join(
            self._count(),
            speed(rate) if rate is not None else "",
            f"{duration(left)} left" if left is not None else "",
        )

    @property
    def figures(self) -> str:
        """The latest figures in words."""
        return ", ".join(
            f"{NAMES.get(name, name.replace('_', ' '))} {figure(value)}"
            for name, value in list(self._figures.items())
        )

    def _count(self) -> str:
        return f"{self._pace.done}{'/' if self._pace.total else ' '}{self.size}"

    def _outcome(self) -> str:
        average, seconds = self._pace.average, duration(self._pace.seconds)
        rate = speed(average) if average is not None else ""
        if self._pace.done < self._pace.total:
            return _join(f"{self.description} stopped at {self._count()} after {seconds}", rate)
        return _join(f"{self.description} {self._count()} in {seconds}", rate)

    def _open(self) -> Screen:
        stream = self._stream or sys.stderr
        if stream.isatty():
            from sparsegp.report.bar import Bar, can_draw  # noqa: PLC0415

            if can_draw(stream):
                return Bar(self, stream)
        return Lines(self, stream, self._interval, self._clock)


class NullProgress(Progress):
    """Says nothing: for libraries and quiet runs."""

    def start(self, total: int, unit: str, description: str) -> None:
        """Do nothing."""

    def update(self, done: int, **figures: float) -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class Lines:
    """One line at the start, then one at most every `interval` seconds of `clock`."""

    def __init__(
        self, progress: Progress, stream: TextIO, interval: float, clock: Callable[[], float]
    ) -> None:
        self._progress = progress
        self._stream = stream
        self._interval = interval
        self._clock = clock
        self._last = clock()
        self.print(f"{progress.description}: {progress.size}")

    def refresh(self) -> None:
        """Write a line if the last is old enough."""
        now = self._clock()
        if now - self._last >= self._interval:
            self._last = now
            self.print(self._progress.line)

    def print(self, text: str) -> None:
        """Write a line."""
        _write_line(self._stream, text)

    def close(self) -> None:
        """Do nothing: all lines stay."""


def figure(value: float) -> str:
    """Four decimals, or four digits where these would not do."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e3 else f"{value:.4g}"


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _write_line(stream: TextIO, text: str) -> None:
    """Write and flush; a log that cannot be written does not end the work."""
    with suppress(OSError):
        stream.write(f"{text}\n")
        stream.flush()
