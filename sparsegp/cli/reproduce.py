"""Command ``reproduce``: run a pipeline."""

from typing import Any

import click

from sparsegp.cli import options as shared


@click.command("reproduce")
@click.argument("pipelines", metavar="FILE.toml...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(),
    help="Folder of data files.  [default: that of the environment variable SPARSEGP_DATA]",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(),
    help="Folder for results of one pipeline.  [default: results/<name of the pipeline>]",
)
@click.option(
    "--cells",
    metavar="GLOB",
    default="*",
    help="Run only cells whose names match, as in --cells 'random-*'.",
)
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(),
    help="Run nothing: write a page of what is finished of all pipelines, with their pictures.",
)
@shared.where_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on the last line.")
def command(
    pipelines: tuple[str, ...],
    data: str | None,
    out: str | None,
    cells: str,
    report: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run what is missing of pipelines and print our figures beside the paper's.

    A pipeline is a TOML file such as pipelines/girolami-rogers-2006/isolet.toml. Every finished
    cell is kept; an interrupted call is gone on with by the same command. table.csv is written
    beside the cells; so are curves.csv and, with the extra "plot", curves.png, or summary.csv for
    a benchmark. Row blocks may live on a cluster, with the same result; a measurement of time stays
    in this process.
    """
    import json
    from pathlib import Path

    from sparsegp.errors import SettingsError
    from sparsegp.report import Progress
    from sparsegp.reproduce import reproduce, standing, write_page

    if out is not None and len(pipelines) > 1:
        raise SettingsError(f"--out is for one pipeline, got {len(pipelines)}; leave it out")
    if report is not None:
        outcomes = [standing(pipeline, data=data, out=out) for pipeline in pipelines]
        page = write_page(outcomes, Path(report))
        click.echo(json.dumps({"page": str(page)}) if as_json else f"written: {page}")
        return
    where = shared.given(options, shared.WHERE)
    for pipeline in pipelines:
        with Progress() as progress:
            outcome = reproduce(
                pipeline, data=data, out=out, cells=cells, progress=progress, **where
            )
        if as_json:
            click.echo(json.dumps(outcome.to_json()))
        else:
            click.echo("\n".join(outcome.lines()))
