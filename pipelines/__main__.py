"""The command line: ``python -m pipelines FILE.toml --data DIR``."""

import base64
import html
import sys
from pathlib import Path
from typing import Any

import click
import pandas as pd

from pipelines import ranks
from pipelines.experiment import Experiment, read_experiment
from pipelines.pictures import draw
from pipelines.run import Work
from pipelines.table import layout, tabulate, tidy
from sparsegp.errors import Interrupted, SettingsError, SparseGPError

Tables = dict[str, pd.DataFrame]

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Pipelines</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem }}
td, th {{ border-bottom: 1px solid #ddd; padding: .2rem .8rem .2rem 0; text-align: left }}
td, thead th {{ text-align: right }} img {{ max-width: 100% }} table {{ font-size: 13px }}
</style></head><body>{}</body></html>
"""


def where_of(places: dict[str, Any]) -> str | None:
    """Return where to run in the words of `sparsegp.runtime.open_runtime`."""
    given = {name: value for name, value in places.items() if value is not None}
    words = [f"{k}={v}" if isinstance(v, int) else str(v) for k, v in given.items()]
    if len(words) > 1:
        raise SettingsError(f"give only one of {' and '.join(f'--{name}' for name in given)}")
    return words[0] if words else None


@click.command()
@click.argument("files", metavar="FILE.toml...", nargs=-1, required=True)
@click.option("--data", metavar="DIR", envvar="SPARSEGP_DATA", help="Folder of data files.")
@click.option("--out", metavar="DIR", default="results", show_default=True, help="For results.")
@click.option("--cells", metavar="GLOB", default="*", help="Run only cells with such names.")
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a value of the file, as in --set seeds=1 --set 'methods.*.n_active=20'.",
)
@click.option("--report", metavar="DIR", help="Run nothing: write a page of what is finished.")
@click.option("--threads", type=click.IntRange(min=1), help="Run in N threads of this process.")
@click.option("--workers", type=click.IntRange(min=1), help="Run on N processes of this machine.")
@click.option("--cluster", metavar="FILE", help="Run on a cluster; see cluster/README.md.")
def main(
    files: tuple[str, ...],
    data: str | None,
    out: str,
    cells: str,
    changes: tuple[str, ...],
    report: str | None,
    **places: Any,
) -> None:
    """Run what is missing of pipelines and print our figures beside the paper's.

    Every finished cell is kept; a call that was interrupted is gone on with by the same command.
    With --threads, --workers or --cluster cells for which one thread is enough run side by side;
    the figures are the same.
    """
    page: list[str] = []
    folder = Path(data).absolute() if data else None
    for file in files:
        experiment = read_experiment(Path(file), changes)
        work = Work(experiment, folder, Path(out) / experiment.name)
        if report is None:
            work.run_missing(cells, where_of(places))
        results = work.finished()
        frame = tidy(experiment, results)
        table = tabulate(experiment, frame)
        work.out.mkdir(parents=True, exist_ok=True)
        frame.to_csv(work.out / "figures.csv", index=False)
        table.to_csv(work.out / "table.csv", index=False)
        pictures = draw(work, frame)
        lines = origin(experiment, results)
        tables = ranks.comparison(experiment, results) | {"All metrics": layout(table)}
        if experiment.picture == "ranks":
            heads = "".join(f"# {line}\n" for line in lines)
            wide = ranks.wide(experiment, results, table).to_csv(float_format="%.5g")
            (work.out / "results.csv").write_text(heads + wide)
        if report is not None:
            page.append(section(experiment.heading, lines, tables, pictures))
            continue
        shown = [f"{name}\n\n{text.to_string()}\n" for name, text in tables.items()]
        click.echo("\n".join([experiment.heading, "", *shown, *lines, f"see {work.out}"]))
    if report is not None:
        Path(report).mkdir(parents=True, exist_ok=True)
        (Path(report) / "index.html").write_text(PAGE.format("".join(page)), encoding="utf-8")
        click.echo(f"written: {Path(report) / 'index.html'}")


def origin(experiment: Experiment, results: ranks.Results) -> list[str]:
    """Return lines on when, where and by what cells were run, and how many are not finished."""
    made = pd.DataFrame([result["made"] for result in results.values() if "made" in result])
    lines = [f"date: {made['date'].min()} to {made.pop('date').max()}"] if len(made) else []
    lines += [f"{name}: {'; '.join(values.unique())}" for name, values in made.items()]
    lines += [f"{len(results)} of {len(experiment.cells)} cells finished"]
    left = [(cell.data, cell.method) for cell in experiment.cells if cell.key not in results]
    missing = pd.DataFrame(left, columns=["data", "method"]).groupby("data", sort=False)["method"]
    return lines + [f"not finished: {data}: {', '.join(of.unique())}" for data, of in missing]


def section(heading: str, lines: list[str], tables: Tables, pictures: list[Path]) -> str:
    """Return a pipeline's part of the page, with its pictures in it."""
    parts = [f"<h2>{html.escape(heading)}</h2>", "<br>".join(map(html.escape, lines))]
    for path in pictures:
        image = base64.b64encode(path.read_bytes()).decode()
        parts.append(f'<p><img alt="{html.escape(path.stem)}" src="data:image/png;base64,{image}">')
    parts += [f"<h3>{html.escape(name)}</h3>{text.to_html()}" for name, text in tables.items()]
    return "".join(parts)


def run() -> int:
    """Run the command; errors that are the user's to mend are one line."""
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SparseGPError as error:
        click.echo(f"error: {error}", err=True)
        return 75 if isinstance(error, Interrupted) else 2  # 75: the same command goes on
    return 0


if __name__ == "__main__":
    sys.exit(run())
