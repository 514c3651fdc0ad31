"""Learning curves of all cells: as a table, and as pictures where matplotlib is there."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.report import learning_curve
from sparsegp.reproduce.files import write_csv
from sparsegp.reproduce.pipeline import Pipeline

FIRST = ("cell", "variant", "seed")


def write_curves(pipeline: Pipeline, results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the records of all learning curves, one a line."""
    records = [
        {"cell": cell.name, "variant": cell.variant, "seed": cell.settings.seed, **record}
        for cell in pipeline.cells
        for record in results.get(cell.name, {}).get("curve", ())
    ]
    columns = list(dict.fromkeys([*FIRST, *(name for record in records for name in record)]))
    write_csv(path, columns, records)


def draw_curves(
    pipeline: Pipeline, results: Mapping[str, Mapping[str, Any]], out: Path
) -> tuple[list[Path], str]:
    """Draw each figure of the report against the active rows, averaged over seeds.

    Returns
    -------
    pictures : list of Path
        ``curves.png`` for the first figure, ``curves-<figure>.png`` for the others.
    note : str
        Why there are none, if so.
    """
    pictures: list[Path] = []
    for what in pipeline.report.what:
        curves = {
            variant: curve
            for variant in pipeline.variants
            if len((curve := _mean_curve(pipeline, results, variant, what))[0]) > 1
        }
        if not curves:
            continue
        slug = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")
        path = out / (f"curves-{slug}.png" if pictures else "curves.png")
        levels = {
            f"{claim.where}: {'< ' if claim.bound else ''}{claim.value:g}": claim.value
            for claim in pipeline.published
            if claim.what == what
        }
        try:
            learning_curve(curves, what, path, levels)
        except SettingsError as error:
            return pictures, f"no picture: {error}"
        pictures.append(path)
    return pictures, ""


def _mean_curve(
    pipeline: Pipeline, results: Mapping[str, Mapping[str, Any]], variant: str, what: str
) -> tuple[list[int], list[float]]:
    cells = [results[c.name] for c in pipeline.variants[variant] if c.name in results]
    cells = [cell for cell in cells if len(cell.get("curve", ())) > 1]  # methods that include rows
    steps = sorted({record["n_active"] for cell in cells for record in cell["curve"]})
    means = {}
    for n in steps:
        values = [pipeline.kind.figure(cell, what, n) for cell in cells]
        known = [value for value in values if value is not None]
        if known:
            means[n] = float(np.mean(known))
    return list(means), list(means.values())
