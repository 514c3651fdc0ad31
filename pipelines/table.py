"""The tables of a pipeline: results next to the published ones, and comparisons of methods."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import studentized_range

from pipelines.experiment import AXES, FINAL, KEYS, Experiment

ALL = ["data", "method", "seed", "n_active", "metric", "value"]
GOAL = ["ours", "at_most", "near", "within", "complete"]

COLUMNS = [*KEYS, "ours", "se", "seeds", "value", "where", "goal", "met"]
NAMES = {"n_active": "active rows", "ours": "mean", "se": "standard error", "value": "published"}
"""Columns of `tabulate` that small tables keep, and their names there."""

INCOMPLETE = "incomplete"
"""Mark of a value some of whose cells are not finished."""

Results = Mapping[str, Mapping[str, Any]]

Scores = dict[str, pd.DataFrame]
"""By data set: a column for each finished method; rows are the means of splits, or the test rows if
there is one split, so that the standard error of the mean can be computed in both cases."""

ROWS = {"test NLPP, bounded": "nlpp", "test error %": "wrong"}
"""Metrics to compare, and the value kept of each test row whose mean they are."""


def tidy(experiment: Experiment, results: Results) -> pd.DataFrame:
    """Return a row for every metric of every finished cell, and for comparisons with baselines."""
    lines = []
    for cell in (cell for cell in experiment.cells if cell.key in results):
        result, row = results[cell.key], [cell.data, cell.method, cell.seed]
        own = {**result["figures"], **cell.point}
        steps = [(FINAL, own), *((record["n_active"], record) for record in result["curve"])]
        if result["curve"]:
            steps[-1] = (steps[-1][0], own)
        for n, figures in steps:
            lines += [[*row, n, name, figures[name], *cell.point.values()] for name in figures]
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
    """Return extremes and root mean squares over a grid, and values at the best kernel by `by`."""
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
    """Return a row for every value of the table from `tidy` rows: mean, published value, goal."""
    keys = ["data", "method", "seed", *(AXES if experiment.grid else ())]
    finished = set(frame[keys].itertuples(index=False, name=None))
    cells = {(cell.data, cell.method, cell.seed, *cell.point.values()) for cell in experiment.cells}
    lacking = {row[:2] for row in cells - finished}
    if experiment.grid is not None:
        frame = _of_grid(frame, experiment.grid.by)
    found = frame.groupby(KEYS)["value"].agg(ours="mean", seeds="count", sd="std")
    table = experiment.wanted.join(found, on=KEYS)
    for claims in (experiment.published, experiment.goals):
        table = table.merge(claims, how="left", on=KEYS)
    order = table[KEYS[:2]].apply(lambda row: list(experiment.baselines).index(tuple(row)), axis=1)
    table = table.iloc[np.lexsort([table["n_active"] % 10**9, order])].reset_index(drop=True)
    table["se"] = table["sd"] / np.sqrt(table["seeds"])
    table["complete"] = [tuple(row) not in lacking for row in table[KEYS[:2]].values]
    table["difference"] = table["ours"] - table["value"]
    table["difference_in_se"] = table["difference"] / table["se"]
    table["goal"], table["met"] = zip(*(_goal(*line) for line in table[GOAL].values), strict=True)
    return table


def _goal(*values: float) -> tuple[str, bool | None]:
    """Return a goal as text, and whether it is met (None if not known), from columns `GOAL`."""
    ours, at_most, near, within, complete = values
    if np.isnan(at_most) and np.isnan(near):
        return "", None
    words = f"≤ {at_most:g}" if np.isnan(near) else f"{near:g} ± {within:g}"
    met = ours <= at_most if np.isnan(near) else abs(ours - near) <= within
    return words, bool(met) if complete and not np.isnan(ours) else None


def layout(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table in its printed form: a row for each method, columns for each metric."""
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
    """Format a published value, which may be an upper bound; return None if there is none."""
    return None if np.isnan(value) else f"{'< ' if below is True else ''}{value:g}"


def number(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 on."""
    digits = ".0f" if abs(value) >= 100 else "#.3g"
    return "-" if np.isnan(value) else format(value, digits)


def scores_of(experiment: Experiment, results: Results, metric: str) -> Scores:
    """Return the scores of finished cells by a metric; `results` are by the keys of cells."""
    cells: dict[tuple[str, str], list[Any]] = {}
    for cell in experiment.cells:
        cells.setdefault((cell.data, cell.method), []).append(results.get(cell.key))
    found: dict[str, dict[str, Any]] = {data: {} for data, _ in cells}
    for (data, method), of_seeds in cells.items():
        if None not in of_seeds:
            rows = [np.asarray(result["rows"][ROWS[metric]], float) for result in of_seeds]
            found[data][method] = rows[0] if len(rows) == 1 else [np.nanmean(row) for row in rows]
    return {data: pd.DataFrame(columns) for data, columns in found.items()}


def compared(scores: Scores) -> Scores:
    """Return the data sets on which all methods that have finished anywhere are finished."""
    methods = {method for frame in scores.values() for method in frame}
    return {data: frame for data, frame in scores.items() if methods and set(frame) == methods}


def critical_difference(n_methods: int, n_data: int, level: float = 0.05) -> float:
    """Return the critical difference of mean ranks (Nemenyi's test, Demsar 2006, section 3.2.2)."""
    q = studentized_range.ppf(1.0 - level, n_methods, np.inf)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (12.0 * n_data)))


def summarise(scores: Scores, rivals: Sequence[str]) -> pd.DataFrame:
    """Return a row for each method, the best mean rank first.

    It has the number of data sets on which the method is best, the number of those on which it is
    behind the best rival by more than two standard errors of the paired difference, and, if no
    score is zero, geometric means of the ratios of its scores (lower is better) to those of each
    method.
    """
    means = pd.DataFrame({data: frame.mean() for data, frame in scores.items()}).T
    wins = means.eq(means.min(axis=1), axis=0).sum()
    found = pd.DataFrame({"mean rank": means.rank(axis=1).mean(), "wins": wins})
    others = {name: means[name] for name in means}
    if known := [name for name in rivals if name in means]:
        behind, best, name = [], means[known].idxmin(axis=1), f"best of {', '.join(known)}"
        for data, frame in scores.items():
            less = frame.sub(frame[best[data]], axis=0)
            behind.append(less.mean() > 2.0 * less.sem())
        found[f"behind {name}"] = pd.DataFrame(behind).sum()
        others[name] = means[known].min(axis=1)
    if (means > 0.0).all(axis=None):
        for name, other in others.items():
            found[f"/ {name}"] = np.exp(np.log(means.div(other, axis=0)).mean())
    return found.sort_values("mean rank")


def comparison(experiment: Experiment, results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables of a comparison over data sets, as text by heading."""
    tables = {}
    for metric in ROWS if experiment.picture == "ranks" else ():
        scores = scores_of(experiment, results, metric)
        if counted := compared(scores):
            found = summarise(counted, experiment.rivals)
            text = found.apply(lambda column: column.map(str if column.dtype == int else number))
            tables[f"{metric}: on {len(counted)} of {len(scores)} data sets"] = text
        text = {
            data: frame.apply(lambda own: f"{own.mean():.3f} ± {own.sem():.3f}")
            for data, frame in scores.items()
        }
        methods = list(dict.fromkeys(cell.method for cell in experiment.cells))
        shown = pd.DataFrame(text, index=methods).T.fillna("-")
        tables[f"{metric}: means ± standard errors"] = shown
    return tables


def standard_errors(experiment: Experiment, results: Results) -> dict[tuple[str, ...], float]:
    """Return the standard errors of the compared means, by data, method and metric."""
    scores = {metric: scores_of(experiment, results, metric) for metric in ROWS}
    frames = [(data, metric, frame) for metric in ROWS for data, frame in scores[metric].items()]
    return {(data, method, metric): f[method].sem() for data, metric, f in frames for method in f}


def origin(experiment: Experiment, results: Results, table: pd.DataFrame) -> dict[str, str]:
    """Return date, machine, versions, seeds and cost of the cells, goals met, and missing cells."""
    made = pd.DataFrame([result["made"] for result in results.values() if "made" in result])
    known = {}
    if len(made):
        days = made.pop("date").str[:10]
        known["date"] = " to ".join(dict.fromkeys((days.min(), days.max())))
        seeds = sorted(map(int, made.pop("seed").unique()))
        known |= {name: "; ".join(values.unique()) for name, values in made.items()}
        run = f"{seeds[0]} to {seeds[-1]}" if len(seeds) == seeds[-1] - seeds[0] + 1 > 1 else ""
        known["seeds"] = run or ", ".join(map(str, seeds))
    met = table.loc[table["goal"] != "", "met"]
    if len(met):
        left = f"; {met.isna().sum()} not known yet" if met.isna().any() else ""
        known["goals"] = f"{(met == True).sum()} of {len(met)} met{left}"  # noqa: E712 - or None
    if spent := [result["seconds"] for result in results.values() if "seconds" in result]:
        known["cost"] = f"{sum(spent) / 60:.3g} minutes, the longest cell {max(spent):.3g} seconds"
    known["cells"] = f"{len(results)} of {len(experiment.cells)} cells finished"
    rest = [(cell.data, cell.method) for cell in experiment.cells if cell.key not in results]
    if rest:
        names = pd.DataFrame(rest).drop_duplicates()
        lacking = names.groupby(0, sort=False)[1].agg(", ".join)  # by data set: methods
        parts = lacking.groupby(lacking, sort=False).groups.items()
        known["not finished"] = "; ".join(f"{one} ({', '.join(data)})" for one, data in parts)
    return known


def small_table(experiment: Experiment, results: Results, table: pd.DataFrame) -> str:
    """Return the values of a table as CSV, after comment lines with their origin.

    Means have five digits. Standard errors are over seeds or, in a comparison on one split, over
    its test rows.
    """
    file = "/".join(experiment.path.absolute().parts[-2:])
    head = {"title": experiment.heading, "file": f"pipelines/{file}"}
    head |= origin(experiment, results, table)
    counts = table[["n_active", "seeds"]].replace(FINAL, np.nan).astype("Int64")
    found = table.assign(**counts)
    if experiment.picture == "ranks":
        keys = found[["data", "method", "metric"]].apply(tuple, axis=1)
        found["se"] = found["se"].fillna(keys.map(standard_errors(experiment, results)))
    found = found[found["ours"].notna() | found["value"].notna() | (found["goal"] != "")]
    found["value"] = [published(*line) for line in found[["value", "below"]].values]
    text = found[COLUMNS].rename(columns=NAMES).dropna(axis=1, how="all")
    lines = "".join(f"# {name}: {value}\n" for name, value in head.items())
    return lines + str(text.to_csv(index=False, float_format="%.5g"))
