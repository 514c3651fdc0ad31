"""`sparsegp train`."""

import shlex
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, pairs, percent, seconds_of, show, working
from sparsegp.cli.tune import extent
from sparsegp.errors import SettingsError, size
from sparsegp.lists import plural
from sparsegp.settings import AUTO, settings_given


@click.command(cls=shared.GroupedCommand)
@click.argument("data")
@shared.test
@shared.text("--out", "DIR", "Directory or URL of the run.  [sparsegp-run-<name of DATA>]")
@shared.task
@shared.settings
@shared.dense
@shared.number("--block-rows", "Rows per block; affects speed, not the result.")
@shared.text(
    "--scratch",
    "DIR",
    "Keep the largest arrays in files in this directory, if they do not fit into memory.",
)
@shared.number("--checkpoint-every", "Inclusions between two checkpoints.")
@shared.number("--keep-last", "Number of checkpoints to keep.")
@click.option(
    "--tune", "tuned", is_flag=True, help="Choose the kernel first, as `sparsegp tune` does."
)
@shared.limits
@shared.text(
    "--virtual",
    "RUN",
    "Add shifted copies of the active rows of this finished run on DATA, and use its kernel and "
    "likelihood as learnt, and its settings unless given.",
)
@shared.number(
    "--shift", "With --virtual: pixels by which copies are shifted in four directions.  [1]"
)
@shared.text("--image", "HxW", "With --virtual: height and width of images.  [square]")
@shared.first_columns
@shared.running
def train(data: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Train a classifier or a regression model on DATA.

    DATA is `digits`, `iris`, `toy` or `wine`, or a file: .npz with X, y or X_train, y_train,
    X_test, y_test; "X.npy,y.npy"; text with the label in the last column (.csv, .txt and others);
    IDX; zarr; parquet. Text and IDX files may be compressed (.gz, .bz2, .xz, .zip). Stopped or
    killed runs can be resumed from their output directory.
    """
    with working(data, quiet) as progress:
        from sparsegp.cli import facts, tables
        from sparsegp.data import warn_of_numbers
        from sparsegp.fit.api import fit
        from sparsegp.fit.run import RunOptions
        from sparsegp.fit.tune import tunable
        from sparsegp.report.scores import score
        from sparsegp.store import folder_of

        typed, place = shared.given(options, shared.SETTINGS), shared.place(options)
        enlarge, named = tables.with_copies(options, typed)
        settings = (tunable if options["tuned"] else settings_given)(**named)
        settings.require_used(typed)  # before data are read
        limits = limits_of_search(options, settings.kernel)
        out = options["out"] or f"sparsegp-run-{tables.stem(data)}"
        if options["virtual"] is not None:
            tables.require_apart(out, options["virtual"])
        progress.begin("read")
        columns = shared.given(options, shared.COLUMNS) | {"is_regression": settings.is_regression}
        table, held_out = tables.training_tables(data, options["test"], **columns)
        table = enlarge(table)
        if options["task"] is None:
            warn_of_numbers(table.y, table.source, settings.is_regression)
        progress.begin("prepare")
        kept, blocks = (shared.given(options, names) for names in (shared.KEPT, shared.BLOCKS))
        run = RunOptions(out=out, progress=progress, **kept, **place)
        model, search = fit(table, held_out, settings, run, limits, **blocks)
        evaluation = None if held_out is None else score(model, held_out, progress)[0]
    of_classes = ("error", "nlpp", "brier", "ece", "ece_by_chance")
    metrics = ("mse", "r2", "nlpp") if model.is_regression else of_classes
    record = {
        **facts.outcome(model, table, folder_of(out)),
        "held_out": None if held_out is None else held_out.source,
        **(dict.fromkeys(("n", *metrics)) if evaluation is None else evaluation.to_json()),
        "tuning": None if search is None else {**search.to_json(), "trials": len(search.trials)},
        "seconds": progress.seconds,
    }
    tested = {} if evaluation is None else facts.figures(evaluation)
    lines = [headline(record, tested), "", *pairs(summary(record, tested))]
    show([json_line(record)] if as_json else lines)


def limits_of_search(options: dict[str, Any], kernel: str | None) -> dict[str, Any] | None:
    """Return the limits of the search for a kernel, None if there is no search.

    Raises
    ------
    SettingsError
        If limits are given without a search.
    """
    from sparsegp.fit.tune import MAX_TRIALS

    limits, tuned = shared.given(options, shared.LIMITS), options["tuned"]
    if tuned or kernel == AUTO:
        is_given = options["kernel"] not in {None, AUTO}
        return {"max_trials": MAX_TRIALS if tuned else None, **limits, "is_given": is_given}
    if limits:
        raise SettingsError(
            f"{shared.flags(limits)} limits a search for the kernel, and with these settings "
            "there is none; give --tune or no --kernel, or leave it out"
        )
    return None


def headline(record: dict[str, Any], tested: dict[str, str]) -> str:
    """Return the line to read first: how good the model is on rows that it was not trained on."""
    if tested:
        rows = plural(record["n"], "test row")
        if "r2" in tested:
            return f"r2 {tested['r2']} on {rows}"
        return f"error {percent(record['error'])} on {rows}, nlpp {tested['nlpp']}"
    if (nlpp := record["validation_nlpp"]) is not None:
        return f"nlpp {nlpp:.4f} nats {_that_validated(record)} (optimistic)"
    run = shlex.quote(record["run"])
    return f"not tested; sparsegp evaluate {run} FILE measures it on other rows"


def summary(record: dict[str, Any], tested: dict[str, str]) -> dict[str, str | None]:
    """Return the record and the test metrics in words, by display name."""
    from sparsegp.kernels import brief

    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    if used := [column for column in record["inputs"] if not column["left_out"]]:
        columns = f"{plural(len(used), 'column')} encoded as {record['columns']}"
    labels = f"{len(record['classes'])} classes" if record["classes"] else "a regression"
    labels += "" if record["label"] is None else f" of column {record['label']}"
    choice, nlpp, settings = record["tuning"], record["validation_nlpp"], record["settings"]
    chosen = "" if choice is None else "without a search, as for pixels, copies and few rows"
    learnt = record if "method" in settings else {}  # else metrics of the selection
    if choice and choice["trials"]:
        chosen = f"by {extent(choice['trials'], choice['ended'])}"
        if choice["nlpp"]:
            chosen += f"; nlpp at the choice {choice['nlpp']:.4f} nats, on held-out training rows"
    stored = record["model_bytes"]  # 0 if another process overwrites the run
    return {
        "trained on": f"{record['source']}: {rows}, {columns}, {labels}",
        "kernel": "; ".join(dict.fromkeys(map(brief, record["kernels"]))),
        "scaling": record["scaling"],
        "metric": settings.get("metric", "none").removeprefix("none"),
        "  chosen": chosen,
        "active rows": str(record["n_active"]),
        "validation": None if nlpp is None else f"nlpp {nlpp:.4f} nats {_that_validated(record)}",
        "training mse": f"{learnt['train_mse']:.5g}" if "train_mse" in learnt else None,
        "training error": percent(learnt["train_error"]) if "train_error" in learnt else None,
        "test rows": record["held_out"],
        **{f"  {name}": text for name, text in tested.items()},
        "time": seconds_of(record["seconds"]),
        "model": record["model"] + (f" ({size(stored)})" if stored else ", deleted meanwhile"),
        "next": f"sparsegp predict {shlex.quote(record['run'])} DATA --out predictions.csv",
    }


def _that_validated(record: dict[str, Any]) -> str:
    """Return in words on which rows `validation_nlpp` was measured."""
    kind = "weighted " if record["settings"].get("class_weight") else ""
    if count := record["validation_rows"]:
        return f"on {plural(count, f'{kind}validation row')}"
    return f"in {kind}cross-validation, which chose the prior variance"
