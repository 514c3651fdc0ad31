"""Progress of a run that also takes the time of its stages."""

import time
from types import TracebackType
from typing import Self

import click

from sparsegp.report.progress import NullProgress, Progress


class Stages:
    """Seconds of named stages, and a `Progress` that is told what they do.

    Parameters
    ----------
    quiet : bool
        Show nothing but warnings.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.shown = NullProgress() if quiet else Progress()
        self.seconds: dict[str, float] = {}
        self._current, self._since = "", 0.0

    def begin(self, name: str) -> None:
        """End the stage of the moment and begin another."""
        now = time.perf_counter()
        if self._current:
            self.seconds[self._current] = self.seconds.get(self._current, 0.0) + now - self._since
        self._current, self._since = name, now

    def taken(self) -> dict[str, float]:
        """End the last stage and return the seconds of all."""
        self.begin("")
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage that counts its units."""
        self.begin(description)
        self.shown.start(total, unit, description)

    def update(self, done: int, **figures: float) -> None:
        """Say how many units are done."""
        self.shown.update(done, **figures)

    def message(self, text: str) -> None:
        """Write a warning, even in a quiet run."""
        if self.quiet:
            click.echo(text, err=True)
        else:
            self.shown.message(text)

    def finish(self) -> None:
        """End a stage that counts its units."""
        self.shown.finish()
        if self._current == "select":
            self.begin("posterior")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shown.finish()
