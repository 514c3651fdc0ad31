"""Pipelines of one run on many rows, larger than the memory it is given, with a known least error.

Rows are drawn from `sparsegp.data.mixture` into a zarr group, from which the run reads them. Each
cell is measured in a process of its own (sparsegp/reproduce/scale.py) on one thread, or with that
process as the driver of `workers` others. `complete` adds by how much processor time grows with
rows, columns and active rows, and how much sooner a stage is done with more workers. The data of a
cell are not looked at.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparsegp.data.blocks import row_blocks
from sparsegp.data.mixture import CHUNK_ROWS, N_CLASSES
from sparsegp.estimate import estimate
from sparsegp.execution.memory import read_size
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.reproduce.kinds.benchmark import ONE_THREAD
from sparsegp.reproduce.kinds.process import answer_of
from sparsegp.reproduce.toml import Section

MIB = 2.0**20
LEAST = {"rows": 1, "held_out": 1, "columns": 4, "workers": 0}
WORK = ("read", "select", "posterior")
"""Stages of a run that grow with its rows; held-out rows are as many in every cell."""

GROWTH = {
    "rows": "growth with rows",
    "columns": "growth with columns",
    "n_active": "growth with active rows",
}
"""Exponents of processor seconds, by the size that alone differs between cells."""

SPEED_UPS = {name: f"{name}, times as fast as with fewest workers" for name in WORK}
"""Ratios of seconds between cells of which the number of workers alone differs."""


class Scale(Kind):
    """Trains on rows that do not fit into memory."""

    figures = (
        "rows / s",
        "rows / CPU s",
        "seconds",
        *(f"{name}, seconds" for name in WORK),
        *(f"{name}, CPU seconds" for name in WORK),
        "data, MiB",
        "memory given, MiB",
        "private memory, MiB",
        "private memory / promised",
        "test error %",
        "least test error %",
        "test NLPP",
        "least test NLPP",
        *GROWTH.values(),
        *SPEED_UPS.values(),
    )
    default_figures = figures
    has_curves = False

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take sizes, workers, the memory given to the process, and where files go."""
        options: dict[str, Any] = {
            "rows": section.take("rows", int),
            "held_out": section.take("held_out", int, 20000),
            "columns": section.take("columns", int),
            "workers": section.take("workers", int, 0),
            "memory": section.take("memory", str, ""),
            "scratch": section.take("scratch", bool, False),
            "folder": section.take("folder", str, ""),
        }
        for name, least in LEAST.items():
            if options[name] < least:
                raise section.error(name, f"must be at least {least}, got {options[name]}")
        if options["memory"]:
            try:
                read_size(options["memory"])
            except ValueError as error:
                raise section.error("memory", f"must be a size such as 1GB: {error}") from None
        return options

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Measure in another process, which shows its own progress."""
        return answer_of("sparsegp.reproduce.scale", cell, bench, ONE_THREAD)

    def complete(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Add what was promised, speed-ups, and exponents to the largest cell of each series."""
        done = [cell for cell in cells if cell.name in results]
        completed: dict[str, dict[str, Any]] = {
            cell.name: {**results[cell.name], "sizes": dict(cell.options), **promised(cell)}
            for cell in done
        }
        for cell in done:
            series = [other for other in done if alike(cell, other, "workers")]
            fewest = min(series, key=lambda other: other.options["workers"])
            if 0 < fewest.options["workers"] < cell.options["workers"]:
                ours, theirs = (results[one.name]["seconds"] for one in (cell, fewest))
                for name, figure in SPEED_UPS.items():
                    completed[cell.name][figure] = theirs[name] / ours[name]
        for what, figure in GROWTH.items():
            for cell in done:
                series = [other for other in done if alike(cell, other, what)]
                sizes = [what_differs(other)[what] for other in series]
                if len(set(sizes)) > 1 and what_differs(cell)[what] == max(sizes):
                    seconds = [_cpu(results[other.name]) for other in series]
                    completed[cell.name][figure] = exponent(sizes, seconds)
        return completed

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among what was measured."""
        del n_active
        return _figures(result).get(what)


KINDS.register("scale")(Scale())


def promised(cell: Cell) -> dict[str, float]:
    """Return the bytes that `sparsegp estimate` promises for a cell."""
    options = cell.options
    sizes = options["rows"], options["columns"]
    start, stop = row_blocks(*sizes, cell.name, CHUNK_ROWS)[0]
    found = estimate(
        *sizes,
        N_CLASSES,
        cell.n_active,
        cell.sparse_settings,
        source_itemsize=4,
        chunk_rows=stop - start,
        scratch=options["scratch"],
    )
    return {"promised_bytes": found.total_bytes}


def what_differs(cell: Cell) -> dict[str, Any]:
    """Return all that may differ between cells, by name."""
    return {**cell.settings.to_json(), **cell.options, "n_active": cell.n_active}


def alike(one: Cell, other: Cell, what: str) -> bool:
    """Return whether two cells differ in one size only."""
    ours, theirs = what_differs(one), what_differs(other)
    return all(theirs[name] == value for name, value in ours.items() if name != what)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return b of seconds = a size^b, by least squares of logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _cpu(result: Mapping[str, Any]) -> float:
    return math.fsum(result["cpu_seconds"][name] for name in WORK)


def _figures(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of `Scale.figures` that there are."""
    sizes, own, seconds = result["sizes"], result["figures"], result["seconds"]
    wall = math.fsum(seconds[name] for name in WORK)
    derived = (*GROWTH.values(), *SPEED_UPS.values())
    return {
        "rows / s": sizes["rows"] / wall,
        "seconds": wall,
        **{f"{name}, seconds": seconds[name] for name in WORK},
        "data, MiB": result["data_bytes"] / MIB,
        **({"memory given, MiB": read_size(sizes["memory"]) / MIB} if sizes["memory"] else {}),
        "test error %": 100.0 * own["error"],
        "least test error %": 100.0 * own["least_error"],
        "test NLPP": own["nlpp"],
        "least test NLPP": own["least_nlpp"],
        **({} if sizes["workers"] else _of_one_process(result)),
        **{name: result[name] for name in derived if name in result},
    }


def _of_one_process(result: Mapping[str, Any]) -> dict[str, float]:
    """Return processor time and memory, which are known where no other process works."""
    private = result["private_bytes"]
    return {
        "rows / CPU s": result["sizes"]["rows"] / _cpu(result),
        **{f"{name}, CPU seconds": result["cpu_seconds"][name] for name in WORK},
        "private memory, MiB": private / MIB,
        "private memory / promised": private / result["promised_bytes"],
    }
