"""How methods compare over many data sets: ranks, wins, ratios, and what is beyond chance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import studentized_range

from pipelines.experiment import Experiment
from pipelines.table import number

Results = Mapping[str, Mapping[str, Any]]

Scores = dict[str, pd.DataFrame]
"""By data set: a column for each method that is finished there; lines are the means of splits, or
the test rows where there is one split, so that both tell the standard error of a mean."""

ROWS = {"test NLPP, bounded": "nlpp", "test error %": "wrong"}
"""Metrics that are compared, means of what is kept of the test rows."""


def scores_of(experiment: Experiment, results: Results, metric: str) -> Scores:
    """Return the scores of finished cells, whose results are known by their keys."""
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
    """Return the data sets that are finished by all methods that have finished any."""
    methods = {method for frame in scores.values() for method in frame}
    return {data: frame for data, frame in scores.items() if methods and set(frame) == methods}


def critical_difference(n_methods: int, n_data: int, level: float = 0.05) -> float:
    """Return by how much mean ranks must differ: Nemenyi's test, Demsar (2006), section 3.2.2."""
    q = studentized_range.ppf(1.0 - level, n_methods, np.inf)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (12.0 * n_data)))


def summarise(scores: Scores, rivals: Sequence[str]) -> pd.DataFrame:
    """Return a line for each method, the best mean rank first.

    It has the number of data sets on which the method is the best, that of those on which it is
    behind the best of the rivals by more than two standard errors of the paired difference, and
    geometric means of the ratios of its scores, of which less is better, to those of each method,
    if none is zero.
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
    """Return the tables of a comparison over data sets, as text, by their headings."""
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


def standard_errors(experiment: Experiment, results: Results) -> pd.DataFrame:
    """Return data, method, metric, and the standard error of the mean that is compared."""
    lines = [
        (data, method, metric, frame[method].sem())
        for metric in ROWS
        for data, frame in scores_of(experiment, results, metric).items()
        for method in frame
    ]
    return pd.DataFrame(lines, columns=["data", "method", "metric", "se"])
