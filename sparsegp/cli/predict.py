"""`sparsegp predict`."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import plural, show
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.data import Table
    from sparsegp.model import Model


@click.command()
@click.argument("run")
@click.argument("data")
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    help="A .csv, .npz or .zarr to be written; - is standard output, as .csv.",
)
@click.option("--latent", is_flag=True, help="Add latent means and variances, before calibration.")
@shared.number("--reject-below", "Mark rows whose highest probability is below X.", float)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@shared.label_column
def predict(
    run: str,
    data: str,
    out: str,
    latent: bool,
    reject_below: float | None,
    force: bool,
    label_column: str | None,
) -> None:
    """Predict the rows of DATA by the model in RUN.

    Labels and probabilities are written. Where DATA has a test part, that part is taken; labels
    are not needed. A .csv has the columns row, label, p_<class>...; .npz and .zarr have the
    arrays labels, probabilities and classes. In a regression the label is the mean, and its
    variance, noise included, replaces probabilities. With --reject-below there is `rejected` too: 1
    or 0 in a .csv, true or false in arrays. Arrays hold labels as they are. A .csv has escapes for
    control characters, and an apostrophe before texts that a spreadsheet would take for a formula:
    those that begin with = + - or @. DATA may be -, for text as in a .csv on standard input, which
    is predicted some thousand lines at a time.
    """
    if reject_below is not None and not 0.0 < reject_below <= 1.0:
        raise SettingsError(f"--reject-below must be above 0 and at most 1, got {reject_below:g}")
    from sparsegp.cli.predictions import check_target, write, write_lines
    from sparsegp.cli.tables import STANDARD_INPUT, table_for, tables_from
    from sparsegp.model import load

    path = None if out == "-" else Path(out)
    if path is not None:
        check_target(path, force)
    model = load(run)
    if reject_below is not None and model.is_regression:
        raise SettingsError("--reject-below is for classifiers; leave it out")
    if data == "-":
        source, tables = STANDARD_INPUT, tables_from(sys.stdin, model, label_column)
    else:
        table = table_for(model, data, label_column, labels=False)
        source, tables = table.source, iter([table])
    count = Counter[str]()
    batches = predictions(model, tables, latent, reject_below, count)
    if path is None:
        write_lines(sys.stdout, model.classes, batches)
    else:
        write(path, model.classes, batches)
    rejected = f", {count['rejected']} of them rejected (probability below {reject_below})"
    done = f"{plural(count['rows'], 'row')} of {source} predicted"
    show([f"{done}{'' if reject_below is None else rejected}: {out}"], err=path is None)


def predictions(
    model: "Model",
    tables: Iterable["Table"],
    latent: bool,
    reject_below: float | None,
    count: Counter[str],
) -> Iterator[dict[str, Any]]:
    """Yield what is written for one batch of rows after another, and count them."""
    import numpy as np

    from sparsegp.cli.tables import batches

    for X in chain.from_iterable(map(batches, tables)):
        count["rows"] += len(X)
        if model.is_regression:
            mean, variance = model.predictive_mean_and_variance(X)
            found = {"labels": mean, "variance": variance[:, np.newaxis]}
        else:
            logs = model.predict_log_proba(X)
            found = {"labels": model.classes[logs.argmax(axis=1)], "probabilities": np.exp(logs)}
        if latent:
            found["latent_mean"], found["latent_variance"] = model.latent_mean_and_variance(X)
        if reject_below is not None:
            found["rejected"] = found["probabilities"].max(axis=1) < reject_below
            count["rejected"] += int(found["rejected"].sum())
        yield found
