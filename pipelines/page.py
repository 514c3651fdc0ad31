"""The page of what is finished, and comparisons of methods in tables."""

import html
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines import ranks
from pipelines.experiment import Experiment
from pipelines.table import layout, number

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Pipelines</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem }}
td, th {{ border-bottom: 1px solid #ddd; padding: .2rem .8rem .2rem 0; text-align: left }}
td, thead th {{ text-align: right }} img {{ max-width: 100% }} table {{ font-size: 13px }}
</style></head><body>{}</body></html>
"""

Results = Mapping[str, Mapping[str, Any]]


def origin(experiment: Experiment, results: Results) -> list[str]:
    """Return lines on when, where and by what cells were run, and how many are not finished."""
    made = pd.DataFrame([result["made"] for result in results.values() if "made" in result])
    lines = [f"date: {made['date'].min()} to {made.pop('date').max()}"] if len(made) else []
    lines += [f"{name}: {'; '.join(values.unique())}" for name, values in made.items()]
    lines += [f"{len(results)} of {len(experiment.cells)} cells finished"]
    missing: dict[str, Counter[str]] = {}
    for cell in experiment.cells:
        if cell.key not in results:
            missing.setdefault(cell.data, Counter())[cell.method] += 1
    for data, counts in missing.items():
        names = ", ".join(f"{name} ({count})" for name, count in counts.items())
        lines.append(f"not finished: {data}: {names}")
    return lines


def comparison(experiment: Experiment, results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables of a comparison over data sets, as text, by their headings."""
    tables = {}
    for metric in ranks.ROWS if experiment.picture == "ranks" else ():
        scores = ranks.scores_of(experiment, results, metric)
        if counted := ranks.compared(scores):
            found = ranks.summarise(counted, experiment.rivals)
            text = found.apply(lambda column: column.map(str if column.dtype == int else number))
            tables[f"{metric}: on {len(counted)} of {len(scores)} data sets"] = text
        lines = {data: _marked(frame) for data, frame in scores.items()}
        tables[f"{metric}: means ± standard errors"] = pd.DataFrame(lines).T.fillna("-")
    return tables


def _marked(scores: pd.DataFrame) -> dict[str, str]:
    """Return means of columns with their standard errors, the least with a star."""
    mean, error = scores.mean(), scores.sem()
    stars = {name: "*" if mean[name] == mean.min() else "" for name in scores}
    return {name: f"{star}{mean[name]:.3f} ± {error[name]:.3f}" for name, star in stars.items()}


def to_csv(experiment: Experiment, results: Results, table: pd.DataFrame) -> str:
    """Return means and standard errors of all metrics: a line for each data set and method."""
    wide = table.pivot(index=["data", "method"], columns="metric", values=["ours", "se"])
    for metric in ranks.ROWS:
        scores = ranks.scores_of(experiment, results, metric)
        errors = pd.DataFrame({data: frame.sem() for data, frame in scores.items()})
        wide["se", metric] = errors.T.stack()
    wide.columns = [name if what == "ours" else f"{name}, se" for what, name in wide.columns]
    heads = [f"# {line}\n" for line in (experiment.heading, *origin(experiment, results))]
    lines: str = wide.dropna(how="all").to_csv(float_format="%.5g")
    return "".join(heads) + lines


def section(
    experiment: Experiment, results: Results, table: pd.DataFrame, pictures: Sequence[Path], to: str
) -> str:
    """Return a pipeline's part of the page, whose pictures are copied into a folder."""
    parts = [f"<h2>{html.escape(experiment.heading)}</h2>"]
    parts.append("<br>".join(html.escape(line) for line in origin(experiment, results)))
    for path in pictures:
        name = f"{experiment.name}-{path.name}"
        shutil.copyfile(path, Path(to) / name)
        parts.append(f'<p><img src="{html.escape(name)}" alt="{html.escape(path.stem)}"></p>')
    for heading, text in (comparison(experiment, results) | {"All metrics": layout(table)}).items():
        parts.append(f"<h3>{html.escape(heading)}</h3>{text.to_html()}")
    return "".join(parts)
