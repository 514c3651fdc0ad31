"""`sparsegp tune`, and what `train --tune` and `inspect` share with it."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, pairs, percent, plural, seconds_of, show

MOST_LINES = 10
"""Trials that are shown of each rung."""

WIDTH = 60
"""Of a kernel in the table."""


@click.command()
@click.argument("data")
@click.option(
    "--out", metavar="DIR", help="Directory or URL of the records.  [sparsegp-tune-<name of DATA>]"
)
@shared.limits
@shared.task
@shared.settings
@click.option("--resume", is_flag=True, help="Go on with the tuning in the directory.")
@shared.where
@shared.label_column
@shared.quiet
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
    import sparsegp
    from sparsegp.cli.stages import Stages
    from sparsegp.cli.tables import stem, training_tables
    from sparsegp.fit.tune import tunable
    from sparsegp.runtime import open_runtime
    from sparsegp.store import folder_of

    settings = shared.settings_of(options)
    tunable(**settings)  # refuses before anything is read
    place, limits = shared.place(options), shared.given(options, shared.LIMITS)
    directory = out or f"sparsegp-tune-{stem(data)}"
    with Stages(quiet) as stages:
        stages.begin("read")
        table, _ = training_tables(data, None, label_column)
        stages.begin("prepare")
        run: dict[str, Any] = {"out": directory, "resume": resume, "progress": stages}
        with open_runtime(**place) as runtime:
            tuned = sparsegp.tune(table, runtime=runtime, **run, **limits, **settings)
        record = {
            "source": table.source,
            "rows": int(table.X.shape[0]),
            "columns": int(table.X.shape[1]),
            **tuned.to_json(),
            "run": str(folder_of(directory)),
            "train": train_command(data, label_column, {**settings, "kernel": tuned.kernel}),
            "seconds": stages.taken(),
        }
    if as_json:
        show([json_line(record)])
    else:
        show([*trial_lines(record["trials"], tuned.kernel), *pairs(summary(record))])


def train_command(data: str, label_column: str | None, settings: Mapping[str, Any]) -> str:
    """Return the command line that trains with some settings."""
    words = ["sparsegp", "train", data]
    if label_column is not None:
        words += ["--label-column", label_column]
    for option in click.get_current_context().command.params:
        if option.name in shared.SPARSE_SETTINGS and option.name in settings:
            value = settings[option.name]
            words += [option.opts[0]] if isinstance(value, bool) else [option.opts[0], str(value)]
    return shlex.join(words)


def summary(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the outcome of a tuning in words."""
    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    return [
        ("tuned on", f"{record['source']}: {rows}, {columns}"),
        ("trials", extent(len(record["trials"]), record["ended"])),
        ("kernel", record["kernel"]),
        ("time", seconds_of(record["seconds"])),
        ("records", str(record["run"])),
        ("next", record["train"]),
    ]


def extent(trials: int, ended: str) -> str:
    """Return how many trials there were, and whether there should have been more."""
    cut = "" if ended == "all rungs" else f", cut short by {ended}"
    return plural(trials, "trial") + cut


def trial_lines(trials: Iterable[Mapping[str, Any]], chosen: str | None) -> Iterator[str]:
    """Yield a table of trials, the best of each rung first; the chosen kernel has a star."""
    for rung, group in groupby(sorted(trials, key=rank), key=lambda trial: trial["rung"]):
        ranked = list(group)
        first = ranked[0]
        rows = f"{first['rows']} rows, {first['n_active']} of them active"
        yield f"rung {rung}: {plural(len(ranked), 'trial')} on {rows}{against(first)}"
        yield "  trial    nlpp    error     ece      cpu  kernel"
        for trial in ranked[:MOST_LINES]:
            yield trial_line(trial, trial["kernel"] == chosen)
        if len(ranked) > MOST_LINES:
            yield f"    ... {len(ranked) - MOST_LINES} more"


def rank(trial: Mapping[str, Any]) -> tuple[int, bool, float, int]:
    """Return what trials are sorted by: rungs, then those that did not fail, then nlpp."""
    failed = trial["nlpp"] is None
    return trial["rung"], failed, 0.0 if failed else trial["nlpp"], trial["number"]


def against(trial: Mapping[str, Any]) -> str:
    """Return how a trial compared that had a rival."""
    if not trial.get("rival"):
        return ""
    ahead = "ahead" if trial["leads"] else "not ahead"
    return f", {ahead} of the kernel of the settings on other rows held out"


def trial_line(trial: Mapping[str, Any], chosen: bool) -> str:
    """Return a line of the table."""
    star, kernel = "*" if chosen else " ", trial["kernel"]
    kernel = kernel if len(kernel) <= WIDTH else f"{kernel[: WIDTH - 3]}..."
    if trial["nlpp"] is None:
        return f"{star} {trial['number']:>5}  failed: {trial['failure']}  {kernel}"
    return (
        f"{star} {trial['number']:>5}  {trial['nlpp']:.4f}  {percent(trial['error']):>7}  "
        f"{trial['ece']:.4f}  {trial['seconds']:>5.1f} s  {kernel}"
    )
