"""`sparsegp predict`."""

import sys
import time
from collections import Counter
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import on_terminal, show
from sparsegp.errors import SettingsError
from sparsegp.lists import plural
from sparsegp.progress import watched


@click.command()
@click.argument("run")
@click.argument("data")
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    help="Output file, .csv, .tsv, .parquet, .npz or .zarr; - writes .csv to standard output.",
)
@click.option("--latent", is_flag=True, help="Add latent means and variances, before calibration.")
@shared.number("--reject-below", "Mark rows whose highest probability is below X.", float)
@click.option(
    "--novelty",
    is_flag=True,
    help="Add the novelty of each row, from 0 to 1: its rank among validation rows.",
)
@shared.number("--reject-novel", "Mark rows whose novelty is X or more.", float)
@shared.sets
@click.option("--overwrite", "--force", is_flag=True, help="Replace FILE if it exists.")
@shared.columns
@shared.quiet
def predict(run: str, data: str, out: str, overwrite: bool, quiet: bool, **wanted: Any) -> None:
    """Predict the rows of DATA with the model in RUN.

    Labels and probabilities are written. If DATA has a test part, that part is used; labels are not
    needed. Text (.csv or .tsv, also with .gz) and .parquet have the columns row, label,
    p_<class>...; .npz and .zarr have the arrays labels, probabilities and classes. All have
    --id-column under its name, or id_<name> if predictions use that name. For regression, the label
    is the mean, and its variance, noise included, replaces probabilities. --reject-below and
    --reject-novel add `rejected`, --set adds `set`, with one column per class, and --novelty adds
    `novelty`. In text, true and false are 1 and 0, except for labels; control characters are
    escaped, and an apostrophe precedes what a spreadsheet would interpret as a formula, starting
    with = + - or @. If DATA is -, .csv text is read from standard input and predicted a few
    thousand lines at a time.
    """
    columns = shared.given(wanted, shared.COLUMNS)
    rejecting = {"reject_below": "probability below {}", "reject_novel": "novelty {} or more"}
    limits = shared.given(wanted, rejecting)
    for name, share in limits.items():
        if not 0.0 < share <= 1.0:
            option = shared.flags([name])
            raise SettingsError(f"{option} must be above 0 and at most 1, got {share:g}")
    from sparsegp.cli.predictions import check_target, predicted, write, write_lines
    from sparsegp.cli.tables import STANDARD_INPUT, table_for, tables_from
    from sparsegp.model import load

    path = None if out == "-" else Path(out)
    if path is not None:
        check_target(path, overwrite, data)
    model = load(run)
    if model.is_regression and (named := shared.given(wanted, ("reject_below", "set"))):
        raise SettingsError(f"{shared.flags(named)} is for classifiers; leave it out")
    for stream, is_used in (("stdin", data == "-"), ("stdout", path is None)):
        if is_used and getattr(sys, stream) is None:
            raise SettingsError(f"- stands for {stream}, which is closed; give a file")
    if data == "-":
        tables, source, n = tables_from(sys.stdin.buffer, model, **columns), STANDARD_INPUT, 0
    else:
        table = table_for(model, data, labels=False, **columns)
        tables, source, n = iter([table]), table.source, len(table.X)
    count, began = Counter[str](), time.perf_counter()
    with on_terminal(wanted=path is not None and not quiet) as progress:
        read = chain.from_iterable(table.batches() for table in tables)
        batches = predicted(model, watched(read, progress, n, "predict"), wanted, count)
        if path is None:
            if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
                sys.stdout.reconfigure(encoding="utf-8")  # as files have
            write_lines(sys.stdout, model.classes, batches)
        else:
            write(path, model.classes, batches)
    reasons = " or ".join(rejecting[name].format(share) for name, share in limits.items())
    rejected = f", {count['rejected']} of them rejected ({reasons})" if reasons else ""
    rate = float(f"{count['rows'] / (time.perf_counter() - began):.2g}")
    done = f"{plural(count['rows'], 'row')} of {source} predicted, {rate:.0f} per second"
    show([f"{done}{rejected}: {out}"], err=path is None)
