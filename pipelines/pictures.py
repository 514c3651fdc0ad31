"""Plots of the results of a pipeline."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.experiment import AXES, FINAL, Experiment
from pipelines.metrics import reject_curves
from pipelines.run import Work
from pipelines.table import ROWS, compared, critical_difference, scores_of, summarise
from sparsegp.report.pictures import MIN_KEPT

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can distinguish."""


def draw(work: Work, frame: pd.DataFrame) -> list[Path]:
    """Draw the pictures of a pipeline, with `tidy` rows, as .svg and .png; return the latter."""
    experiment, paths = work.experiment, []
    kind = experiment.picture if experiment.grid is None else "grid"
    drawn: Any = work.finished() if kind in {"reject", "ranks"} else frame
    for name, figure in KINDS[kind](experiment, drawn) if kind and len(drawn) else ():
        paths.append(work.out / f"{name}.png")
        if figure.get_suptitle() == "":
            figure.suptitle(experiment.heading, fontsize="medium", wrap=True)
        figure.savefig(paths[-1])
        figure.savefig(paths[-1].with_suffix(".svg"), metadata={"Date": None})
    return paths


def _panels(count: int) -> tuple[Any, Any]:
    """Return a figure and its axes, side by side."""
    figure = Figure(figsize=(5.4 * count, 4.2), dpi=150, layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _curves(experiment: Experiment, frame: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Yield, for each data set, metrics against the number of active rows, averaged over seeds."""
    metrics, published = experiment.wanted["metric"].unique(), experiment.published
    frame = frame[frame["n_active"] != FINAL]
    for data, own in frame[frame["metric"].isin(metrics)].groupby("data"):
        figure, panels = _panels(own["metric"].nunique())
        for axes, (metric, values) in zip(panels, own.groupby("metric"), strict=True):
            means = values.groupby(["n_active", "method"])["value"].mean().unstack()
            means.plot(ax=axes, color=COLOURS, xlabel="active rows", ylabel=metric)
            claims = published[(published["data"] == data) & (published["metric"] == metric)]
            for claim in claims.drop_duplicates(["value", "where"]).itertuples():
                axes.axhline(claim.value, color="0.35", linestyle="--", label=claim.where)
            axes.legend(frameon=False)
        figure.suptitle(f"{data}. {experiment.heading}", fontsize="medium", wrap=True)
        yield f"curves-{data}", figure


def _contours(experiment: Experiment, frame: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Yield, for each data set, method and seed, contours of metrics over the kernels of a grid."""
    metrics = experiment.grid.pictures
    for row, points in frame[frame["metric"].isin(metrics)].groupby(["data", "method", "seed"]):
        figure, panels = _panels(points["metric"].nunique())
        for axes, (metric, own) in zip(panels, points.groupby("metric"), strict=True):
            values = own.pivot_table(index=AXES[1], columns=AXES[0], values="value")
            levels = np.unique(np.nanquantile(values, np.linspace(0.0, 1.0, 12)))
            if min(values.shape) > 1 and len(levels) > 1:
                drawn = axes.contour(values.columns, values.index, values, levels=levels)
                axes.clabel(drawn, fmt="%.3g", fontsize=7)
            axes.set(title=metric, xlabel="log l", ylabel="log s")
        figure.suptitle("{}, {}, seed {}".format(*row), fontsize="medium")
        yield "grid-" + "-".join(map(str, row)), figure


def _reject(experiment: Experiment, results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield metrics of the remaining rows against the share rejected, pooled over seeds."""
    figure, panels = _panels(2)
    for colour, row in zip(COLOURS, experiment.baselines, strict=False):
        cells = [cell for cell in experiment.cells if (cell.data, cell.method) == row]
        found = [pd.DataFrame(results[cell.key]["rows"]) for cell in cells if cell.key in results]
        rows = pd.concat(found) if found else pd.DataFrame()
        curves = reject_curves(rows) if found else {}
        for axes, (what, (rejected, means)) in zip(panels, curves.items(), strict=False):
            kept = (1.0 - rejected) * len(rows) > MIN_KEPT - 0.5
            percent = 100.0 * rejected[kept]
            axes.step(percent, means[kept], where="post", color=colour, label=row[1])
            axes.set(xlabel="rows rejected, the least certain first, %", ylabel=what)
    panels[0].legend(frameon=False)
    yield "reject", figure


def _ranks(experiment: Experiment, results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield mean ranks with a critical difference as bars: methods whose bars are apart differ."""
    figure, panels = _panels(len(ROWS))
    for axes, metric in zip(panels, ROWS, strict=True):
        scores = compared(scores_of(experiment, results, metric))
        means = summarise(scores, ())["mean rank"][::-1] if scores else pd.Series()
        if len(means) > 1:
            half = critical_difference(len(means), len(scores)) / 2.0
            names = [f"{name}  {mean:.2f}" for name, mean in means.items()]
            axes.errorbar(means, names, xerr=half, fmt="D", color=COLOURS[0], capsize=4)
        axes.set(xlabel=f"mean rank by {metric}, {len(scores)} data sets")
    yield "ranks", figure


KINDS = {"curves": _curves, "grid": _contours, "ranks": _ranks, "reject": _reject}
"""Functions of the experiment and its `tidy` rows or results, by the name of the picture."""
