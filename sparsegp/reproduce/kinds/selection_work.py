"""Pipelines that compare the rounds of a selection with their bare matrix products.

The rounds of d inclusions among n rows of p columns need at least 2 n d p + n d^2 floating-point
operations in matrix products: kernel columns, and stub columns from all earlier ones. Each cell is
measured in a process of its own (sparsegp/reproduce/work.py), so that its peak memory is its own.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from sparsegp.errors import Interrupted, SparseGPError
from sparsegp.interrupt import StopRequest
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result

POLL = 0.2
"""Seconds between two looks at the measuring process."""


class SelectionWork(Kind):
    """Measures time and memory of the selection."""

    figures = (
        "seconds of rounds",
        "seconds of products",
        "rounds / products",
        "CPU rounds / products",
        "peak memory, MiB",
        "X + stub, MiB",
        "peak memory / (X + stub)",
    )
    default_figures = figures
    has_curves = False

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Measure in another process, which shows its own progress."""
        command = [sys.executable, "-m", "sparsegp.reproduce.work", str(bench.pipeline), cell.name]
        if bench.folder is not None:
            command.append(str(bench.folder))
        bench.progress.message(f"{cell.name}: measured in a process of its own")
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0
        ) as process:
            answer = json.loads(_last_line(process, bench.stop, cell))
        if "error" in answer:
            raise SparseGPError(answer["error"])
        return {"figures": dict(zip(self.figures, _figures(answer), strict=True)), **answer}

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among the figures."""
        del n_active
        value: float = result["figures"][what]
        return value


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


def _figures(answer: Mapping[str, Any]) -> list[float]:
    """Return the values of `SelectionWork.figures`."""
    mib = 2.0**20
    return [
        answer["rounds_s"],
        answer["products_s"],
        answer["rounds_s"] / answer["products_s"],
        answer["rounds_cpu_s"] / answer["products_cpu_s"],
        answer["peak_bytes"] / mib,
        answer["needed_bytes"] / mib,
        answer["peak_bytes"] / answer["needed_bytes"],
    ]


KINDS.register("selection-work")(SelectionWork())
