"""Run unfinished cells: one after the other, in parallel, or in separate processes."""

import json
import os
import resource
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import groupby
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import parse_bytes

from pipelines import baselines, ours
from pipelines.experiment import Cell, Experiment
from pipelines.place import Place, maker
from sparsegp.errors import SettingsError
from sparsegp.interrupt import StopRequest
from sparsegp.report import TerminalProgress
from sparsegp.runtime import Runtime, open_runtime
from sparsegp.store import Directory

SHOWN = ("test error %", "test MSE", "test NLPP", "log evidence", "CPU seconds")
"""Metrics that are reported when a cell is finished."""

Results = Iterator[tuple[Cell, dict[str, Any]]]


@dataclass(frozen=True)
class Work:
    """A pipeline with its data files and its results."""

    experiment: Experiment
    folder: Path | None  # for data files; if they are missing, results count without a comparison
    out: Path  # for results, and for run directories of unfinished cells

    @property
    def path(self) -> Path:
        """File of results: a line for each finished cell, written once and never changed."""
        return self.out / "cells.jsonl"

    def finished(self) -> dict[str, dict[str, Any]]:
        """Return the results of finished cells by key; the last line of a cell counts."""
        stored = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else []:
            with suppress(ValueError):  # a line truncated by a kill
                stored[json.loads(line)["key"]] = json.loads(line)
        files = {cell.key: cell.source.digests(self.folder) for cell in self.experiment.cells}
        pairs = [(key, stored[key]) for key in files if key in stored]
        return {key: line["result"] for key, line in pairs if files[key] in ({}, line["files"])}

    def _save(self, cell: Cell, result: Mapping[str, Any]) -> None:
        """Store the result of a cell with the digests of its data files."""
        made = {"date": str(datetime.now(UTC))[:19], **maker(), "seed": str(cell.seed)}
        line = {"key": cell.key, "cell": cell.name, "files": cell.source.digests(self.folder)}
        line["result"] = {**result, "made": made}
        with self.path.open("a") as file:  # the last line may be truncated by a kill
            file.write(f"\n{json.dumps(line, default=np.ndarray.tolist)}\n")
            file.flush()
            os.fsync(file.fileno())

    def run_missing(self, names: str, where: str | None = None) -> None:
        """Run the cells that are not finished.

        Parameters
        ----------
        names : str
            Run only cells whose names match this pattern, with wildcards as in a shell.
        where : str, optional
            Runtime of the row blocks of cells, as for `sparsegp.runtime.open_runtime`. If given,
            cells for which one thread suffices run in parallel.
        """
        path, cells = self.experiment.path, self.experiment.cells
        if where and self.experiment.process is not None:
            raise SettingsError(f"cells of {path} are timed; leave out {where}")
        chosen = [cell for cell in cells if fnmatchcase(cell.name, names)]
        if not chosen:
            known = ", ".join(cell.name for cell in cells)
            raise SettingsError(f"no cell of {path} matches {names!r}; cells: {known}")
        with ExitStack() as stack:
            stack.callback(os.close, Directory(self.out).lock())  # no other process runs cells here
            finished = self.finished()
            missing = [cell for cell in chosen if cell.key not in finished]
            stop = stack.enter_context(StopRequest())
            progress = stack.enter_context(TerminalProgress())
            at = stack.enter_context(open_runtime(where)) if where and missing else None
            place = Place(self.folder, self.out.absolute() / "runs", at, progress)
            run = self._run_here if self.experiment.process is None else self._run_apart
            for number, (cell, result) in enumerate(run(missing, place, stop), start=1):
                self._save(cell, result)
                figures = result["figures"]
                short = [f"{name} {figures[name]:.4g}" for name in SHOWN if name in figures]
                progress.message(f"{number}/{len(missing)} {cell.name}: {', '.join(short)}")
            if len(self.finished()) == len(cells):
                shutil.rmtree(self.out / "runs", ignore_errors=True)

    def _run_here(self, cells: Sequence[Cell], place: Place, stop: StopRequest) -> Results:
        """Run cells in this process; with a runtime, run the small ones in parallel first."""
        if isinstance(place.where, Runtime):
            small = sorted((cell for cell in cells if cell.is_small), key=lambda cell: cell.task)
            groups = [list(group) for _, group in groupby(small, lambda cell: cell.task)]
            cells = [cell for cell in cells if not cell.is_small]
            shared = (place.folder, place.runs)
            with closing(place.where.run_tasks(_run_task, shared, groups, stop.check)) as ended:
                for index, results in ended:
                    yield from zip(groups[index], results, strict=True)
        for cell in cells:
            stop.check()
            yield cell, perform(cell, place)

    def _run_apart(self, cells: Sequence[Cell], place: Place, stop: StopRequest) -> Results:
        """Run each cell in a separate process."""
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for these processes
        limits = self.experiment.process or {}
        for cell in cells:
            stop.check()
            with ProcessPoolExecutor(1, get_context("spawn")) as executor:
                future = executor.submit(_measure, cell, place.folder, limits)
                while not wait([future], 0.2).done:
                    for child in active_children() if stop.requested else []:
                        child.terminate()
            stop.check()
            if error := future.exception():  # such as a missing library: other cells still run
                place.progress.message(f"{cell.name} failed: {error}")
            else:
                yield cell, future.result()


def _measure(cell: Cell, folder: Path | None, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Run a cell in this process; return its result, with time and memory."""
    if "memory" in limits:
        resource.setrlimit(resource.RLIMIT_DATA, (parse_bytes(limits["memory"]),) * 2)
    workers, threads = cell.spec.get("workers"), limits.get("threads", 1)
    where = f"workers={workers}" if workers else f"threads={threads}"
    with TerminalProgress() as progress:
        return perform(cell, Place(folder, None, where, progress))


def perform(cell: Cell, place: Place) -> dict[str, Any]:
    """Run a cell at a place; return its result, see `pipelines.ours.run`, and the seconds taken.

    If a cell was resumed, these are the seconds of this session only.
    """
    place.progress.message(cell.name)
    began = time.monotonic()
    data = cell.source.load(place.folder, cell.seed)
    own = replace(place, runs=place.runs and place.runs / cell.key)
    run = baselines.run if "estimator" in cell.spec else ours.run
    result = run(cell, data, own)
    if own.runs is not None:
        shutil.rmtree(own.runs, ignore_errors=True)
    return {**result, "seconds": round(time.monotonic() - began, 2)}


def _run_task(shared: tuple[Path | None, Path], cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Run small cells one after another on one thread."""
    with StopRequest(), open_runtime("threads=1") as runtime:
        place = Place(*shared, runtime)
        return [perform(cell, place) for cell in cells]
