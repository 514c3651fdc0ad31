"""`sparsegp train`."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli import virtual
from sparsegp.cli.output import (
    json_line,
    listed,
    pairs,
    percent,
    plural,
    seconds_of,
    show,
    size,
)
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.data import Table
    from sparsegp.model import Model
    from sparsegp.report import Evaluation
    from sparsegp.report.regression import RegressionEvaluation

RUN = ("block_rows", "scratch", "checkpoint_every", "keep_last")


@click.command()
@click.argument("data")
@shared.test
@click.option(
    "--out", metavar="DIR", help="Directory or URL of the run.  [sparsegp-run-<name of DATA>]"
)
@shared.task
@shared.settings
@shared.dense
@click.option("--block-rows", type=int, metavar="N", help="Rows in a block; changes no result.")
@click.option(
    "--scratch",
    metavar="DIR",
    help="Keep inputs and stub matrices in files there, where memory cannot hold them.",
)
@click.option(
    "--checkpoint-every", type=int, metavar="N", help="Inclusions between two checkpoints."
)
@click.option("--keep-last", type=int, metavar="N", help="Checkpoints that are kept.")
@click.option("--resume", is_flag=True, help="Go on with the run in the directory.")
@click.option(
    "--tune", "tuned", is_flag=True, help="Choose the kernel first, as `sparsegp tune` does."
)
@shared.limits
@virtual.options
@shared.where
@shared.label_column
@shared.quiet
@shared.as_json
def train(
    data: str,
    test: str | None,
    out: str | None,
    resume: bool,
    tuned: bool,
    label_column: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a classifier on DATA: a file, or `digits` or `toy`.

    Files: .npz with X, y or X_train, y_train, X_test, y_test; "X.npy,y.npy"; text with the label
    in the last column (.csv, .data, .txt, also .gz); svmlight; IDX; zarr; parquet. The run goes to
    a directory, from which it can be resumed when it was stopped or killed.
    """
    limits = shared.given(options, shared.LIMITS)
    if limits and not tuned:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in limits)
        raise SettingsError(f"{names} limits a tuning; give --tune too, or leave it out")
    import sparsegp
    from sparsegp.cli.stages import Stages
    from sparsegp.cli.tables import score, stem, training_tables
    from sparsegp.fit.tune import tunable
    from sparsegp.report import write_history
    from sparsegp.runtime import open_runtime
    from sparsegp.settings import settings_given

    named = shared.settings_of(options)
    enlarge, settings = virtual.prepare(options, named, tuned)
    (tunable if tuned else settings_given)(**settings)  # refuses before anything is read
    place = shared.place(options)
    directory = out or f"sparsegp-run-{stem(data)}"
    with Stages(quiet) as stages, ExitStack() as stack:
        stages.begin("read")
        table, held_out = training_tables(data, test, label_column)
        table = enlarge(table)
        stages.begin("prepare")
        choice = None
        run: dict[str, Any] = {"out": directory, "resume": resume, "progress": stages}
        run["runtime"] = stack.enter_context(open_runtime(**place))
        if tuned:
            choice = sparsegp.tune(table, **limits, **run, **settings)
            settings["kernel"] = choice.kernel
            stages.begin("prepare")
        run |= shared.given(options, RUN)
        model = sparsegp.train(table, test=held_out, **run, **settings)
        write_history(model.history, f"{directory}/history.csv")
        stages.begin("evaluate")
        evaluation = None if held_out is None else score(model, held_out)[0]
        record = {
            **record_of(model, table, directory),
            "held_out": None if held_out is None else held_out.source,
            **figures_of(model, evaluation),
            "tuning": choice and {**choice.to_json(), "trials": len(choice.trials)},
            "seconds": stages.taken(),
        }
    show([json_line(record)] if as_json else pairs(summary(record, evaluation)))


def record_of(model: "Model", table: "Table", directory: str) -> dict[str, Any]:
    """Return the record of a finished run."""
    from sparsegp.store import MODEL_FILE, folder_of

    last, folder = model.history[-1], folder_of(directory)
    return {
        "source": table.source,
        "rows": int(table.X.shape[0]),
        "columns": model.n_features,
        "names": list(model.names or ()),
        "classes": model.classes.tolist(),
        "n_active": len(model.rows),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "settings": dict(model.settings),
        **{name: last[name] for name in ("train_error", "train_mse") if name in last},
        "likelihood": model.likelihood.to_json(),
        "run": str(folder),
        "model": f"{folder}/{MODEL_FILE}",
        "history": f"{folder}/history.csv",
        "model_bytes": folder.sizes()[MODEL_FILE],
    }


def figures_of(
    model: "Model", evaluation: "Evaluation | RegressionEvaluation | None"
) -> dict[str, Any]:
    """Return the figures of held-out rows; None where there are no such rows."""
    if evaluation is not None:
        return evaluation.to_json()
    names = ("mse", "r2", "nlpp") if model.is_regression else ("error", "nlpp", "brier", "ece")
    return dict.fromkeys(("n", *names))


def summary(
    record: dict[str, Any], evaluation: "Evaluation | RegressionEvaluation | None"
) -> list[tuple[str, str]]:
    """Return the record in words."""
    from sparsegp.cli.tables import figures

    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    kernels = "; ".join(dict.fromkeys(record["kernels"]))
    stage = "fit" if "method" in record["settings"] else "selection"
    labels = "a regression" if "mse" in record else f"{len(record['classes'])} classes"
    found = [
        ("trained on", f"{record['source']}: {rows}, {columns}, {labels}"),
        *([("columns", listed(record["names"]))] if record["names"] else []),
        ("kernel", f"{kernels} of inputs scaled by rule {record['scaling']!r}"),
    ]
    if record["tuning"]:
        found.append(("  chosen", chosen(record["tuning"])))
    found.append(("active rows", str(record["n_active"])))
    if "train_mse" in record:
        found.append(("training mse", f"{record['train_mse']:.5g} at the end of the {stage}"))
    if "train_error" in record:  # not where candidates left on the way
        error = percent(record["train_error"])
        found.append(("training error", f"{error} at the end of the {stage}"))
    if evaluation is not None:
        found.append(("held out", record["held_out"]))
        found += [(f"  {name}", value) for name, value in figures(evaluation)]
    return [
        *found,
        ("time", seconds_of(record["seconds"])),
        ("model", f"{record['model']} ({size(record['model_bytes'])})"),
        ("next", f"sparsegp predict {record['run']} DATA --out predictions.csv"),
    ]


def chosen(tuning: dict[str, Any]) -> str:
    """Return in words how the kernel was chosen."""
    from sparsegp.cli.tune import extent

    nlpp = "" if tuning["nlpp"] is None else f", nlpp {tuning['nlpp']:.4f} nats on rows held out"
    return f"by {extent(tuning['trials'], tuning['ended'])}{nlpp}"
