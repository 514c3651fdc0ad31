"""A progress bar on a terminal. It is drawn by rich, which is imported only when there is one."""

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Group

    from sparsegp.report.progress import Progress

BAR_WIDTH = 40
"""Columns of the bar where there is room."""


def can_draw(stream: TextIO) -> bool:
    """Whether a terminal can move its cursor and the user has not forbidden it."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(file=stream)
    return console.is_terminal and console.is_interactive


class Bar:
    """Two lines at the foot of a terminal: the bar with rate and time left, and the figures.

    What is written meanwhile to the same terminal by `print`, warnings and logging appears above
    them. A terminal that is gone does not end the work.
    """

    def __init__(self, progress: "Progress", stream: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        self._progress = progress
        self._console = Console(file=stream)
        live = Live(
            console=self._console,
            get_renderable=self._draw,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr is stream,
        )
        with ExitStack() as stack:
            stack.enter_context(live)
            stack.enter_context(_logging_moved(stream, sys.stderr))
            self._open = stack.pop_all()

    def refresh(self) -> None:
        """Do nothing: a thread of the display draws four times a second."""

    def print(self, text: str) -> None:
        """Write a line above the bar."""
        from rich.text import Text  # noqa: PLC0415

        with suppress(OSError):
            self._console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        with suppress(OSError):
            self._open.close()

    def _draw(self) -> "Group":
        from rich.console import Group  # noqa: PLC0415
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        progress = self._progress
        texts = [Text(progress.description), Text(progress.state)]
        room = self._console.width - sum(text.cell_len + 1 for text in texts)
        bar = ProgressBar(total=1.0, completed=progress.fraction, width=min(BAR_WIDTH, room))
        row = Table.grid(padding=(0, 1))
        row.add_row(texts[0], *([bar] if room >= 5 else []), texts[1])
        figures = Text(progress.figures, no_wrap=True, overflow="ellipsis")
        return Group(row, *([figures] if figures else []))


@contextmanager
def _logging_moved(old: TextIO, new: TextIO) -> Iterator[None]:
    """Let handlers that log to `old` write to `new` meanwhile."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    handlers = {
        handler
        for logger in loggers
        if isinstance(logger, logging.Logger)
        for handler in logger.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is old
    }
    for handler in handlers:
        handler.setStream(new)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(old)
