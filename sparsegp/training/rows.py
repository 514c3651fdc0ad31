"""The training rows of a run as a posterior sees them, and which of them are kept aside."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.interrupt import StopRequest
from sparsegp.settings import TrainSettings
from sparsegp.types import Booleans, Integers

if TYPE_CHECKING:
    from sparsegp.training.run import Training

ROUNDS_PER_CHECKPOINT = 10


class TrainingRows:
    """The training rows of a run, as a posterior sees them (`posterior.base.Rows`)."""

    def __init__(self, run: "Training", stop: StopRequest | None) -> None:
        self.run, self.stop = run, stop
        self.n_rows = run.data.summary.n
        self.precision = run.settings.dtype
        self.tolerance = run.settings.tolerance
        self.calibrate = run.settings.keeps_rows_aside
        self.former: Mapping[str, NDArray[Any]] = run.posterior_state
        self.rounds = int(self.former.get("rounds", 0))

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        """Call a method on the blocks of training rows."""
        return self.run.ask_training_blocks(method, *args)

    def sum_blocks(self, method: str, *args: Any) -> Any:
        """Return the sum of the answers of the blocks of training rows."""
        return self.run.sum_training_blocks(method, *args)

    def say(self, state: Callable[[], dict[str, NDArray[Any]]], **figures: float) -> None:
        """Count a round, show progress, write a checkpoint now and then, and stop if asked to.

        Raises
        ------
        Interrupted
            If a stop was requested.
        """
        self.rounds += 1
        self.run.progress.update(self.rounds, **figures)
        stopping = self.stop is not None and bool(self.stop.requested)
        if stopping or self.rounds % ROUNDS_PER_CHECKPOINT == 0:
            self.run.posterior_state = {**state(), "rounds": np.array(self.rounds)}
            kept = self.run.save(self.rounds)
            if stopping and self.stop is not None:
                self.run.interrupt(self.stop.requested, kept)


def choose_aside(n: int, settings: TrainSettings, origin: Integers | None = None) -> Booleans:
    """Return which training rows are kept aside for calibration, (n,), by a keyed permutation.

    A row and its copies are kept aside together or not at all: rows that are much like those that
    were learnt from would tell too little. With copies they may be a few rows less.

    Parameters
    ----------
    n : int
    settings : TrainSettings
    origin : Integers (n,), optional
        Where there are copies: for each row the number of its original.
    """
    rng, left = np.random.default_rng([settings.seed, n]), settings.rows_aside(n)
    family, sizes = np.arange(n), np.ones(n, dtype=np.int64)
    if origin is not None:
        _, family, sizes = np.unique(origin, return_inverse=True, return_counts=True)
    chosen = np.zeros(len(sizes), dtype=bool)
    for one in rng.permutation(len(sizes)):
        if left == 0:
            break
        if sizes[one] <= left:
            chosen[one] = True
            left -= sizes[one]
    return np.asarray(chosen[family])
