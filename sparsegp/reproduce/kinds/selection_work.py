"""Pipelines that compare the rounds of a selection with their bare matrix products.

The rounds of d inclusions among n rows of p columns need at least 2 n d p + n d^2 floating-point
operations in matrix products: kernel columns, and stub columns from all earlier ones. Each cell is
measured in a process of its own (sparsegp/reproduce/work.py), so that its peak memory is its own.
"""

from collections.abc import Mapping
from typing import Any

from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.reproduce.kinds.process import answer_of


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
        answer = answer_of("sparsegp.reproduce.work", cell, bench)
        return {"figures": dict(zip(self.figures, _figures(answer), strict=True)), **answer}

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look among the figures."""
        del n_active
        value: float = result["figures"][what]
        return value


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
