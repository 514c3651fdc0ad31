"""The model of this package, as a contestant."""

import time
from collections.abc import Callable
from typing import Any

from sparsegp.data import Table
from sparsegp.model import Model
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants.base import CONTESTANTS, Contestant, Fitted
from sparsegp.reproduce.toml import Section
from sparsegp.settings import TrainSettings
from sparsegp.training import Progress


class Ours(Contestant):
    """The model of this package. Scaling its inputs is part of the fit."""

    title = "sparsegp"
    settings_used = None
    takes_all_rows = False

    def read(self, section: Section) -> dict[str, Any]:
        """All is in the settings."""
        del section
        return {}

    def prepare(self, train: Table, cell: Cell, progress: Progress) -> Callable[[], Fitted]:
        """Train on one thread, without held-out rows."""
        from sparsegp.training import train as fit  # noqa: PLC0415 - takes no part in the time

        settings, watch = cell.settings, StageWatch(progress)

        def work() -> Fitted:
            model = fit(train, threads=1, progress=watch, **settings.to_json())
            return Fitted(
                model.classes,
                model.predict_log_proba,
                lambda X: model.predict_log_proba(X).argmax(axis=1),
                _words(model),
                {"posterior": model.report},
                watch.seconds,
            )

        return work


class StageWatch:
    """Progress that also takes the processor time of each stage.

    Parameters
    ----------
    shown : Progress
        Where the progress goes.

    Attributes
    ----------
    seconds : dict
        By what the stage is called.
    """

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.seconds: dict[str, float] = {}
        self._stage, self._since = "", 0.0

    def start(self, total: int, unit: str, description: str) -> None:
        """Begin a stage."""
        self.shown.start(total, unit, description)
        self._stage, self._since = description, time.process_time()

    def update(self, done: int, **figures: float) -> None:
        """Pass it on."""
        self.shown.update(done, **figures)

    def message(self, text: str) -> None:
        """Pass it on."""
        self.shown.message(text)

    def finish(self) -> None:
        """End the stage."""
        self.seconds[self._stage] = time.process_time() - self._since
        self.shown.finish()


def _words(model: Model) -> str:
    kernels = "; ".join(dict.fromkeys(str(kernel) for kernel in model.kernels))
    settings = TrainSettings.from_json(model.settings)
    return (
        f"d={len(model.rows)}, {kernels}, inputs {model.scaling.name}, "
        f"{settings.criterion}, panel {settings.order.panel}, {settings.posterior}"
    )


CONTESTANTS.register("sparsegp")(Ours())
