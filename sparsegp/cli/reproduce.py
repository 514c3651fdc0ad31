"""Command ``reproduce``: run a pipeline."""

import click


@click.command("reproduce")
@click.argument("pipeline", metavar="FILE.toml", type=click.Path())
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
    help="Folder for results.  [default: results/<name of the pipeline>]",
)
@click.option(
    "--cells",
    metavar="GLOB",
    default="*",
    help="Run only cells whose names match, as in --cells 'random-*'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on the last line.")
def command(pipeline: str, data: str | None, out: str | None, cells: str, as_json: bool) -> None:
    """Run what is missing of a pipeline and print our figures beside the paper's.

    A pipeline is a TOML file such as pipelines/girolami-rogers-2006/isolet.toml. Every finished
    cell is kept; an interrupted call is gone on with by the same command. table.csv is written
    beside the cells; so are curves.csv and, with the extra "plot", curves.png, or summary.csv for
    a benchmark.
    """
    import json

    from sparsegp.report import Progress
    from sparsegp.reproduce import reproduce

    with Progress() as progress:
        outcome = reproduce(pipeline, data=data, out=out, cells=cells, progress=progress)
    if as_json:
        click.echo(json.dumps(outcome.to_json()))
    else:
        click.echo("\n".join(outcome.lines()))
