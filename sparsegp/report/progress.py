"""How far long work is: a bar on a terminal, drawn by rich; elsewhere a line when a stage ends.

All is written to standard error; standard output stays clean.
"""

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

NAMES = {
    "train_error": "training error",
    "heldout_error": "held-out error",
    "train_mse": "training MSE",
    "heldout_mse": "held-out MSE",
    "train_nlpp": "training NLPP",
    "heldout_nlpp": "held-out NLPP",
}
"""Words for figures; other names have their underscores replaced."""

SPEED_SECONDS = 300.0
"""Of recent work, from which the time left is estimated."""


class Progress:
    """One stage of work after another; as a context manager it ends the last one.

    Time left counts from the first update, which says how much earlier sessions did. An update
    outside of a stage does nothing.

    Parameters
    ----------
    stream : text file, optional
        Standard error, as it is at the start of a stage, unless given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._bar: Bar | None = None
        self._description = ""

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage of `total` units, 0 where nobody knows; see `sparsegp.progress`."""
        self.finish()
        self._description, self._total, self._unit = description, total, unit
        self._began, self._done = time.monotonic(), -1
        self._figures: dict[str, float] = {}
        self._bar = _bar(self._out, unit)
        if self._bar is not None:
            self._task = self._bar.add_task(description, total=total or None, figures="")
            self._bar.start()

    def update(self, done: int, **figures: float) -> None:
        """Show the units done, and the latest figures (``heldout_error=0.05``)."""
        if not self._description:
            return
        self._figures |= figures
        if self._bar is not None and self._done < 0:
            self._bar.reset(self._task, completed=done)
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, figures=_words(self._figures))

    def message(self, text: str) -> None:
        """Write a line that stays, above the bar if there is one."""
        with suppress(OSError):  # a log that cannot be written does not end the work
            if self._bar is not None:
                self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                self._out.write(f"{text}\n")
                self._out.flush()

    def finish(self) -> None:
        """End the stage, if there is one, with a line that says how it went."""
        if not self._description:
            return
        bar, self._bar = self._bar, None
        if bar is not None:
            with suppress(OSError):
                bar.stop()
        done, seconds = max(self._done, 0), duration(time.monotonic() - self._began)
        count = f"{done}/{self._total} {self._unit}" if self._total else f"{done} {self._unit}"
        stopped = done < self._total
        line = f"stopped at {count} after {seconds}" if stopped else f"{count} in {seconds}"
        figures = _words(self._figures)
        self.message(f"{self._description} {line}{', ' if figures else ''}{figures}")
        self._description = ""

    @property
    def _out(self) -> TextIO:
        return self._stream or sys.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()


def _bar(stream: TextIO, unit: str) -> "Bar | None":
    """Return a bar, if it can be drawn: rich is imported only where there is a terminal."""
    if not stream.isatty():
        return None
    from rich import progress as rich  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(file=stream)
    if not (console.is_terminal and console.is_interactive):
        return None
    return rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn(unit, markup=False),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
        speed_estimate_period=SPEED_SECONDS,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=sys.stderr is stream,
    )


def _words(figures: dict[str, float]) -> str:
    """Return figures in words: four decimals, or four digits where these would not do."""
    return ", ".join(
        f"{NAMES.get(name, name.replace('_', ' '))} "
        + (f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e3 else f"{value:.4g}")
        for name, value in figures.items()
    )


def duration(seconds: float) -> str:
    """Return a time in words: ``40 s``, ``3 min 20 s``, ``2 h 05 min``, ``3 d 4 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
