"""The tables of `benchmarks/results`, which `python -m pipelines ... --csv` writes.

Run as a program it writes the table of the README.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipelines.table import number

RESULTS = Path(__file__).parent / "benchmarks" / "results"
README = Path(__file__).parents[1] / "README.md"

METRICS = {"test error %": "error, %", "test NLPP, bounded": "NLPP", "CPU seconds": "CPU seconds"}
METHODS = {
    "ours": "sparsegp",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "catboost-1000": "CatBoost, 1000 rounds",
}
"""Those of the table of the README, with the words there."""

BEGIN, END = "<!-- made by docs/results.py -->", "<!-- end -->"
"""Around that table."""

DIGITS = {"error, %": 2, "NLPP": 3, "ECE": 3, "CPU seconds": 1}
"""After the point; three in all of other metrics."""

MEANS = "geometric mean of ratios"

FIGURE = ["data", "method", "active rows", "metric"]
"""What a figure is known by."""


def read(name: str) -> tuple[dict[str, str], pd.DataFrame]:
    """Return what a file says of its origin, and its table."""
    lines = (RESULTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    published = {"published": str}  # of which some are bounds
    return head, pd.read_csv(RESULTS / f"{name}.csv", comment="#", dtype=published)


def pivoted(
    frame: pd.DataFrame,
    metrics: Mapping[str, str],
    methods: Mapping[str, str],
    data: Mapping[str, str],
    rows: str = "data",
) -> pd.DataFrame:
    """Return a row for each data set, and columns for metrics and in each of them for methods.

    The mappings have the names that are wanted, with those that are shown; all if empty. With
    `rows` "method" methods are rows, and data sets columns.
    """
    for column, names in (("data", data), ("method", methods), ("metric", metrics)):
        known = names or {name: name for name in frame[column].unique()}
        frame = frame[frame[column].isin(known)]
        order = pd.CategoricalDtype(list(dict.fromkeys(known.values())))
        frame = frame.assign(**{column: frame[column].map(known).astype(order)})
    columns = ["metric", "method" if rows == "data" else "data"]
    wide = frame.pivot_table("mean", rows, columns, aggfunc="last", observed=True, sort=False)
    return wide.sort_index().sort_index(axis=1)


def texts(wide: pd.DataFrame) -> list[list[str]]:
    """Return the numbers of a table as they are shown."""

    def text(metric: str, value: float) -> str:
        if np.isnan(value) or metric not in DIGITS:
            return number(value)
        return f"{value:.{DIGITS[metric]}f}"

    metrics = wide.columns.get_level_values(0)
    return [[text(*pair) for pair in zip(metrics, row, strict=True)] for row in wide.to_numpy()]


def means(wide: pd.DataFrame) -> list[str]:
    """Return geometric means of ratios to the first method, over data sets that all have.

    They are left out where a number was rounded to zero.
    """
    found = [MEANS]
    for metric in wide.columns.unique(0):
        both = wide[metric].dropna()
        ratios = np.exp(
            np.log(both.where(both > 0).div(both.iloc[:, 0], axis=0)).mean(skipna=False)
        )
        found += ["-" if np.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios]
    return found


def readme_table() -> str:
    """Return the table of the README, from its first marker to the last.

    It has the NLPP of every data set, with the lowest in bold, and the ratios of all metrics.
    """
    head, frame = read("benchmark-tables")
    wide = pivoted(frame, METRICS, METHODS, {})
    wide = wide[wide["NLPP"].notna().all(axis=1)]
    rows = [["NLPP", *METHODS.values()], ["---", *["---:"] * len(METHODS)]]
    nlpp = wide["NLPP"].map("{:.3f}".format)
    lowest = nlpp.eq(nlpp.min(axis=1), axis=0)
    rows += nlpp.mask(lowest, "**" + nlpp + "**").reset_index().astype(str).to_numpy().tolist()
    for metric in METRICS.values():
        rows.append([f"*{metric.split(',')[0]}, ratio*", *means(wide[[metric]])[1:]])
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    made = f"{head['date']}; commit: {head['commit']}; {head['machine']}; {head['kernels']}"
    return "\n".join([BEGIN, "", *lines, "", f"Measured {made}.", "", END])


def with_table(text: str) -> str:
    """Return the text of the README with its table made anew."""
    pattern = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    return re.sub(pattern, lambda _: readme_table(), text, flags=re.DOTALL)


def beside_published(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a line of texts for each figure with a published one, or a goal."""
    more = ["mean", "standard error", "published", "where", "goal", "met"]
    frame = frame.reindex(columns=[*FIGURE, *more])
    frame = frame[frame[["published", "goal"]].notna().any(axis=1)]
    words = [name for name in FIGURE if frame[name].nunique() > 1] or ["metric"]
    table = frame[words].map(shown)
    errors = " ± " + frame["standard error"].map(number)
    table["sparsegp"] = frame["mean"].map(number) + errors.where(
        frame["standard error"].notna(), ""
    )
    table["published"] = frame["published"].fillna("")
    met = frame["met"].map({True: ", met", False: ", missed"}).fillna(", not known yet")
    table = table.assign(where=frame["where"].fillna(""), goal=(frame["goal"] + met).fillna(""))
    if "metric" not in words:
        table = table.rename(columns={"sparsegp": f"sparsegp, {frame['metric'].iloc[0]}"})
    return table.loc[:, (table != "").any()]


def shown(value: Any) -> str:
    """Return a number of rows, or a text, as it is written."""
    if isinstance(value, float):
        return "all" if np.isnan(value) else f"{value:g}"
    return str(value)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
