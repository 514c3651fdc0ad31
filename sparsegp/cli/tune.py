"""`sparsegp tune`, and what `train --tune` and `inspect` share with it."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import percent, plural, print_json, print_pairs

MOST_LINES = 10
"""Trials that are shown of each rung."""

WIDTH = 60
"""Of a kernel in the table."""


@click.command()
@click.argument("data")
@click.option(
    "--out", metavar="DIR", help="Directory or URL of the records.  [sparsegp-tune-<name of DATA>]"
)
@shared.tuning_options
@shared.task_option
@shared.settings_options
@click.option("--resume", is_flag=True, help="Go on with the tuning in the directory.")
@shared.where_options
@shared.label_column
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@shared.as_json
def tune(
    data: str,
    out: str | None,
    resume: bool,
    label_column: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Choose the kernel for DATA by the predictive probability of rows held out.

    Length scale, variance and family are tried on growing subsamples of the training rows, the
    best of them on more. The options are those of `train`; its --kernel is tried on every
    subsample. The records go to a directory, from which a tuning that was stopped or killed goes
    on. Rows of a test part are not looked at.
    """
    from sparsegp.checkpoint import place_of
    from sparsegp.cli.signals import stoppable
    from sparsegp.cli.stages import Stages
    from sparsegp.cli.train import open_tables, stem
    from sparsegp.tuning import tunable
    from sparsegp.tuning import tune as choose

    settings = shared.given(options, shared.TASK, shared.SETTINGS)
    tunable(**settings)  # refuses before anything is read
    directory = place_of(out or f"sparsegp-tune-{stem(data)}")
    with stoppable(), Stages(quiet, directory) as stages:
        stages.begin("read")
        table, _ = open_tables(data, None, label_column)
        stages.begin("prepare")
        tuned = choose(
            table,
            out=directory,
            resume=resume,
            progress=stages,
            **settings,
            **shared.given(options, shared.WHERE, shared.TUNING),
        )
        command = train_command(data, label_column, {**settings, "kernel": tuned.kernel})
        record = {
            "source": table.source,
            "rows": int(table.X.shape[0]),
            "columns": int(table.X.shape[1]),
            **tuned.to_json(),
            "run": str(directory),
            "train": command,
            "seconds": stages.taken(),
        }
        stages.done(record, summary(record))
    if as_json:
        print_json(record)
        return
    print_trials(record["trials"], tuned.kernel)
    print_pairs(summary(record))


def train_command(data: str, label_column: str | None, settings: Mapping[str, Any]) -> str:
    """Return the command line that trains with some settings."""
    words = ["sparsegp", "train", data]
    if label_column is not None:
        words += ["--label-column", label_column]
    for option in click.get_current_context().command.params:
        if option.name in shared.SETTINGS and option.name in settings:
            value = settings[option.name]
            words += option.opts[:1] if isinstance(value, bool) else [option.opts[0], str(value)]
    return shlex.join(words)


def summary(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the outcome of a tuning in words."""
    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    times = ", ".join(f"{name} {value:.1f} s" for name, value in record["seconds"].items())
    return [
        ("tuned on", f"{record['source']}: {rows}, {columns}"),
        ("trials", extent(len(record["trials"]), record["ended"])),
        ("kernel", record["kernel"]),
        ("time", times),
        ("records", str(record["run"])),
        ("next", record["train"]),
    ]


def extent(trials: int, ended: str) -> str:
    """Return how many trials there were, and whether there should have been more."""
    cut = "" if ended == "all rungs" else f", cut short by {ended}"
    return plural(trials, "trial") + cut


def print_trials(trials: Iterable[Mapping[str, Any]], chosen: str | None) -> None:
    """Print a table of trials, the best of each rung first; the chosen kernel has a star."""
    rungs: dict[int, list[Mapping[str, Any]]] = {}
    for trial in trials:
        rungs.setdefault(trial["rung"], []).append(trial)
    for rung in sorted(rungs):
        ranked = sorted(rungs[rung], key=rank)
        size = f"{ranked[0]['rows']} rows, {ranked[0]['n_active']} of them active"
        click.echo(f"rung {rung}: {plural(len(ranked), 'trial')} on {size}{against(ranked[0])}")
        click.echo("  trial    nlpp    error     ece      cpu  kernel")
        for trial in ranked[:MOST_LINES]:
            click.echo(line(trial, trial["kernel"] == chosen))
        if len(ranked) > MOST_LINES:
            click.echo(f"    ... {len(ranked) - MOST_LINES} more")


def against(trial: Mapping[str, Any]) -> str:
    """Return how a trial went that had a rival."""
    if not trial.get("rival"):
        return ""
    ahead = "ahead" if trial["leads"] else "not ahead"
    return f", {ahead} of the kernel of the settings on other rows held out"


def rank(trial: Mapping[str, Any]) -> tuple[bool, float, int]:
    """Return what trials of a rung are sorted by."""
    failed = trial["nlpp"] is None
    return failed, 0.0 if failed else trial["nlpp"], trial["number"]


def line(trial: Mapping[str, Any], chosen: bool) -> str:
    """Return a line of the table."""
    star, kernel = "*" if chosen else " ", shortened(trial["kernel"])
    if trial["nlpp"] is None:
        return f"{star} {trial['number']:>5}  failed: {trial['failure']}  {kernel}"
    return (
        f"{star} {trial['number']:>5}  {trial['nlpp']:.4f}  {percent(trial['error']):>7}  "
        f"{trial['ece']:.4f}  {trial['seconds']:>5.1f} s  {kernel}"
    )


def shortened(kernel: str) -> str:
    """Return the beginning of a text that is too long for a table."""
    return kernel if len(kernel) <= WIDTH else f"{kernel[: WIDTH - 3]}..."
