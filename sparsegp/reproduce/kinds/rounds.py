"""Pipelines that measure what a round of messages costs, by the number of worker processes.

A round sends one message to the blocks of all workers, one block each, and waits for all answers.
These blocks compute nothing, so the time is that of the messages alone. Without `workers` they are
objects in the threads of this process. The data of a cell are not looked at.

Wall time depends on what else a machine does; processor time of the driver and of the workers much
less. They are the constants of the model in `sparsegp.estimate.rounds`; `complete` adds what it
foretells, with constants fitted to the cells of the file. Variants with `simulated` are foretold
only: so many workers as nobody has, each on a processor of its own, which compute for a while.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sparsegp.errors import Interrupted
from sparsegp.estimate.rounds import Costs, Measured, fitted, simulate, straggling
from sparsegp.execution import Part, Runtime, open_runtime
from sparsegp.execution.threads import usable_cpus
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

    def processor_seconds(self) -> float:
        """Return the processor time of the process so far."""
        return time.process_time()


MEASURED = (
    "ms a round",
    "ms a round, 5 %",
    "ms a round, 95 %",
    "ms a round and worker",
    "driver, CPU ms a call",
    "worker, CPU ms a call",
)
FORETOLD = "ms a round, foretold"

SIMULATED = 20
"""Rounds of a simulated cell."""

LEAST_CELLS = 2
"""Cells with workers from which the costs of messages can be told."""


class Rounds(Kind):
    """Times rounds, one by one."""

    figures = (*MEASURED, FORETOLD)
    default_figures = figures
    has_curves = False

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take the number of workers and of rounds, and the bytes of a message and an answer."""
        options: dict[str, Any] = {
            "workers": section.take("workers", int, 0),
            "rounds": section.take("rounds", int, 300),
            "message_bytes": section.take("message_bytes", int, 4096),
            "answer_bytes": section.take("answer_bytes", int, 4096),
        }
        if section.take("simulated", bool, False):
            options["compute_ms"] = section.take("compute_ms", float)
            options["spread"] = section.take("spread", float, 0.1)
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
        if "compute_ms" in cell.options:
            return {"figures": {}}  # see complete
        with _runtime(workers) as runtime:
            n_blocks = workers or runtime.n_workers
            seconds, own, theirs = _rounds(runtime, n_blocks, cell.options, bench)
        low, median, high = np.quantile(seconds, [0.05, 0.5, 0.95]) * 1e3
        calls = 1e-3 * n_blocks * len(seconds)
        values = (median, low, high, median / n_blocks, own / calls, theirs / calls)
        return {"figures": dict(zip(MEASURED, map(float, values), strict=True))}

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among the figures."""
        del n_active
        value: float | None = result["figures"].get(what)
        return value

    def complete(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Add what the model says of rounds that nothing else on the machine disturbs."""
        completed, measured = dict(results), {}
        done = [cell for cell in cells if cell.name in results]
        for cell in done:
            if cell.options["workers"] and results[cell.name]["figures"]:
                measured[cell.name] = _measured(cell, results[cell.name]["figures"])
        if len(measured) < LEAST_CELLS:
            return completed
        cores = usable_cpus()
        costs = fitted(list(measured.values()), cores)
        for name, one in measured.items():
            seconds = simulate(costs, np.zeros(one.n_workers), one.n_bytes, cores)
            figures = {**results[name]["figures"], FORETOLD: 1e3 * seconds}
            completed[name] = {**results[name], "figures": figures, "costs": asdict(costs)}
        for cell in done:
            if "compute_ms" in cell.options:
                completed[cell.name] = {"figures": {FORETOLD: 1e3 * _simulated(cell, costs)}}
        return completed


def _measured(cell: Cell, figures: Mapping[str, float]) -> Measured:
    return Measured(
        n_workers=cell.options["workers"],
        n_bytes=cell.options["message_bytes"] + cell.options["answer_bytes"],
        seconds=1e-3 * figures["ms a round, 5 %"],
        driver=1e-3 * figures["driver, CPU ms a call"],
        worker=1e-3 * figures["worker, CPU ms a call"],
    )


def _simulated(cell: Cell, costs: Costs) -> float:
    """Return the median seconds of simulated rounds."""
    options = cell.options
    workers, n_bytes = options["workers"], options["message_bytes"] + options["answer_bytes"]
    compute, key = 1e-3 * options["compute_ms"], cell.settings.seed
    seconds = [
        simulate(costs, straggling(workers, compute, options["spread"], [key, number]), n_bytes)
        for number in range(SIMULATED)
    ]
    return float(np.median(seconds))


def _runtime(workers: int) -> Runtime:
    if not workers:
        return open_runtime()
    from sparsegp.execution.dask import DaskRuntime  # noqa: PLC0415 - loads distributed

    return DaskRuntime.local(workers, timeout=START_SECONDS)


def _rounds(
    runtime: Runtime, n_blocks: int, options: Mapping[str, Any], bench: Bench
) -> tuple[list[float], float, float]:
    """Return the seconds of each round, and the processor seconds of driver and workers in all."""
    runtime.build(Idle, [Part(index) for index in range(n_blocks)])
    message, seconds = bytes(options["message_bytes"]), []
    for _ in range(WARM_UP):
        runtime.map_blocks("answer", message, options["answer_bytes"])
    theirs, own = -sum(runtime.map_blocks("processor_seconds")), -time.process_time()
    for _ in range(options["rounds"]):
        began = time.perf_counter()
        runtime.map_blocks("answer", message, options["answer_bytes"])
        seconds.append(time.perf_counter() - began)
        if bench.stop.requested:
            raise Interrupted(f"stopped by {bench.stop.requested}; this cell begins anew next time")
    own += time.process_time()
    theirs += sum(runtime.map_blocks("processor_seconds"))
    return seconds, own, theirs if options["workers"] else 0.0


KINDS.register("rounds")(Rounds())
