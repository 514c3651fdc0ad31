"""Pipelines that look at a method over a grid of kernels (Rasmussen & Williams 2006, section 3.7).

The kernel of all points is s^2 exp(-|x - z|^2 / 2 l^2), with log l and log s on a grid.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sparsegp.data import Dataset
from sparsegp.errors import DataError
from sparsegp.report import contours
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.files import write_csv, write_text
from sparsegp.reproduce.judge import information
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.reproduce.kinds.train import evaluate_on
from sparsegp.reproduce.toml import Section
from sparsegp.settings import DenseSettings
from sparsegp.training import train

AXES = {"log_length_scale": "log l", "log_deviation": "log s"}
"""Keys of a variant, and what they are on pictures: the least value, the greatest, how many."""

FAR = 1e9
"""Length scale of a column that the kernel does not look at."""


class Grid(Kind):
    """Fits at every point of a grid, and evaluates each posterior on the test rows."""

    figures: ClassVar[Sequence[str]] = (
        "highest log evidence",
        "log length scale there",
        "log deviation there",
        "test error % there",
        "test information bits there",
        "highest test information bits",
        "least test error %",
    )
    default_figures: ClassVar[Sequence[str]] = figures
    has_curves = False
    moves = True
    needs_evidence: ClassVar[bool] = True

    @staticmethod
    def evaluate(cell: Cell, dataset: Dataset, log_l: float, log_s: float) -> dict[str, float]:
        """Return log evidence, error and information of the kernel at a point."""
        if dataset.test is None:
            raise DataError(f"{dataset.train.source} has no test rows; a pipeline needs them")
        assert isinstance(cell.settings, DenseSettings)  # checked when the pipeline was read
        columns, scale = cell.options.get("columns"), math.exp(log_l)
        shape = f"rbf({scale!r})"
        if columns is not None:
            scales = [scale if c in columns else FAR for c in range(dataset.train.X.shape[1])]
            shape = f"ard({', '.join(map(repr, scales))})"
        settings = replace(cell.settings, kernel=f"{math.exp(2.0 * log_s)!r}*{shape}")
        model = train(dataset.train, threads=1, **settings.to_json())
        figures, evidence = (
            evaluate_on(model, dataset.test).to_json(),
            model.report.get("log_evidence"),
        )
        return {
            "log_length_scale": log_l,
            "log_deviation": log_s,
            **({} if evidence is None else {"log_evidence": float(evidence)}),
            "error": float(figures["error"]),
            "information": information(dataset, figures)["information"],
        }

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take both axes."""
        options = {}
        for name in AXES:
            low, high, count = self._axis(section, name)
            options[name] = np.linspace(low, high, count).tolist()
        return options

    def _axis(self, section: Section, name: str) -> tuple[float, float, int]:
        values = section.take(name, list)
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(values) != 3 or len(numbers) != 3 or not isinstance(values[2], int):
            raise section.error(
                name, f"must be the least value, the greatest, and their number, got {values}"
            )
        if not (values[0] < values[1] and values[2] > 1):
            raise section.error(name, f"must be two values or more, rising, got {values}")
        return float(values[0]), float(values[1]), int(values[2])

    def check(self, file: Section, cells: Sequence[Cell]) -> None:
        """Refuse methods that do not take all rows, and those without a needed log evidence."""
        for cell in cells:
            settings = cell.settings
            if not isinstance(settings, DenseSettings):
                what = "a method that takes all rows"
            elif self.needs_evidence and not settings.build_method().has_evidence:
                what = "a method with a log evidence"
            else:
                continue
            raise file.error("variants", f"must have {what}, {cell.variant} has not")

    def settings_used(self, options: Mapping[str, Any]) -> Collection[str] | None:
        """Return all but the kernel and what learns it."""
        del options
        left_out = {"kernel", "kernel_per_class", "learn", "steps", "hyperprior", "seed"}
        return DenseSettings().to_json().keys() - left_out

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Fit at all points, side by side; those of an interrupted run are in its directory."""
        dataset, kept = bench.dataset(cell), bench.runs / cell.run_name / "points.json"
        every = list(product(*(cell.options[name] for name in AXES)))
        points: list[dict[str, float] | None] = [None] * len(every)
        if kept.exists():
            former = json.loads(kept.read_text())
            points[: len(former)] = former
        missing = [index for index, point in enumerate(points) if point is None]
        bench.progress.start(len(every), "points", f"{bench.pipeline.stem}: {cell.name}")
        todo, work = [every[index] for index in missing], (self.evaluate, cell, dataset)
        with ExitStack() as stack:
            runtime = stack.enter_context(bench.opened_runtime())
            going = runtime.run_tasks(_at_point, work, todo, bench.stop.check)
            ended = stack.enter_context(closing(going))
            for index, point in ended:
                points[missing[index]] = point
                bench.progress.update(len(every) - points.count(None))
                write_text(kept, json.dumps(points))
                if None in points:
                    bench.stop.check()
        return {"n_train": int(dataset.train.X.shape[0]), "points": points}

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Return a figure of the best point by the evidence, or of the best by itself."""
        points = result["points"]
        best = max(points, key=lambda point: point["log_evidence"])
        values: dict[str, float] = {
            "highest log evidence": best["log_evidence"],
            "log length scale there": best["log_length_scale"],
            "log deviation there": best["log_deviation"],
            "test error % there": 100.0 * best["error"],
            "test information bits there": best["information"],
            "highest test information bits": max(point["information"] for point in points),
            "least test error %": 100.0 * min(point["error"] for point in points),
        }
        return values[what]

    def draw(self, cell: Cell, result: Mapping[str, Any], out: Path) -> None:
        """Write the points as a table, and draw a picture of contours."""
        points = result["points"]
        write_csv(out / f"grid-{cell.name}.csv", list(points[0]), points)
        axes = [cell.options[name] for name in AXES]
        values = {name: np.array([point[name] for point in points]) for name in points[0]}
        surfaces = {
            "test information, bits": values["information"],
            "correct, %": 100.0 * (1.0 - values["error"]),
        }
        if "log_evidence" in values:
            surfaces = {"log evidence": values["log_evidence"], **surfaces}
        shaped = {name: each.reshape(len(axes[0]), -1).T for name, each in surfaces.items()}
        x, y = zip(AXES.values(), axes, strict=True)
        contours(x, y, shaped, out / f"grid-{cell.name}.png")


KINDS.register("grid")(Grid())


def _at_point(work: Any, place: tuple[float, float]) -> dict[str, float]:
    """Evaluate one point, as a task."""
    evaluate, cell, dataset = work
    found: dict[str, float] = evaluate(cell, dataset, *place)
    return found
