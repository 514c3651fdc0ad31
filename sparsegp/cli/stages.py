"""Progress of a run that also takes the time of its stages."""

import time

from sparsegp.cli.output import visible
from sparsegp.report.progress import Progress


class Stages(Progress):
    """Shows one stage after another, and keeps their seconds.

    Parameters
    ----------
    quiet : bool
        Show nothing but warnings.
    """

    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self.quiet = quiet
        self.seconds: dict[str, float] = {}
        self._stage, self._since = "", 0.0

    def begin(self, name: str) -> None:
        """End the present stage and begin another."""
        now = time.perf_counter()
        if self._stage:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = name, now

    def taken(self) -> dict[str, float]:
        """End the last stage and return the seconds of all."""
        self.begin("")
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage that counts its units."""
        if not self.quiet:
            super().start(total, unit, description)  # which ends the stage before
        self.begin(description)

    def message(self, text: str) -> None:
        """Write a warning, even in a quiet run."""
        super().message(visible(text))

    def finish(self) -> None:
        """End a stage that counts its units."""
        super().finish()
        if self._stage == "select":
            self.begin("posterior")
