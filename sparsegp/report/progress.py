"""How far long work is: a bar on a terminal, drawn by rich; elsewhere a line when a stage ends.

Where nobody knows how long a stage is, it has no bar but a sign that it goes on, and its time.

All is written to standard error; standard output stays clean.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TextIO

from sparsegp.errors import visible
from sparsegp.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LEAST_BESIDE = 70
"""Letters of a line that are kept for texts and figures beside the bar."""
SPEED_SECONDS = 300.0
"""Of recent work, from which the time left is estimated."""


class TerminalProgress(Progress):
    """One stage of work after another, and their seconds; as a context manager it ends the last.

    Time left counts from the first update, which has what earlier sessions did. An update
    outside of a stage does nothing.

    Parameters
    ----------
    stream : text file, optional
        Standard error, as it is at the start of a stage, unless given.
    quiet : bool
        Show nothing but messages.

    Attributes
    ----------
    seconds : dict
        Of every stage that has ended, by its description; a stage lasts until another one begins.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.quiet, self.seconds = quiet, dict[str, float]()
        self._stream = stream
        self._bar: Bar | None = None
        self._shown = False
        self._stage, self._began = "", 0.0

    def begin(self, description: str) -> None:
        """End the stage and take the time of another, which counts nothing."""
        self.finish()
        now = time.perf_counter()
        if self._stage:
            spent = self.seconds.get(self._stage, 0.0) + now - self._began
            self.seconds[self._stage] = round(spent, 3)
        self._stage, self._began = description, now

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage of `total` units, 0 where nobody knows; see `sparsegp.progress`."""
        self.begin(description)
        self._total, self._unit, self._done = total, unit, -1
        self._figures: dict[str, float] = {}
        self._shown = not self.quiet
        self._bar = _bar(self._out, unit, total > 0) if self._shown else None
        if self._bar is not None:
            self._task = self._bar.add_task(description, total=total or None, figures="")
            self._bar.start()

    def update(self, done: int, **figures: float) -> None:
        """Show the units done, and the latest figures (``heldout_error=0.05``)."""
        if not self._shown:
            return
        self._figures |= figures
        if self._bar is not None:
            if self._done < 0:
                self._bar.reset(self._task, completed=done)
            self._bar.update(self._task, completed=done, figures=in_words(self._figures))
        self._done = done

    def message(self, text: str) -> None:
        """Write a line that stays, above the bar if there is one."""
        text = visible(text)
        with suppress(OSError):  # a log that cannot be written does not end the work
            if self._bar is not None:
                self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                self._out.write(f"{text}\n")
                self._out.flush()

    def finish(self) -> None:
        """End what the stage shows, if there is one, with a line about how it went."""
        if not self._shown:
            return
        self._shown = False
        bar, self._bar = self._bar, None
        if bar is not None:
            with suppress(OSError):
                bar.stop()
        done, spent = max(self._done, 0), round(time.perf_counter() - self._began)
        count = f"{done}/{self._total} {self._unit}" if self._total else f"{done} {self._unit}"
        line = f"stopped at {count} after" if done < self._total else f"{count} in"
        figures = f", {in_words(self._figures)}" if self._figures else ""
        self.message(f"{self._stage} {line} {timedelta(seconds=spent)}{figures}")

    @property
    def _out(self) -> TextIO:
        return self._stream or sys.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def _bar(stream: TextIO, unit: str, has_end: bool) -> "Bar | None":
    """Return a bar, if it can be drawn: rich is imported only where there is a terminal."""
    if not stream.isatty():
        return None
    from rich import progress as rich
    from rich.console import Console

    console = Console(file=stream)
    if not (console.is_terminal and console.is_interactive):
        return None
    bar = rich.BarColumn(min(40, max(console.width - LEAST_BESIDE, 5)))
    ended = (bar, rich.MofNCompleteColumn())
    open_ = (rich.SpinnerColumn(), rich.TextColumn("{task.completed:.0f}", markup=False))
    return rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        *(ended if has_end else open_),
        rich.TextColumn(unit, markup=False),
        rich.TimeRemainingColumn() if has_end else rich.TimeElapsedColumn(),
        rich.TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
        speed_estimate_period=SPEED_SECONDS,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=sys.stderr is stream,
    )


def in_words(figures: Mapping[str, float]) -> str:
    """Return named numbers in words."""
    texts = {k: v if isinstance(v, int) else f"{v:.5g}" for k, v in figures.items()}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())
