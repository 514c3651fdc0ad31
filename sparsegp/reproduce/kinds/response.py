"""Pipelines that compare how predictions of several methods respond to the kernel's parameters.

As in figures 3 and 4 of Girolami & Rogers (2006). A grid as in grid.py, where methods need no log
evidence, and where `reference` names the variant whose test information the others are compared
with, point by point.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS
from sparsegp.reproduce.kinds.grid import AXES, Grid
from sparsegp.reproduce.toml import Section
from sparsegp.types import Doubles

AWAY = "test information bits less the reference's, root mean square"
LEAST = "test information bits less the reference's, least"


class Response(Grid):
    """Fits at every point of a grid, and compares what the posteriors tell of the test rows."""

    figures = (
        "highest test information bits",
        "log length scale there",
        "log deviation there",
        "least test error %",
        AWAY,
        LEAST,
    )
    default_figures = figures
    needs_evidence = False

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take both axes, `reference`, and the `columns` that the kernel looks at (all)."""
        options = super().read_options(section)
        reference, columns = section.maybe("reference", str), section.take_list("columns", int, [])
        if columns and min(columns) < 0:
            raise section.error("columns", f"must be numbers from 0 on, got {columns}")
        options |= {"columns": columns} if columns else {}
        return options | ({} if reference is None else {"reference": reference})

    def check(self, file: Section, cells: Sequence[Cell]) -> None:
        """Check also that every reference is a variant on the same data and grid."""
        super().check(file, cells)
        alike = {(cell.variant, *_place(cell)) for cell in cells}
        for cell in cells:
            name = cell.options.get("reference", cell.variant)
            if (name, *_place(cell)) not in alike:
                raise file.error(
                    "variants",
                    f"has {name!r} as the reference of {cell.variant}; it must be a variant with "
                    "the same data and grid",
                )

    def complete(
        self, cells: Sequence[Cell], results: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Add the differences of test information from the reference with the same seed."""
        names = {(cell.variant, cell.settings.seed): cell.name for cell in cells}
        completed: dict[str, Mapping[str, Any]] = dict(results)
        for cell in cells:
            other = names.get((cell.options.get("reference", ""), cell.settings.seed), "")
            if other in results and cell.name in results:
                own, its = (_information(results[name]) for name in (cell.name, other))
                completed[cell.name] = {**results[cell.name], "away": (own - its).tolist()}
        return completed

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Return a figure of the best point by test information, or of all points."""
        del n_active
        points: list[Mapping[str, float]] = result["points"]
        best = max(points, key=lambda point: point["information"])
        away = np.array(result.get("away", ()))
        if what in {AWAY, LEAST}:
            if not len(away):
                return None
            return float(np.sqrt(np.mean(away**2)) if what == AWAY else away.min())
        values = {
            "highest test information bits": best["information"],
            "log length scale there": best["log_length_scale"],
            "log deviation there": best["log_deviation"],
            "least test error %": 100.0 * min(point["error"] for point in points),
        }
        return values[what]


def _place(cell: Cell) -> tuple[str, str]:
    """Return data and grid of a cell."""
    return cell.data, str([cell.options[axis] for axis in AXES])


def _information(result: Mapping[str, Any]) -> Doubles:
    return np.array([point["information"] for point in result["points"]])


KINDS.register("response")(Response())
