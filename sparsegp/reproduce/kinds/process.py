"""A cell in a process of its own, so that its memory and its threads are its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from sparsegp.errors import Interrupted, SparseGPError
from sparsegp.interrupt import StopRequest
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import Bench

POLL = 0.2
"""Seconds between two looks at the process."""


def answer_of(
    module: str, cell: Cell, bench: Bench, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the JSON on the last line of what ``python -m MODULE PIPELINE CELL [DATA]`` prints.

    Parameters
    ----------
    module : str
    cell : Cell
    bench : Bench
    environment : mapping, optional
        Added to that of this process.

    Raises
    ------
    SparseGPError
        If the process says ``{"error": ...}``, or ends without an answer.
    Interrupted
        If a stop was requested; the process is ended.
    """
    command = [sys.executable, "-m", module, str(bench.pipeline), cell.name]
    if bench.folder is not None:
        command.append(str(bench.folder))
    bench.progress.message(f"{cell.name}: measured in a process of its own")
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, **(environment or {})},
    ) as process:
        answer: dict[str, Any] = json.loads(_last_line(process, bench.stop, cell))
    if "error" in answer:
        raise SparseGPError(answer["error"])
    return answer


def _last_line(process: "subprocess.Popen[str]", stop: StopRequest, cell: Cell) -> str:
    """Wait for what the process prints; end it when a stop is requested."""
    while True:
        try:
            printed, _ = process.communicate(timeout=POLL)
        except subprocess.TimeoutExpired:
            if not stop.requested:
                continue
            process.terminate()
            process.wait()
            raise Interrupted(f"stopped by {stop.requested}") from None
        except BaseException:
            process.kill()
            raise
        if not printed.strip():
            raise SparseGPError(f"{cell.name}: the measurement ended with {process.returncode}")
        return printed.splitlines()[-1]
