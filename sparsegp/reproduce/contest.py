"""Measure one classifier: ``python -m sparsegp.reproduce.contest PIPELINE CELL [DATA]``.

Prints JSON on its last line.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from sparsegp.report import Progress
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants import CONTESTANTS, in_memory
from sparsegp.reproduce.judge import Predictions, held_out
from sparsegp.reproduce.work import main, peak_bytes


def measure(cell: Cell, folder: Path | None, progress: Progress) -> dict[str, Any]:
    """Fit and evaluate the model of a cell.

    Returns
    -------
    dict
        Figures: those of the test rows, without those that need probabilities where there are
        none; processor and wall seconds of the fit, and peak memory. Settings in words.
    """
    dataset = in_memory(cell.source.load(folder, cell.data_seed))
    test = held_out(dataset)
    contestant = CONTESTANTS[cell.options["model"]]
    with threadpool_limits(1):
        fit = contestant.prepare(dataset.train, cell, progress)
        forget_peak()
        wall, cpu = time.perf_counter(), time.process_time()
        fitted = fit()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        peak = peak_bytes()
        figures = Predictions.of(fitted, test).figures(dataset)
    stages = {f"{name}_cpu_s": seconds for name, seconds in fitted.stages.items()}
    return {
        "figures": {**figures, "cpu_s": cpu, "wall_s": wall, "peak_bytes": peak, **stages},
        "n_train": dataset.train.X.shape[0],
        "n_test": test.X.shape[0],
        "settings": fitted.settings,
        "details": fitted.details,
    }


def forget_peak() -> None:
    """Let the peak memory of this process begin anew, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main(measure, *sys.argv[1:])
