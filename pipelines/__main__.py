"""The command line: ``python -m pipelines FILE.toml --data DIR``."""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import click

from pipelines.experiment import read_experiment
from pipelines.pictures import draw
from pipelines.run import Work
from pipelines.table import INCOMPLETE, comparison, layout, origin, small_table, tabulate, tidy
from sparsegp.cli.options import cluster, place, threads, together, workers
from sparsegp.cli.program import Command

CHANGE = "Change a value of the file, as in --set seeds=1 --set 'methods.*.n_active=20'."

PAGE = Template(Path(__file__).with_name("page.html").read_text("utf-8"))
"""Template of the web page; `sections` has a section for each pipeline."""


@click.command(cls=Command)
@click.argument("files", metavar="FILE.toml...", nargs=-1, required=True)
@click.option("--data", metavar="DIR", envvar="SPARSEGP_DATA", help="Folder of data files.")
@click.option("--out", metavar="DIR", default="results", show_default=True, help="For results.")
@click.option("--cells", metavar="GLOB", default="*", help="Run only cells with such names.")
@click.option("--set", "changes", metavar="KEY=VALUE", multiple=True, help=CHANGE)
@click.option("--report", metavar="DIR", help="Run nothing: write a page of what is finished.")
@click.option("--csv", metavar="DIR", help="Write small tables, with their origin, there too.")
@together(threads, workers, cluster)
def main(
    files: tuple[str, ...],
    data: str | None,
    out: str,
    cells: str,
    changes: tuple[str, ...],
    report: str | None,
    csv: str | None,
    **places: Any,
) -> None:
    """Run what is missing of pipelines and print the results next to the published ones.

    Every finished cell is kept; the same command continues an interrupted run. With --threads,
    --workers or --cluster cells for which one thread is enough run side by side; the results are
    the same.
    """
    page: list[str] = []
    folder = Path(data).absolute() if data else None
    for file in files:
        experiment = read_experiment(Path(file), changes)
        work = Work(experiment, folder, Path(out) / experiment.name)
        if report is None:
            work.run_missing(cells, place(places).get("runtime"))
        results = work.finished()
        frame = tidy(experiment, results)
        table = tabulate(experiment, frame)
        work.out.mkdir(parents=True, exist_ok=True)
        frame.to_csv(work.out / "figures.csv", index=False)
        table.to_csv(work.out / "table.csv", index=False)
        pictures = draw(work, frame)
        known = origin(experiment, results, table)
        tables = comparison(experiment, results) | {"All metrics": layout(table)}
        if csv is not None:
            Path(csv).mkdir(parents=True, exist_ok=True)
            text = small_table(experiment, results, table)
            (Path(csv) / f"{experiment.name}.csv").write_text(text, encoding="utf-8")
        if report is not None:
            page.append(section(experiment.heading, known, tables, pictures))
            continue
        shown = [f"{name}\n\n{text.to_string()}\n" for name, text in tables.items()]
        lines = [f"{name}: {value}" for name, value in known.items()]
        click.echo("\n".join([experiment.heading, "", *shown, *lines, f"see {work.out}"]))
    if report is not None:
        Path(report).mkdir(parents=True, exist_ok=True)
        (Path(report) / "index.html").write_text(PAGE.substitute(sections="".join(page)), "utf-8")
        click.echo(f"written: {Path(report) / 'index.html'}")


def section(heading: str, known: Mapping[str, str], tables: Any, pictures: Sequence[Path]) -> str:
    """Return the section of a pipeline on the web page, with embedded pictures."""
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


if __name__ == "__main__":
    main()
