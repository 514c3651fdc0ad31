"""Run what is missing of a pipeline, then tabulate and draw all of it."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sparsegp.checkpoint import RunLock
from sparsegp.errors import Interrupted, SettingsError, StoreError
from sparsegp.execution import open_runtime
from sparsegp.interrupt import StopRequest
from sparsegp.report import NullProgress, Progress
from sparsegp.reproduce.apart import run_apart, tasks_of
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.curves import draw_curves, write_curves
from sparsegp.reproduce.files import CellStore, write_csv
from sparsegp.reproduce.kinds import Bench
from sparsegp.reproduce.pipeline import Pipeline, read_pipeline
from sparsegp.reproduce.sources import Source, data_folder
from sparsegp.reproduce.summary import summarise, summary_lines
from sparsegp.reproduce.table import COLUMNS, Row, as_text, tabulate


@dataclass(frozen=True)
class Outcome:
    """What a pipeline gave.

    Parameters
    ----------
    pipeline : Pipeline
    out : Path
        Where results are.
    rows : sequence of Row
        The table.
    finished, run : sequence of str
        Cells that are finished, and those of them that were run just now.
    note : str
        Something to know, or nothing.
    summary : sequence of dict
        A record for each variant, where the kind of pipeline has a summary.
    """

    pipeline: Pipeline
    out: Path
    rows: Sequence[Row]
    finished: Sequence[str]
    run: Sequence[str]
    note: str = ""
    summary: Sequence[Mapping[str, Any]] = ()

    def lines(self) -> list[str]:
        """Return what is printed."""
        total = len(self.pipeline.cells)
        heading = ". ".join(filter(None, (self.pipeline.title, self.pipeline.paper)))
        counts = f"{len(self.finished)} of {total} cells finished, {len(self.run)} of them run now"
        table = as_text(self.rows)
        if self.pipeline.kind.has_summary:
            aims = [row for row in self.rows if row.goal is not None and row.ours is not None]
            table = [*summary_lines(self.summary), *(["", *as_text(aims)] if aims else [])]
        lines = [heading, "", *table, "", f"{counts}; results in {self.out}"]
        return [*lines, self.note] if self.note else lines

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "pipeline": str(self.pipeline.path),
            "title": self.pipeline.title,
            "out": str(self.out),
            "cells": len(self.pipeline.cells),
            "finished": list(self.finished),
            "run": list(self.run),
            "table": [row.to_json() for row in self.rows],
            "summary": [dict(record) for record in self.summary],
        }


def reproduce(
    path: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    cells: str = "*",
    progress: Progress | None = None,
    **where: Any,
) -> Outcome:
    """Run the missing cells of a pipeline, and compare with what was published.

    Cells that are finished are not run again, unless what the pipeline says about them, or their
    data files, have changed. An interrupted call is gone on with by the same call.

    Parameters
    ----------
    path : path
        The pipeline, a TOML file.
    data : path, optional
        Folder of data files; that of the environment variable SPARSEGP_DATA if left out.
    out : path, optional
        Folder for results, ``results/<name of the pipeline>`` if left out.
    cells : str
        Run only cells whose names match, with wildcards as in a shell.
    progress : Progress, optional
    **where
        Arguments of `sparsegp.execution.open_runtime`, such as `workers` or `cluster`: where the
        row blocks of the cells live. Only for kinds of pipelines that can be run anywhere.

    Returns
    -------
    Outcome

    Raises
    ------
    SettingsError, DataError, StoreError, ClusterError
        What must be mended, in one sentence.
    Interrupted
        On SIGTERM or Ctrl-C.
    """
    pipeline = read_pipeline(Path(path))
    if where and not pipeline.kind.moves:
        raise SettingsError(
            f"pipelines of kind={pipeline.kind_name} run in threads of this process; leave out "
            f"{' and '.join(where)}"
        )
    folder = data_folder(data)
    store = CellStore(Path(out) if out is not None else Path("results") / pipeline.name)
    chosen = [cell for cell in pipeline.cells if fnmatchcase(cell.name, cells)]
    if not chosen:
        names = ", ".join(cell.name for cell in pipeline.cells)
        raise SettingsError(f"no cell of {path} matches {cells!r}; cells: {names}")
    with ExitStack() as stack:
        lock = RunLock(store.out / "lock")
        lock.acquire()
        stack.callback(lock.release)
        digests = _digests(pipeline, folder)
        missing = [c for c in chosen if store.load(c, digests[c.source]) is None]
        stop = stack.enter_context(StopRequest())
        total = sum(cell.n_active for cell in missing)
        shown = stack.enter_context(progress or NullProgress())
        runtime = stack.enter_context(open_runtime(**where)) if where and missing else None
        bench = Bench(pipeline.path, folder, store.runs, shown, stop, total, runtime=runtime)
        _run(pipeline, missing, bench, store, digests)
        return _conclude(pipeline, store, digests, [cell.name for cell in missing])


def standing(
    path: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Outcome:
    """Compare what is finished of a pipeline with what was published; nothing is run.

    Parameters as for `reproduce`. Data files that are not there are not compared with those of the
    finished cells.

    Raises
    ------
    SettingsError, StoreError
        If the pipeline cannot be read, or the table not be written.
    """
    pipeline = read_pipeline(Path(path))
    store = CellStore(Path(out) if out is not None else Path("results") / pipeline.name)
    return _conclude(pipeline, store, _digests(pipeline, data_folder(data)), [])


def _digests(pipeline: Pipeline, folder: Path | None) -> dict[Source, Mapping[str, str]]:
    sources = {cell.source for cell in pipeline.cells}
    return {source: source.digests(folder) for source in sources}


def _run(
    pipeline: Pipeline,
    missing: Sequence[Cell],
    bench: Bench,
    store: CellStore,
    digests: Mapping[Source, Mapping[str, str]],
) -> None:
    for cell in missing:
        store.drop_runs(cell, keep=cell.run_name)
    tasks = tasks_of(pipeline.kind, missing) if bench.runtime is not None else []
    if len(tasks) > 1:
        missing = [cell for cell in missing if pipeline.kind.task_of(cell) is None]
        try:
            for cell, result in run_apart(tasks, bench):
                store.save(cell, digests[cell.source], result)
        except Interrupted:
            _go_on(bench.stop, "cells side by side")
            raise
    for cell in missing:
        _go_on(bench.stop, cell.name)
        try:
            result = pipeline.kind.perform(cell, bench)
        except Interrupted:
            _go_on(bench.stop, cell.name)
            raise
        bench.done += cell.n_active
        store.save(cell, digests[cell.source], result)
    bench.progress.description = pipeline.name


def _go_on(stop: StopRequest, where: str) -> None:
    if stop.requested:
        raise Interrupted(
            f"stopped by {stop.requested} at {where}; the same command goes on from here"
        )


def _draw(pipeline: Pipeline, results: Mapping[str, Mapping[str, Any]], out: Path) -> str:
    """Draw what the kind of pipeline draws of each cell; return why there is nothing, if so."""
    finished = [cell for cell in pipeline.cells if cell.name in results]
    try:
        for cell in finished:
            pipeline.kind.draw(cell, results[cell.name], out)
        pipeline.kind.draw_together(finished, results, out)
    except (SettingsError, StoreError) as error:
        return f"no picture: {error}"
    return ""


def _conclude(
    pipeline: Pipeline,
    store: CellStore,
    digests: Mapping[Source, Mapping[str, str]],
    run: Sequence[str],
) -> Outcome:
    """Tabulate and draw all cells that are finished."""
    results = {}
    for cell in pipeline.cells:
        result = store.load(cell, digests[cell.source])
        if result is not None:
            results[cell.name] = result
    rows = tabulate(pipeline, results)
    write_csv(store.out / "table.csv", COLUMNS, [row.to_json() for row in rows])
    note, summary = _draw(pipeline, results, store.out), []
    if pipeline.kind.has_summary:
        summary = summarise(pipeline, results)
        columns = list(dict.fromkeys(name for record in summary for name in record))
        write_csv(store.out / "summary.csv", columns, summary)
    if pipeline.kind.has_curves:
        write_curves(pipeline, results, store.out / "curves.csv")
        try:
            note = draw_curves(pipeline, results, store.out)[1] or note
        except StoreError as error:
            note = str(error)
    return Outcome(pipeline, store.out, rows, list(results), run, note, summary)
