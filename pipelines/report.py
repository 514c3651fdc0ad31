"""What is shown of results: a page with pictures, and small tables that say where they are from."""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines import ranks
from pipelines.experiment import FINAL, KEYS, Experiment
from pipelines.table import INCOMPLETE, published

COLUMNS = [*KEYS, "ours", "se", "seeds", "value", "where", "goal", "met"]
NAMES = {"n_active": "active rows", "ours": "mean", "se": "standard error", "value": "published"}
"""Of a table that `tabulate` makes, what is kept in a small one, and how it is named there."""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Pipelines</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem }}
body {{ padding: 0 1rem }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }}
td, th {{ border-bottom: 1px solid #ddd; padding: .2rem .8rem .2rem 0; text-align: left }}
td, thead th {{ text-align: right; white-space: nowrap }} div {{ overflow-x: auto }}
td.met {{ color: #00603a }} td.missed {{ color: #b00020 }} td.incomplete {{ color: #777 }}
dt {{ float: left; clear: left; width: 8rem; color: #555 }} dd {{ margin-left: 8rem }}
img {{ max-width: 100% }}
</style></head><body><h1>Pipelines</h1>{}</body></html>
"""


def origin(experiment: Experiment, results: ranks.Results, table: pd.DataFrame) -> dict[str, str]:
    """Return when, where and by what cells were run, their cost, the goals met, what is missing."""
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


def small_table(experiment: Experiment, results: ranks.Results, table: pd.DataFrame) -> str:
    """Return the figures of a table as CSV, after lines that say where they are from.

    A mean has five digits. The standard error is that over seeds or, where one split was compared
    with others by rows, over its test rows.
    """
    file = "/".join(experiment.path.absolute().parts[-2:])
    head = {"title": experiment.heading, "file": f"pipelines/{file}"}
    head |= origin(experiment, results, table)
    counts = table[["n_active", "seeds"]].replace(FINAL, np.nan).astype("Int64")
    found = table.assign(**counts)
    if experiment.picture == "ranks":
        keys = ["data", "method", "metric"]
        over_rows = found[keys].merge(ranks.standard_errors(experiment, results), "left", on=keys)
        found["se"] = found["se"].fillna(over_rows["se"].set_axis(found.index))
    found = found[found["ours"].notna() | found["value"].notna() | (found["goal"] != "")]
    found["value"] = [published(*line) for line in found[["value", "below"]].values]
    text = found[COLUMNS].rename(columns=NAMES).dropna(axis=1, how="all")
    lines = "".join(f"# {name}: {value}\n" for name, value in head.items())
    return lines + str(text.to_csv(index=False, float_format="%.5g"))


def section(heading: str, known: Mapping[str, str], tables: Any, pictures: Sequence[Path]) -> str:
    """Return a pipeline's part of the page, with its pictures in it."""
    facts = (f"<dt>{html.escape(k)}<dd>{html.escape(value)}" for k, value in known.items())
    parts = [f"<h2>{html.escape(heading)}</h2><dl>{''.join(facts)}</dl>"]
    for path in pictures:
        image = base64.b64encode(path.read_bytes()).decode()
        parts.append(f'<p><img alt="{html.escape(path.stem)}" src="data:image/png;base64,{image}">')
    marked = rf"<td>([^<]*(met|missed|{INCOMPLETE}))\b"
    for name, text in tables.items():
        shown = re.sub(marked, r'<td class="\2">\1', text.to_html())
        parts.append(f"<h3>{html.escape(name)}</h3><div>{shown}</div>")
    return "".join(parts)
