"""Progress displays: a bar on a terminal or in a notebook; elsewhere an occasional line.

A stage of unknown length has no bar, but shows its time and a spinner.

Outside notebooks everything is written to standard error; standard output stays clean.
"""

import html
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, TextIO

from sparsegp.errors import SettingsError, quoted, visible
from sparsegp.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console

MIN_BESIDE = 86
"""Number of characters of a line that are kept for texts and numbers next to the bar."""
MIN_SECONDS = 0.1
"""Minimum time between two updates of a bar in a notebook."""
LINE_SECONDS = 60.0
"""Time between two progress lines of a stage without a bar."""
SPEED_SECONDS = 300.0
"""Length of the recent period from which the remaining time is estimated."""


class TerminalProgress(Progress):
    """Display of each stage of a run and its time; a context manager, which ends the last stage.

    The remaining time is estimated from the first update on, so that work of earlier sessions does
    not count. Updates outside a stage are ignored.

    Parameters
    ----------
    stream : text file, optional
        By default standard error, looked up when a stage starts; notebooks have their own bars.
    quiet : bool
        Show only messages.

    Attributes
    ----------
    seconds : dict
        Seconds per completed stage, by description; a stage lasts until the next one starts.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.quiet, self.seconds = quiet, dict[str, float]()
        self._stream = stream
        self._display: _Lines | _TerminalBar | _NotebookBar | None = None
        self._stage, self._began = "", 0.0

    def begin(self, description: str) -> None:
        """End the current stage, and start to time another one without a display."""
        self.finish()
        now = time.perf_counter()
        if self._stage:
            spent = self.seconds.get(self._stage, 0.0) + now - self._began
            self.seconds[self._stage] = round(spent, 3)
        self._stage, self._began = description, now

    def start(self, total: int, unit: str, description: str) -> None:
        """Start a stage of `total` units, 0 if unknown; see `sparsegp.progress`."""
        self.begin(description)
        self._total, self._unit, self._done = total, unit, 0
        self._figures: dict[str, float | str] = {}
        if self.quiet:
            return
        console = _console(self._out)
        if self._stream is None and _is_notebook():
            self._display = _NotebookBar(description, total, unit)
        elif console is not None:
            self._display = _TerminalBar(console, description, total, unit)
        else:
            self._display = _Lines(self._out, lambda: self._line("so far,"))

    def update(self, done: int, **figures: float | str) -> None:
        """Show the number of units done and the latest figures (``heldout_error=0.05``)."""
        if self._display is not None:
            self._done, self._figures = done, {**self._figures, **figures}
            self._display.show(done, in_words(self._figures))

    def message(self, text: str) -> None:
        """Write a line that remains visible, above the bar if there is one."""
        text = visible(text)
        with suppress(OSError):  # a log that cannot be written does not end the work
            if self._display is not None:
                self._display.message(text)
            else:
                _write(self._out, text)

    def finish(self) -> None:
        """End the display of the stage, if there is one, with a line that sums it up."""
        display, self._display = self._display, None
        if display is not None:
            stopped = self._done < self._total
            with suppress(OSError):
                display.end(visible(self._line("after" if stopped else "in", stopped)))

    def _line(self, before_time: str, stopped: bool = False) -> str:
        """Return a line about the progress of the stage."""
        spent = timedelta(seconds=round(time.perf_counter() - self._began))
        of = f"/{self._total}" if self._total else ""
        figures = f", {in_words(self._figures)}" if self._figures else ""
        count = f"{'stopped at ' if stopped else ''}{self._done}{of} {self._unit}"
        return f"{self._stage} {count} {before_time} {spent}{figures}"

    @property
    def _out(self) -> TextIO | None:
        return self._stream or sys.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def progress_for(progress: object, verbose: bool) -> Progress:
    """Return the given progress, a display if `verbose`, or else one that only logs.

    Raises
    ------
    SettingsError
        If both are given, or the former is not a `Progress`.
    """
    if verbose and progress is not None:
        raise SettingsError("give only one of `progress` and `verbose`")
    if progress is not None and not isinstance(progress, Progress):
        raise SettingsError(
            "progress must be an instance of sparsegp.progress.Progress, or left out, got "
            f"{quoted(progress)}"
        )
    return TerminalProgress() if verbose else progress or Progress()


class _Lines:
    """Occasional lines where no bar can be drawn, so that long stages show their progress."""

    def __init__(self, stream: TextIO | None, line: Callable[[], str]) -> None:
        self._stream, self._line, self._ended = stream, line, Event()
        Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        with suppress(OSError, ValueError):  # the stream may be full, or closed
            while not self._ended.wait(LINE_SECONDS):
                self.message(visible(self._line()))

    def show(self, done: int, figures: str) -> None:
        """Do nothing: lines are written at intervals."""

    def message(self, text: str) -> None:
        _write(self._stream, text)

    def end(self, line: str) -> None:
        self._ended.set()
        self.message(line)


class _TerminalBar:
    """A bar drawn by rich."""

    def __init__(self, console: "Console", description: str, total: int, unit: str) -> None:
        from rich import progress as rich
        from rich.table import Column

        bar = rich.BarColumn(min(40, max(console.width - MIN_BESIDE, 5)))
        count = rich.TextColumn("{task.completed:.0f}", markup=False)
        left = (rich.TimeRemainingColumn(), rich.TextColumn("left"))
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.SpinnerColumn(),
            *((bar, rich.MofNCompleteColumn()) if total else (count,)),
            rich.TextColumn("{task.fields[unit]}", markup=False),
            rich.TimeElapsedColumn(),
            *(left if total else ()),
            rich.TextColumn("{task.fields[figures]}", markup=False, table_column=rest),
            console=console,
            expand=True,
            transient=True,
            speed_estimate_period=SPEED_SECONDS,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr is console.file,
        )
        self._task = self._bar.add_task(description, total=total or None, unit=unit, figures="")
        self._bar.start()

    def show(self, done: int, figures: str) -> None:
        self._bar.update(self._task, completed=done, figures=figures)

    def message(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self, line: str) -> None:
        with suppress(OSError):
            self._bar.stop()
        self.message(line)


class _NotebookBar:
    """A bar below the cell of a notebook, replaced by a line at the end."""

    def __init__(self, description: str, total: int, unit: str) -> None:
        self._description, self._total, self._unit = description, total, unit
        self._html = sys.modules["IPython"].display.HTML
        self._handle = sys.modules["IPython"].display.display(self._html(""), display_id=True)
        self._next = 0.0
        self.show(0, "")

    def show(self, done: int, figures: str) -> None:
        if (now := time.perf_counter()) < self._next:
            return
        self._next = now + MIN_SECONDS
        extent = f' value="{done}" max="{self._total}"' if self._total else ""
        count = f"{done}/{self._total}" if self._total else str(done)
        words = html.escape(f"{count} {self._unit} {figures}")
        bar = f"<progress{extent}></progress>"
        self._handle.update(self._html(f"{html.escape(self._description)} {bar} {words}"))

    def message(self, text: str) -> None:
        _write(sys.stdout, text)

    def end(self, line: str) -> None:
        self._handle.update(self._html(html.escape(line)))


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:  # else standard error was closed before the program began
        stream.write(f"{text}\n")
        stream.flush()


def _is_notebook() -> bool:
    """Return whether the program runs in a Jupyter kernel, which displays HTML."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def _console(stream: TextIO | None) -> "Console | None":
    """Return the terminal if a bar can be drawn; rich is imported only if there is one."""
    if stream is None or not stream.isatty():
        return None
    from rich.console import Console

    console = Console(file=stream)
    return console if console.is_terminal and console.is_interactive else None


def in_words(figures: Mapping[str, float | str]) -> str:
    """Return a list of named numbers and texts, for display."""
    texts = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in figures.items()}
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())
