"""Progress of a run that also takes the time of its stages, and writes it down for others."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from sparsegp.cli.verdict import verdict
from sparsegp.report.journal import Ending, Journal
from sparsegp.report.progress import NullProgress, Progress

if TYPE_CHECKING:
    from sparsegp.checkpoint import Place


class Stages:
    """Seconds of named stages, and a `Progress` that is told what they do.

    Parameters
    ----------
    quiet : bool
        Show nothing but warnings.
    run : Path or StorePath, optional
        The run, where `sparsegp attach` finds the progress.
    """

    def __init__(self, quiet: bool, run: "Place | None" = None) -> None:
        self.quiet = quiet
        self.journal = None if run is None else Journal(run)
        self.ending = Ending(0)
        self.shown = NullProgress() if quiet else Progress()
        self.seconds: dict[str, float] = {}
        self._current, self._since = "", 0.0

    def begin(self, name: str) -> None:
        """End the stage of the moment and begin another."""
        now = time.perf_counter()
        if self._current:
            self.seconds[self._current] = self.seconds.get(self._current, 0.0) + now - self._since
        self._current, self._since = name, now
        if self.journal is not None:
            self.journal.begin(name)

    def taken(self) -> dict[str, float]:
        """End the last stage and return the seconds of all."""
        self.begin("")
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}

    def done(self, record: Mapping[str, Any], summary: Sequence[tuple[str, str]]) -> None:
        """Keep what the command prints at its end."""
        self.ending = Ending(0, "", dict(record), tuple(summary))

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage that counts its units."""
        self.begin(description)
        self.shown.start(total, unit, description)
        if self.journal is not None:
            self.journal.start(total, unit, description)

    def update(self, done: int, **figures: float) -> None:
        """Say how many units are done."""
        self.shown.update(done, **figures)
        if self.journal is not None:
            self.journal.update(done, **figures)

    def message(self, text: str) -> None:
        """Write a warning, even in a quiet run."""
        if self.quiet:
            click.echo(text, err=True)
        else:
            self.shown.message(text)
        if self.journal is not None:
            self.journal.message(text)

    def finish(self) -> None:
        """End a stage that counts its units."""
        self.shown.finish()
        if self.journal is not None:
            self.journal.finish()
        if self._current == "select":
            self.begin("posterior")

    def __enter__(self) -> Self:
        if self.journal is not None:
            self.journal.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shown.finish()
        if self.journal is not None:
            self.journal.close(self.ending if error is None else _failed(error))


def _failed(error: BaseException) -> Ending:
    return Ending(*(verdict(error) or (1, f"error: {type(error).__name__}: {error}")))
