"""The table of a pipeline: our figures beside the published ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipelines.experiment import AXES, FINAL, KEYS, Experiment

ALL = ["data", "method", "seed", "n_active", "metric", "value"]
GOAL = ["ours", "at_most", "near", "within", "complete"]

INCOMPLETE = "incomplete"
"""What is said of a figure while cells of it are not finished."""


def tidy(experiment: Experiment, results: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return every metric of every finished cell, and beside its baseline, a line each."""
    lines = []
    for cell in experiment.cells:
        result = results.get(cell.key, {"figures": {}, "curve": []})
        own = {**result["figures"], **cell.point}
        steps = [(FINAL, own), *((record["n_active"], record) for record in result["curve"])]
        if result["curve"]:
            steps[-1] = (steps[-1][0], own)
        lines += [
            [cell.data, cell.method, cell.seed, n, name, figures[name], *cell.point.values()]
            for n, figures in steps
            for name in figures
        ]
    axes = AXES if experiment.grid else ()
    frame = pd.DataFrame(lines, columns=[*ALL, *axes]).astype({"value": float})
    baselines = pd.Series(experiment.baselines, name="baseline").rename_axis(ALL[:2])
    keys = ["data", "baseline", "seed", "n_active", "metric", *axes]
    pairs = frame.join(baselines, on=ALL[:2]).merge(
        frame.rename(columns={"method": "baseline"}), on=keys, suffixes=("", "_baseline")
    )
    ours, theirs = pairs["value"], pairs.pop("value_baseline")
    less = pairs.assign(metric=pairs["metric"] + " less baseline", value=ours - theirs)
    ratio = pairs.assign(metric=pairs["metric"] + " / baseline", value=ours / theirs)
    return pd.concat([frame, less[frame.columns], ratio[frame.columns]], ignore_index=True)


def _of_grid(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return what tables say of metrics over all kernels of a grid; `by` tells the best."""
    lines = []
    for row, points in frame.groupby(ALL[:4]):
        values = points.pivot_table(index=list(AXES), columns="metric", values="value")
        if by in values:
            of_forms = {"highest {}": values.max(), "least {}": values.min()}
            of_forms["{} there"] = values.loc[values[by].idxmax()]
            of_forms["{}, root mean square"] = np.sqrt((values**2).mean())
            for form, metrics in of_forms.items():
                lines += [[*row, form.format(name), value] for name, value in metrics.items()]
    return pd.DataFrame(lines, columns=ALL)


def tabulate(experiment: Experiment, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a line for every figure of the table, of `tidy` lines: means, published, and goals."""
    published, goals, table = experiment.published, experiment.goals, experiment.wanted
    keys = ["data", "method", "seed", *(AXES if experiment.grid else ())]
    finished = set(frame[keys].itertuples(index=False, name=None))
    cells = {(cell.data, cell.method, cell.seed, *cell.point.values()) for cell in experiment.cells}
    lacking = {row[:2] for row in cells - finished}
    if experiment.grid is not None:
        frame = _of_grid(frame, experiment.grid.by)
    found = frame.groupby(KEYS)["value"].agg(["mean", "count", "std"])
    table = table.join(found.set_axis(["ours", "seeds", "sd"], axis=1), on=KEYS)
    for claims in (published, goals):
        table = table.merge(claims, how="left", on=KEYS)
    order = table[KEYS[:2]].apply(lambda row: list(experiment.baselines).index(tuple(row)), axis=1)
    table = table.iloc[np.lexsort([table["n_active"] % 10**9, order])].reset_index(drop=True)
    table["se"] = table["sd"] / np.sqrt(table["seeds"])
    table["complete"] = [tuple(row) not in lacking for row in table[KEYS[:2]].values]
    table["difference"] = table["ours"] - table["value"]
    table["difference_in_se"] = table["difference"] / table["se"]
    table["goal"], table["met"] = zip(*(_goal(*line) for line in table[GOAL].values), strict=True)
    return table


def _goal(
    ours: float, at_most: float, near: float, within: float, complete: bool
) -> tuple[str, bool | None]:
    """Return a goal in words, and whether it is met, None where that is not known."""
    if np.isnan(at_most) and np.isnan(near):
        return "", None
    words = f"≤ {at_most:g}" if np.isnan(near) else f"{near:g} ± {within:g}"
    met = ours <= at_most if np.isnan(near) else abs(ours - near) <= within
    return words, bool(met) if complete and not np.isnan(ours) else None


def layout(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as it is shown: a row for each method, columns for each metric."""
    shown = []
    for mean, sd, complete in table[["ours", "sd", "complete"]].values:
        words = number(mean) + ("" if np.isnan(sd) else f" ± {number(sd)}")
        shown.append(words if complete else f"{words} {INCOMPLETE}".removeprefix("- "))
    text = table[KEYS].assign(
        ours=shown,
        paper=[published(*line) or "" for line in table[["value", "below"]].values],
        goal=table["goal"] + table["met"].map({True: ", met", False: ", missed"}).fillna(""),
    )
    wide = text.set_index(KEYS).unstack("metric").swaplevel(axis=1)
    columns = pd.MultiIndex.from_product([table["metric"].unique(), ["ours", "paper", "goal"]])
    rows = pd.MultiIndex.from_frame(table[KEYS[:3]].drop_duplicates())
    wide = wide.reindex(index=rows, columns=columns).fillna("")
    same = [name for name in ("data", "n_active") if rows.get_level_values(name).nunique() == 1]
    return wide.loc[:, (wide != "").any()].rename(index={FINAL: "all"}).droplevel(same)


def published(value: float, below: Any) -> str | None:
    """Return a published figure as it is shown, which may be a bound; None if there is none."""
    return None if np.isnan(value) else f"{'< ' if below is True else ''}{value:g}"


def number(value: float) -> str:
    """Write a figure with three digits, or all of those before the point."""
    if np.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"
