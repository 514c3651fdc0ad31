"""Measure one classifier: ``python -m sparsegp.reproduce.contest PIPELINE CELL [DATA]``.

Prints JSON on its last line.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sparsegp.data import Table, encode_with
from sparsegp.errors import DataError
from sparsegp.report import Evaluation, Progress, evaluate
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants import CONTESTANTS, Fitted, in_memory
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
    if dataset.test is None:
        raise DataError(f"{dataset.train.source} has no test rows; a pipeline needs them")
    contestant = CONTESTANTS[cell.options["model"]]
    with threadpool_limits(1):
        fit = contestant.prepare(dataset.train, cell, progress)
        forget_peak()
        wall, cpu = time.perf_counter(), time.process_time()
        fitted = fit()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        peak = peak_bytes()
        figures = judge(fitted, dataset.test).to_json()
    names = ("error", "nlpp", "brier", "ece") if fitted.log_probabilities else ("error",)
    kept = {name: figures[name] for name in names}
    stages = {f"{name}_cpu_s": seconds for name, seconds in fitted.stages.items()}
    return {
        "figures": {**kept, "cpu_s": cpu, "wall_s": wall, "peak_bytes": peak, **stages},
        "n_train": dataset.train.X.shape[0],
        "n_test": figures["n"],
        "settings": fitted.settings,
        "details": fitted.details,
    }


def judge(fitted: Fitted, test: Table) -> Evaluation:
    """Evaluate on test rows; labels alone are taken as certain."""
    X = np.asarray(test.X)
    target, _ = encode_with(fitted.classes, test.y, test.source)
    if fitted.log_probabilities is not None:
        return evaluate(fitted.log_probabilities(X), target, fitted.classes)
    logs = np.full((len(X), len(fitted.classes)), -np.inf)
    logs[np.arange(len(X)), fitted.codes(X)] = 0.0
    return evaluate(logs, target, fitted.classes)


def forget_peak() -> None:
    """Let the peak memory of this process begin anew, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main(measure, *sys.argv[1:])
