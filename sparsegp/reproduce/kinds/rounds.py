"""Pipelines that measure what a round of messages costs, by the number of worker processes.

A round sends one message to the blocks of all workers, one block each, and waits for all answers.
These blocks compute nothing, so the time is that of the messages alone. Without `workers` they are
objects in the threads of this process. The data of a cell are not looked at.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sparsegp.errors import Interrupted
from sparsegp.execution import Part, Runtime, open_runtime
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.reproduce.toml import Section

WARM_UP = 20
"""Rounds that are not counted."""

START_SECONDS = 600.0
"""Many processes on few processors take their time to start."""

LEAST = {"workers": 0, "rounds": 1, "message_bytes": 0, "answer_bytes": 0}
"""Options, and their least values."""


class Idle:
    """A block that computes nothing."""

    def answer(self, message: bytes, n_bytes: int) -> bytes:
        """Return so many bytes."""
        del message
        return bytes(n_bytes)


class Rounds(Kind):
    """Times rounds, one by one."""

    figures = ("ms a round", "ms a round, 95 %", "ms a round and worker")
    default_figures = figures
    has_curves = False

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take the number of workers and of rounds, and the bytes of a message and an answer."""
        options = {
            "workers": section.take("workers", int, 0),
            "rounds": section.take("rounds", int, 300),
            "message_bytes": section.take("message_bytes", int, 4096),
            "answer_bytes": section.take("answer_bytes", int, 4096),
        }
        for name, least in LEAST.items():
            if options[name] < least:
                raise section.error(name, f"must be at least {least}, got {options[name]}")
        return options

    def settings_used(self, options: Mapping[str, Any]) -> Collection[str] | None:
        """Return what every cell must say; no model is trained."""
        del options
        return ("n_active",)

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Take the time of each round."""
        workers = cell.options["workers"]
        with _runtime(workers) as runtime:
            n_blocks = workers or runtime.n_workers
            seconds = _rounds(runtime, n_blocks, cell.options, bench)
        median, high = np.quantile(seconds, [0.5, 0.95]) * 1e3
        values = (median, high, median / n_blocks)
        return {"figures": dict(zip(self.figures, map(float, values), strict=True))}

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among the figures."""
        del n_active
        value: float = result["figures"][what]
        return value


def _runtime(workers: int) -> Runtime:
    if not workers:
        return open_runtime()
    from sparsegp.execution.dask import DaskRuntime  # noqa: PLC0415 - loads distributed

    return DaskRuntime.local(workers, timeout=START_SECONDS)


def _rounds(
    runtime: Runtime, n_blocks: int, options: Mapping[str, Any], bench: Bench
) -> list[float]:
    """Return the seconds of each round."""
    runtime.build(Idle, [Part(index) for index in range(n_blocks)])
    message, seconds = bytes(options["message_bytes"]), []
    for _ in range(WARM_UP + options["rounds"]):
        began = time.perf_counter()
        runtime.map_blocks("answer", message, options["answer_bytes"])
        seconds.append(time.perf_counter() - began)
        if bench.stop.requested:
            raise Interrupted(f"stopped by {bench.stop.requested}; this cell begins anew next time")
    return seconds[WARM_UP:]


KINDS.register("rounds")(Rounds())
