"""Measure one run on many rows: ``python -m sparsegp.reproduce.scale PIPELINE CELL [DATA]``.

The rows are drawn into a zarr group chunk by chunk, read from there by the run, and deleted in the
end. All of it happens under the limit of the cell on the memory of this process. Prints JSON on its
last line.
"""

import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from sparsegp.data import Dataset, open_dataset
from sparsegp.data.mixture import Mixture
from sparsegp.errors import SettingsError
from sparsegp.execution import open_runtime
from sparsegp.execution.memory import read_size
from sparsegp.interrupt import StopRequest
from sparsegp.model import Model
from sparsegp.report import Progress
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.work import main, peak_bytes
from sparsegp.training import Training

T = TypeVar("T")

LOOK_SECONDS = 0.05


def measure(cell: Cell, folder: Path | None, progress: Progress) -> dict[str, Any]:
    """Draw the rows, train on them and predict, as the cell says.

    Returns
    -------
    dict
        Wall and processor seconds of each stage; the peak of private memory, and of all memory,
        in which pages of scratch files count that the system may take back at any time; error and
        nlpp on held-out rows, by the true probabilities of the classes, beside the least possible.
    """
    del folder
    options = cell.options
    if options["memory"]:
        limit = read_size(options["memory"])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    truth = Mixture(options["columns"], cell.settings.seed)
    place = options["folder"] or None
    with tempfile.TemporaryDirectory(dir=place, prefix="sparsegp-scale-") as room:
        store, seconds = Path(room) / "rows.zarr", Stages()
        with PrivateMemory() as memory, StopRequest() as stop:
            seconds.timed("draw", lambda: truth.write(store, options["rows"], options["held_out"]))
            stop.check()
            dataset = open_dataset(str(store))
            scratch = room if options["scratch"] else None
            model = train(dataset, cell, scratch, progress, stop, seconds)
            figures = seconds.timed("predict", lambda: judge(model, truth, options["held_out"]))
        return {
            "figures": figures,
            "seconds": seconds.wall,
            "cpu_seconds": seconds.cpu,
            "private_bytes": memory.peak,
            "peak_bytes": peak_bytes(),
            "data_bytes": dataset.train.X.nbytes,
            "calibration": model.report,
        }


def train(
    dataset: Dataset,
    cell: Cell,
    scratch: str | None,
    progress: Progress,
    stop: StopRequest,
    seconds: "Stages",
) -> Model:
    """Train on one thread or so many workers, stage by stage."""

    def begun() -> Training:
        run = Training(
            dataset.train,
            cell.sparse_settings,
            runtime=runtime,
            scratch=scratch,
            progress=progress,
        )
        run.build()
        return run

    workers = cell.options["workers"]
    place = {"workers": workers} if workers else {"threads": 1}
    with open_runtime(**place) as runtime, seconds.timed("read", begun) as run:
        stop.check()
        seconds.timed("select", lambda: run.select(stop))
        return seconds.timed("posterior", lambda: run.finish(stop, keep_blocks=False))


def judge(model: Model, truth: Mixture, n_rows: int) -> dict[str, float]:
    """Return error and nlpp on held-out rows, by what the labels are likely to be.

    The probability of an error at x is one less the true probability of the class that is
    predicted, so the labels that were drawn, and their noise, do not matter.
    """
    sums = dict.fromkeys(("error", "least_error", "nlpp", "least_nlpp"), 0.0)
    for _, X, _ in truth.chunks("test", n_rows):
        true, ours = truth.log_probabilities(X), model.predict_log_proba(X)
        p, chosen = np.exp(true), ours.argmax(axis=1)
        sums["error"] += float((1.0 - p[np.arange(len(p)), chosen]).sum())
        sums["least_error"] += float((1.0 - p.max(axis=1)).sum())
        sums["nlpp"] -= float((p * ours).sum())
        sums["least_nlpp"] -= float((p * true).sum())
    return {name: total / n_rows for name, total in sums.items()}


class Stages:
    """Wall and processor seconds of the stages of a run."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], T]) -> T:
        """Return what `work` returns, and take its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = work()
        self.wall[name] = time.perf_counter() - wall
        self.cpu[name] = time.process_time() - cpu
        return found


class PrivateMemory:
    """Watches the resident memory of this process that is in no file.

    Attributes
    ----------
    peak : int
        The most bytes seen.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        self.peak = max(self.peak, private_bytes())


def private_bytes() -> int:
    """Return the resident bytes of this process that are in no file.

    Raises
    ------
    SettingsError
        If the system does not tell.
    """
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    except OSError:
        raise SettingsError("pipelines of kind 'scale' need Linux, which tells memory") from None
    return (int(resident) - int(shared)) * resource.getpagesize()


if __name__ == "__main__":
    main(measure, *sys.argv[1:])
