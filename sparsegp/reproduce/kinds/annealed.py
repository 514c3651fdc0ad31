"""Pipelines that compare log evidences with annealed importance sampling over a grid of kernels.

As in figure 3.12 of Rasmussen & Williams (2006). The method of a variant gives the posterior from
which the runs of `sparsegp.dense.annealing` set out; `compared` names further methods.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sparsegp.data import Dataset, encode
from sparsegp.dense import Problem, parse_method
from sparsegp.dense.annealing import Ladder, log_marginal
from sparsegp.errors import SettingsError
from sparsegp.model import DenseModel
from sparsegp.report import contours
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.files import write_csv
from sparsegp.reproduce.kinds.base import KINDS
from sparsegp.reproduce.kinds.grid import AXES, Grid
from sparsegp.reproduce.toml import Section
from sparsegp.settings import DenseSettings
from sparsegp.training import train
from sparsegp.types import Doubles

OTHER = "other method"


class Annealed(Grid):
    """Estimates the log marginal likelihood at every point of a grid, and asks two methods."""

    figures = (
        "highest log marginal likelihood",
        "log length scale there",
        "log deviation there",
        "standard error there",
        "greatest standard error",
        "method less annealed there",
        "other method less annealed there",
        "method less annealed, root mean square",
        "other method less annealed, root mean square",
    )
    default_figures = figures

    def read_options(self, section: Section) -> dict[str, Any]:
        """Take both axes, the number and length of the runs, and the other method."""
        ladder = {
            name: section.take(name, int, getattr(Ladder, name))
            for name in ("runs", "temperatures")
        }
        other = section.take("compared", str, "laplace")
        try:
            Ladder(**ladder)
            if not parse_method(other).has_evidence:
                raise SettingsError("it has no log evidence")
        except SettingsError as error:
            raise section.error("runs, temperatures or compared", f"cannot be: {error}") from None
        return {**super().read_options(section), **ladder, "compared": other}

    @staticmethod
    def evaluate(cell: Cell, dataset: Dataset, log_l: float, log_s: float) -> dict[str, float]:
        """Return the annealed estimate at a point, and what the methods say."""
        assert isinstance(cell.settings, DenseSettings)  # checked when the pipeline was read
        kernel = f"{math.exp(2.0 * log_s)!r}*rbf({math.exp(log_l)!r})"
        settings = replace(cell.settings, kernel=kernel)
        model, other = (
            train(dataset.train, threads=1, **replace(settings, method=method).to_json())
            for method in (settings.method, cell.options["compared"])
        )
        assert isinstance(model, DenseModel)
        component, (_, target) = model.mixture.components[0], encode(dataset.train.y, "")
        problem = Problem(
            model.mixture.x,
            target,
            component.kernels,
            component.likelihood,
            model.n_latent,
            settings.seed,
        )
        ladder = Ladder(**{name: cell.options[name] for name in ("runs", "temperatures")})
        with threadpool_limits(1):
            found = log_marginal(problem, ladder=ladder, component=component)
        return {
            "log_length_scale": log_l,
            "log_deviation": log_s,
            "annealed": found.value,
            "standard_error": found.error,
            "effective_runs": found.effective_runs,
            "method": model.log_evidence,
            OTHER: float(other.report["log_evidence"]),
        }

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Return a figure of the best point by the annealed estimate, or of all points."""
        columns = columns_of(result)
        annealed, error = columns["annealed"], columns["standard_error"]
        best = int(annealed.argmax())
        away, other = (columns[name] - annealed for name in ("method", OTHER))
        values = (
            annealed[best],
            columns["log_length_scale"][best],
            columns["log_deviation"][best],
            error[best],
            error.max(),
            away[best],
            other[best],
            np.sqrt(np.mean(away**2)),
            np.sqrt(np.mean(other**2)),
        )
        return float(dict(zip(self.figures, values, strict=True))[what])

    def draw(self, cell: Cell, result: Mapping[str, Any], out: Path) -> None:
        """Write the points as a table, and draw the three log evidences beside each other."""
        points, columns = result["points"], columns_of(result)
        write_csv(out / f"annealed-{cell.name}.csv", list(points[0]), points)
        axes = [cell.options[name] for name in AXES]
        assert isinstance(cell.settings, DenseSettings)
        titles = {
            "annealed importance sampling": "annealed",
            cell.settings.build_method().name: "method",
            cell.options["compared"]: OTHER,
        }
        shaped = {
            title: columns[name].reshape(len(axes[0]), -1).T for title, name in titles.items()
        }
        x, y = zip(AXES.values(), axes, strict=True)
        contours(x, y, shaped, out / f"annealed-{cell.name}.png")


def columns_of(result: Mapping[str, Any]) -> dict[str, Doubles]:
    """Return the points by their columns, (points,)."""
    points = result["points"]
    return {name: np.array([point[name] for point in points]) for name in points[0]}


KINDS.register("annealed")(Annealed())
