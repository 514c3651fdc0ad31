"""Cells for which one thread is enough, side by side on the runtime in use.

A task is one such cell, or several that share a run (`Kind.task_of`). It reads the data files where
it is done. Run directories are those of the results where that is a disk that the worker sees; else
they last as long as the task.
"""

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sparsegp.execution import open_runtime
from sparsegp.interrupt import StopRequest
from sparsegp.report import NullProgress
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.files import write_text
from sparsegp.reproduce.kinds import KINDS, Bench, Kind, Result


class Messages(NullProgress):
    """Keeps what a task has to say."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        """Keep a message."""
        self.texts.append(text)


def tasks_of(kind: Kind, cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells for which one thread is enough, as tasks."""
    tasks: dict[str, list[Cell]] = {}
    for cell in cells:
        name = kind.task_of(cell)
        if name is not None:
            tasks.setdefault(name, []).append(cell)
    return list(tasks.values())


def run_apart(tasks: Sequence[Sequence[Cell]], bench: Bench) -> Iterator[tuple[Cell, Result]]:
    """Yield cells and their results as tasks end.

    Raises
    ------
    Interrupted
        If a stop was requested.
    """
    total = sum(map(len, tasks))
    bench.progress.start(total, "cells", bench.pipeline.stem)
    done = 0
    with bench.opened_runtime() as runtime, _seen(bench.runs) as token:
        folder = None if bench.folder is None else bench.folder.absolute()
        shared = (bench.pipeline, folder, token)
        with closing(runtime.run_tasks(_perform, shared, tasks, bench.stop.check)) as ended:
            for index, (results, texts) in ended:
                for text in texts:
                    bench.progress.message(text)
                yield from zip(tasks[index], results, strict=True)
                done += len(results)
                bench.progress.update(done)
                if done < total:
                    bench.stop.check()
    bench.progress.finish()


@contextmanager
def _seen(runs: Path) -> Iterator[Path]:
    """Yield a file in the folder of runs, by which a worker knows whether it sees that."""
    token = runs.absolute() / f".{uuid.uuid4().hex}"
    write_text(token, "")
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)


def _perform(
    shared: tuple[Path, Path | None, Path], task: Sequence[Cell]
) -> tuple[list[Result], list[str]]:
    """Run the cells of a task in one thread; return their results and messages."""
    pipeline, folder, token = shared
    said = Messages()
    with ExitStack() as stack:
        runs = token.parent
        if not token.exists():
            runs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sparsegp-")))
        stop = stack.enter_context(StopRequest())
        runtime = stack.enter_context(open_runtime(threads=1))
        bench = Bench(pipeline, folder, runs, said, stop, 0, runtime=runtime)
        return [KINDS[cell.kind].perform(cell, bench) for cell in task], said.texts
