"""`sparsegp tune`, and the table of trials that `inspect` shows too."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, pairs, percent, records_table, seconds_of, show, working
from sparsegp.lists import plural

TRIED = ("scaling", "metric", "kernel")
"""What is tried in a trial."""
SHOWN = ("best", "stage", "rows", "n_active", "active", "nlpp", "on", "error", *TRIED)
"""Columns of the table of trials, before the reason of a failure."""
CHOICE = (*TRIED, "nlpp")
"""Fields that trials and the choice share."""


@click.command(cls=shared.GroupedCommand)
@click.argument("data")
@shared.text("--out", "DIR", "Directory or URL of the records.  [sparsegp-tune-<name of DATA>]")
@shared.limits
@shared.task
@shared.settings
@shared.first_columns
@shared.running
def tune(data: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Choose the kernel for DATA on held-out training rows.

    Candidates are compared by predictive probability: kernel families, length scales, variances and
    scalings; then per-column length scales, a distance metric, and more active rows. The options
    are those of `train`. A given --kernel is kept unless another one leads it by two standard
    errors; a given --scaling or --n-active is kept.
    Stopped or killed searches can be resumed from their output directory. Test rows are not used.
    """
    with working(data, quiet) as progress:
        import sparsegp
        from sparsegp.cli.tables import stem, training_tables
        from sparsegp.fit.tune import tunable
        from sparsegp.store import folder_of

        settings, place = shared.given(options, shared.SETTINGS), shared.place(options)
        wanted = tunable(**settings)
        wanted.require_used(settings)  # before anything is read
        columns = shared.given(options, shared.COLUMNS)
        out = options["out"] or f"sparsegp-tune-{stem(data)}"
        progress.begin("read")
        table, _ = training_tables(data, **columns)
        progress.begin("prepare")
        run = shared.given(options, (*shared.LIMITS, *shared.KEPT)) | place | settings
        tuned = sparsegp.tune(table, out=out, progress=progress, **run)
    n, p = map(int, table.X.shape)
    record = {
        "source": table.source,
        "rows": n,
        "columns": p,
        **tuned.to_json(),
        "run": str(folder_of(out)),
        "train": train_command(data, {**columns, **settings, **tuned.chosen}),
        "seconds": progress.seconds,
    }
    lines = trials_table(tuned.trials, record, wanted.is_regression)
    lines += pairs(in_words(record, tuned.chosen))
    show([json_line(record)] if as_json else lines)


def in_words(record: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the record in words, by display name."""
    from sparsegp.kernels import brief

    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    return {
        "tuned on": f"{record['source']}: {rows}, {columns}",
        "trials": extent(len(record["trials"]), record["ended"]),
        "kernel": brief(record["kernel"]),
        "  kept": kept_by_guard(record["trials"], {**chosen, "kernel": record["kernel"]}),
        "scaling": record["scaling"],
        "metric": None if record["metric"] == "none" else record["metric"],
        "active rows": record["n_active"] and str(record["n_active"]),
        "criterion": record["criterion"],
        "time": seconds_of(record["seconds"]),
        "records": record["run"],
        "next": record["train"],
    }


def train_command(data: str, given: Mapping[str, Any]) -> str:
    """Return the command line that trains with the given options of columns and settings."""
    words, known = ["sparsegp", "train", data], {*shared.COLUMNS, *shared.SPARSE_SETTINGS, "task"}
    params = click.get_current_context().command.params
    for option in sorted(params, key=lambda option: option.name in shared.SPARSE_SETTINGS):
        if option.name in known and option.name in given:
            value = given[option.name]
            name = ((value is False and option.secondary_opts) or option.opts)[0]
            words += [name] if isinstance(value, bool) else [name, str(value)]
    return shlex.join(words)


def kept_by_guard(trials: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> str | None:
    """Return why the first kernel was kept if another trial had a lower NLPP, else None."""
    first = min(trials, key=lambda trial: int(trial["number"]), default=chosen)
    if any(value != first.get(name) for name, value in chosen.items() if name in CHOICE):
        return None
    others = [trial["nlpp"] for trial in trials if trial["number"] != first["number"]]
    known = [nlpp for nlpp in others if nlpp is not None]
    is_behind = first.get("nlpp") is not None and any(nlpp < first["nlpp"] for nlpp in known)
    return "no other leads it by two standard errors" if is_behind else None


def extent(trials: int, ended: str) -> str:
    """Return the number of trials and what cut them short, if anything, in words."""
    cut = "" if ended == "all rungs" else f", cut short by {ended}"
    return plural(trials, "trial") + cut


def trials_table(
    trials: Iterable[Mapping[str, Any]],
    chosen: Mapping[str, Any] | None,
    is_regression: bool = False,
) -> list[str]:
    """Return a table of trials by stage and size, the best of each first; the choice has a star.

    Trials of one stage and size predict the same rows, named if they are not the held-out ones.
    """
    from sparsegp.kernels import brief

    def rank(trial: Mapping[str, Any]) -> tuple[Any, ...]:
        failed, size = trial["nlpp"] is None, (trial.get("rows"), trial.get("n_active"))
        return trial["rung"], *size, failed, 0.0 if failed else trial["nlpp"], trial["number"]

    def is_chosen(trial: Mapping[str, Any]) -> bool:  # its NLPP is not that of a re-estimation
        names = TRIED if trial.get("again") else CHOICE
        return chosen is not None and all(chosen[name] == trial[name] for name in names)

    def predicted(trial: Mapping[str, Any]) -> str | None:
        if trial.get("again"):
            return "both halves"
        return "other half" if trial.get("first") else None

    trials = sorted(trials, key=rank)
    error = "1 - r2" if is_regression else "error"
    last = list(filter(is_chosen, trials))[-1:]
    shown = [
        {
            **trial,
            "stage": trial["rung"],
            "active": "selected" if trial.get("selects") else None,
            "on": predicted(trial),
            "kernel": brief(trial["kernel"]),
            error: None if trial["error"] is None else percent(trial["error"]),
            "best": "*" if trial in last else None,
            "metric": None if trial.get("metric") == "none" else trial.get("metric"),
            "failure": trial.get("failure") or None,
        }
        for trial in trials
    ]
    names = (error if name == "error" else name for name in (*SHOWN, "failure"))
    return records_table(shown, names)
