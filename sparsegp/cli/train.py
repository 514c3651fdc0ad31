"""`sparsegp train`."""

import shlex
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.grouped import GroupedCommand
from sparsegp.cli.output import json_line, pairs, percent, seconds_of, show, working
from sparsegp.errors import SettingsError, size
from sparsegp.lists import plural
from sparsegp.settings import AUTO, settings_given

if TYPE_CHECKING:
    from sparsegp.data import Table
    from sparsegp.model import Model
    from sparsegp.report import Evaluation, RegressionEvaluation
    from sparsegp.store.folders import Folder


@click.command(cls=GroupedCommand)
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
        from sparsegp.cli.tables import require_apart, stem, training_tables
        from sparsegp.data import warn_of_numbers
        from sparsegp.fit.api import fit
        from sparsegp.fit.run import RunOptions
        from sparsegp.fit.tune import tunable
        from sparsegp.report.scores import score
        from sparsegp.store import folder_of

        typed, place = shared.given(options, shared.SETTINGS), shared.place(options)
        enlarge, named = with_copies(options, typed)
        settings = (tunable if options["tuned"] else settings_given)(**named)
        settings.require_used(typed)  # before data are read
        limits = limits_of_search(options, settings.kernel)
        out = options["out"] or f"sparsegp-run-{stem(data)}"
        if options["virtual"] is not None:
            require_apart(out, options["virtual"])
        progress.begin("read")
        read, room = (shared.given(options, names) for names in (shared.READING, shared.ROOM))
        table, held_out = training_tables(data, **read)
        table = enlarge(table)
        if options["task"] is None:
            warn_of_numbers(table.y, table.source, settings.is_regression)
        progress.begin("prepare")
        kept = shared.given(options, shared.KEPT)
        run = RunOptions(out=out, progress=progress, **kept, **place)
        model, search = fit(table, held_out, settings, run, limits, **room)
        evaluation = None if held_out is None else score(model, held_out, progress)[0]
    record = {
        **outcome(model, table, folder_of(out)),
        "held_out": None if held_out is None else held_out.source,
        **figures_of(evaluation, model.is_regression),
        "tuning": None if search is None else {**search.to_json(), "trials": len(search.trials)},
        "seconds": progress.seconds,
    }
    lines = [headline(record, evaluation), "", *pairs(summary(record, evaluation))]
    show([json_line(record)] if as_json else lines)


def with_copies(
    options: dict[str, Any], settings: dict[str, Any]
) -> tuple["Callable[[Table], Table]", dict[str, Any]]:
    """Return a function that adds virtual rows to a table, and the settings of the run.

    Without `--virtual`, rows and the settings that were given are left unchanged.

    Raises
    ------
    SettingsError, StoreError
        If options contradict each other or the run, or there is no finished run.
    """
    named = shared.given(options, ("shift", "image"))
    if options["virtual"] is None:
        if named:
            names = shared.in_words(named)
            raise SettingsError(f"{names} is for copies; give --virtual RUN too, or leave it out")
        return lambda table: table, settings
    if options["tuned"]:
        raise SettingsError("--virtual takes the kernel of its run; leave --tune out")
    import numpy as np

    from sparsegp.data.virtual import same_settings, shift, virtual_rows
    from sparsegp.model import Model

    model = Model.load(options["virtual"])
    how = {"pixels": named.get("shift", 1), "image": shared.image_size(named.get("image"))}
    shift(np.zeros((1, model.n_features)), **how)  # raises if they do not fit, before data are read
    enlarge = partial(virtual_rows, model, transform="shift", **how)
    return enlarge, same_settings(model, **settings)


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
            f"{shared.in_words(limits)} limits a search for the kernel, and with these settings "
            "there is none; give --tune or no --kernel, or leave it out"
        )
    return None


def outcome(model: "Model", table: "Table", folder: "Folder") -> dict[str, Any]:
    """Return the record of a model: data, description and files."""
    from sparsegp.cli.tables import facts
    from sparsegp.store import MODEL_FILE

    last = model.history[-1]
    apart = model.settings.get("posterior") == "all"  # the selection does not have its errors
    return {
        "source": table.source,
        "rows": int(table.X.shape[0]),
        **facts(model),
        **{k: None if apart else last[k] for k in ("train_error", "train_mse") if k in last},
        "likelihood": model.likelihood.to_json(),
        "run": str(folder),
        "model": f"{folder}/{MODEL_FILE}",
        "model_bytes": folder.sizes().get(MODEL_FILE, 0),
    }


def figures_of(
    evaluation: "Evaluation | RegressionEvaluation | None", is_regression: bool
) -> dict[str, Any]:
    """Return the metrics on test rows; each is None if there are no such rows."""
    if evaluation is not None:
        return evaluation.to_json()
    classes = ("error", "nlpp", "brier", "ece", "ece_by_chance")
    names = ("mse", "r2", "nlpp") if is_regression else classes
    return dict.fromkeys(("n", *names))


def headline(record: dict[str, Any], evaluation: "Evaluation | RegressionEvaluation | None") -> str:
    """Return the line to read first: how good the model is on rows that it has not learnt from."""
    from sparsegp.cli.tables import figures

    if evaluation is None:
        nlpp = record["validation_nlpp"]
        if nlpp is None:
            run = shlex.quote(record["run"])
            return f"not tested; sparsegp evaluate {run} FILE measures it on other rows"
        rows = _that_validated(record)
        return f"nlpp {nlpp:.4f} nats {rows} (optimistic)"
    rows = plural(record["n"], "test row")
    if "r2" in record:
        return f"r2 {figures(evaluation)['r2']} on {rows}"
    return f"error {percent(record['error'])} on {rows}, nlpp {figures(evaluation)['nlpp']}"


def summary(
    record: dict[str, Any], evaluation: "Evaluation | RegressionEvaluation | None"
) -> dict[str, str | None]:
    """Return the record in words, by display name."""
    from sparsegp.cli.tables import figures
    from sparsegp.cli.tune import extent
    from sparsegp.kernels import brief

    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    if used := [column for column in record["inputs"] if not column["left_out"]]:
        columns = f"{plural(len(used), 'column')} encoded as {record['columns']}"
    labels = f"{len(record['classes'])} classes" if record["classes"] else "a regression"
    labels += "" if record["label"] is None else f" of column {record['label']}"
    choice, nlpp, settings = record["tuning"], record["validation_nlpp"], record["settings"]
    chosen, learnt = "", record if "method" in settings else {}  # otherwise of the selection
    if choice and choice["trials"]:
        chosen = f"by {extent(choice['trials'], choice['ended'])}"
        if choice["nlpp"]:
            chosen += f"; nlpp at the choice {choice['nlpp']:.4f} nats, on held-out training rows"
    of_held_out = {} if evaluation is None else figures(evaluation)
    stored = record["model_bytes"]  # another process may overwrite the run
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
        **{f"  {name}": text for name, text in of_held_out.items()},
        "time": seconds_of(record["seconds"]),
        "model": record["model"] + (f" ({size(stored)})" if stored else ", deleted meanwhile"),
        "next": f"sparsegp predict {shlex.quote(record['run'])} DATA --out predictions.csv",
    }


def _that_validated(record: dict[str, Any]) -> str:
    """Return on which rows `validation_nlpp` was measured, in words."""
    kind = "weighted " if record["settings"].get("class_weight") else ""
    if count := record["validation_rows"]:
        return f"on {plural(count, f'{kind}validation row')}"
    return f"in {kind}cross-validation, which chose the prior variance"
