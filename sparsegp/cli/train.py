"""`sparsegp train`."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.driver import drive, driver_options, is_elsewhere
from sparsegp.cli.output import percent, plural, print_json, print_pairs, size
from sparsegp.cli.virtual import prepare, virtual_options

if TYPE_CHECKING:
    from sparsegp.checkpoint import Place
    from sparsegp.cli.stages import Stages
    from sparsegp.data import Table
    from sparsegp.model import Model
    from sparsegp.report import Evaluation
    from sparsegp.report.regression import RegressionEvaluation


@click.command()
@click.argument("data")
@click.option("--test", metavar="DATA", help="Held-out rows; the test part of DATA if left out.")
@click.option(
    "--out", metavar="DIR", help="Directory or URL of the run.  [sparsegp-run-<name of DATA>]"
)
@shared.task_option
@shared.settings_options
@shared.dense_options
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
@shared.tuning_options
@virtual_options
@shared.where_options
@driver_options
@shared.label_column
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
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
    from sparsegp.checkpoint import place_of
    from sparsegp.cli.signals import stoppable
    from sparsegp.cli.stages import Stages
    from sparsegp.execution import open_runtime
    from sparsegp.settings import settings_given
    from sparsegp.tuning import tunable
    from sparsegp.tuning import tune as choose

    named = shared.given(options, shared.TASK, shared.SETTINGS, shared.DENSE)
    limits = shared.given(options, shared.TUNING)
    refuse_limits(limits, tuned)
    check = tunable if tuned else settings_given
    if is_elsewhere(options):
        if options["virtual"] is None:  # else a run there tells what is not given
            check(**named)
        drive(click.get_current_context())
        return
    enlarge, settings = prepare(options, named, tuned)
    check(**settings)  # refuses before anything is read
    directory = place_of(out or f"sparsegp-run-{stem(data)}")
    with stoppable(), Stages(quiet, directory) as stages, ExitStack() as stack:
        stages.begin("read")
        table, held_out = open_tables(data, test, label_column)
        table = enlarge(table)
        stages.begin("prepare")
        where, outcome = shared.given(options, shared.WHERE), None
        if tuned:
            where = {"runtime": stack.enter_context(open_runtime(**where))}
            limits |= {"out": directory, "resume": resume, "progress": stages}
            outcome = choose(table, **limits, **where, **settings)
            settings["kernel"] = outcome.kernel
            stages.begin("prepare")
        model = run(
            table,
            held_out,
            directory,
            stages,
            resume=resume,
            **settings,
            **where,
            **shared.given(options, RUN_OPTIONS),
        )
        stages.begin("evaluate")
        evaluation = None if held_out is None else evaluate(model, held_out)
        record = describe(model, table, held_out, evaluation, directory)
        record["tuning"] = outcome and {**outcome.to_json(), "trials": len(outcome.trials)}
        record["seconds"] = stages.taken()
        pairs = summary(record, evaluation)
        stages.done(record, pairs)
    if as_json:
        print_json(record)
    else:
        print_pairs(pairs)


RUN_OPTIONS = dict.fromkeys(("block_rows", "scratch", "checkpoint_every", "keep_last"))


def refuse_limits(limits: dict[str, Any], tuned: bool) -> None:
    """Refuse limits of a tuning where there is none.

    Raises
    ------
    SettingsError
        If there are such.
    """
    from sparsegp.errors import SettingsError

    if limits and not tuned:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in limits)
        raise SettingsError(f"{names} limits a tuning; give --tune too, or leave it out")


def chosen(tuning: dict[str, Any]) -> str:
    """Return in words how the kernel was chosen."""
    from sparsegp.cli.tune import extent

    nlpp = "" if tuning["nlpp"] is None else f", nlpp {tuning['nlpp']:.4f} nats on rows held out"
    return f"by {extent(tuning['trials'], tuning['ended'])}{nlpp}"


def stem(data: str) -> str:
    """Return a name for the run on some data, from the name of its first file."""
    name = Path(data.split(",", maxsplit=1)[0].rstrip("/")).name.lower()
    return Path(name.removesuffix(".gz")).stem or "data"


def open_tables(
    data: str, test: str | None, label_column: str | None
) -> tuple["Table", "Table | None"]:
    """Return the training table and, where there is one, the held-out table."""
    from sparsegp.cli.scoring import test_part
    from sparsegp.data import open_dataset

    dataset = open_dataset(data, label_column=label_column)
    if test is None:
        return dataset.train, dataset.test
    return dataset.train, test_part(open_dataset(test, label_column=label_column))


def run(
    table: "Table", held_out: "Table | None", directory: "Place", stages: "Stages", **options: Any
) -> "Model":
    """Train, and write the learning curve beside the model."""
    import sparsegp
    from sparsegp.report import History

    model = sparsegp.train(table, test=held_out, out=directory, progress=stages, **options)
    History.from_records(model.history).to_csv(directory / "history.csv")
    return model


def evaluate(model: "Model", held_out: "Table") -> "Evaluation | RegressionEvaluation":
    """Compare the final model with the held-out labels; unknown ones were reported already."""
    from sparsegp.cli.scoring import score

    return score(model, held_out)[0]


def describe(
    model: "Model",
    table: "Table",
    held_out: "Table | None",
    evaluation: "Evaluation | RegressionEvaluation | None",
    directory: "Place",
) -> dict[str, Any]:
    """Return the record of a finished run."""
    from sparsegp.checkpoint import folder_bytes

    last = model.history[-1]
    names = (
        ("n", "mse", "r2", "nlpp")
        if model.is_regression
        else ("n", "error", "nlpp", "brier", "ece")
    )
    figures: dict[str, Any] = dict.fromkeys(names)
    if evaluation is not None:
        figures = evaluation.to_json()
    return {
        "source": table.source,
        "rows": int(table.X.shape[0]),
        "columns": model.n_features,
        "classes": model.classes.tolist(),
        "n_active": len(model.rows),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "settings": dict(model.settings),
        **{name: last[name] for name in ("train_error", "train_mse") if name in last},
        "likelihood": model.likelihood.to_json(),
        "held_out": None if held_out is None else held_out.source,
        **figures,
        "run": str(directory),
        "model": str(directory / "model"),
        "history": str(directory / "history.csv"),
        "model_bytes": folder_bytes(directory / "model"),
    }


def summary(
    record: dict[str, Any], evaluation: "Evaluation | RegressionEvaluation | None"
) -> list[tuple[str, str]]:
    """Return the record in words."""
    from sparsegp.cli.scoring import figures

    kernels = list(dict.fromkeys(record["kernels"]))
    rows, columns = plural(record["rows"], "row"), plural(record["columns"], "column")
    tuning, regression = record["tuning"], "mse" in record
    stage = "fit" if "method" in record["settings"] else "selection"
    labels = "a regression" if regression else f"{len(record['classes'])} classes"
    fits = [
        (f"training {word}", f"{text(record[name])} at the end of the {stage}")
        for name, word, text in (
            ("train_mse", "mse", "{:.5g}".format),
            ("train_error", "error", percent),
        )
        if name in record  # not where candidates left on the way
    ]
    pairs = [
        ("trained on", f"{record['source']}: {rows}, {columns}, {labels}"),
        ("kernel", f"{'; '.join(kernels)} of inputs scaled by rule {record['scaling']!r}"),
        *([("  chosen", chosen(tuning))] if tuning else []),
        ("active rows", str(record["n_active"])),
        *fits,
    ]
    if evaluation is not None:
        pairs.append(("held out", record["held_out"]))
        pairs += [(f"  {name}", value) for name, value in figures(evaluation)]
    times = ", ".join(f"{name} {value:.1f} s" for name, value in record["seconds"].items())
    return [
        *pairs,
        ("time", times),
        ("model", f"{record['model']} ({size(record['model_bytes'])})"),
        ("next", f"sparsegp predict {record['run']} DATA --out predictions.csv"),
    ]
