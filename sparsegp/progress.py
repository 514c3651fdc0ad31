"""The interface through which a run reports its progress."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

logger = logging.getLogger(__name__)


class Progress:
    """Receiver of the progress of a run, stage by stage. It logs it; subclasses may display it.

    A stage lasts from `start` to `finish`; updates outside a stage are ignored.
    """

    def start(self, total: int, unit: str, description: str) -> None:
        """Start a stage.

        Parameters
        ----------
        total : int
            Total number of units, including those of earlier sessions; 0 if unknown.
        unit : str
            Name of the units, in the plural ("rows").
        description : str
            Name of the stage, in a word or two ("select").
        """
        logger.info("%s: %d %s", description, total, unit)

    def update(self, done: int, **figures: float | str) -> None:
        """Report the number of units done and the latest figures (``heldout_error=0.05``).

        A search reports the best `kernel` so far, as text, and its `heldout_nlpp`.
        """

    def message(self, text: str) -> None:
        """Report a one-line message that remains visible."""
        logger.warning("%s", text)

    def finish(self) -> None:
        """End the stage, if any."""


class Recorded(Progress):
    """Progress that forwards to another one, and records how far the run has come.

    `known` has `stage`, `done`, `total`, `unit`, `figures` and `time` (seconds since 1970, from the
    first update on); it is empty before the first stage. `record` is called with it at each update.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress, self.known = progress, dict[str, Any]()
        self.record: Callable[[Mapping[str, Any]], None] = lambda known: None

    @property
    def extent(self) -> str:
        """Description of the progress of the current stage."""
        if "stage" not in self.known:
            return "at the start"
        of = f"of {self.known['total']} " if self.known["total"] else ""
        return "in {stage} after {done} {of}{unit}".format(**self.known, of=of)

    def start(self, total: int, unit: str, description: str) -> None:
        """Start a stage."""
        self.known = {"stage": description, "total": total, "unit": unit, "done": 0, "figures": {}}
        self._progress.start(total, unit, description)

    def update(self, done: int, **figures: float | str) -> None:
        """Report the number of units done and the latest figures."""
        latest = {**self.known.get("figures", {}), **figures}
        self.known = {**self.known, "done": done, "figures": latest, "time": time.time()}
        self._progress.update(done, **figures)
        self.record(self.known)

    def message(self, text: str) -> None:
        """Report a message that remains visible."""
        self._progress.message(text)

    def finish(self) -> None:
        """End the stage."""
        self._progress.finish()


def watched(
    batches: Iterable[tuple[Any, Any]], progress: Progress, total: int, description: str
) -> Iterator[tuple[Any, Any]]:
    """Yield batches of rows, and report them as a stage of `total` rows (0 if unknown)."""
    progress.start(total, "rows", description)
    done, began = 0, time.perf_counter()
    for X, found in batches:
        yield X, found
        done += len(X)
        rate = done / (time.perf_counter() - began)
        progress.update(done, rows_a_second=f"{float(f'{rate:.2g}'):.0f}")
    progress.finish()
