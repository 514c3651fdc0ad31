"""`sparsegp predict`."""

from collections.abc import Iterator
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
@click.option("--out", required=True, metavar="FILE", help="A .csv, .npz or .zarr to be written.")
@click.option(
    "--latent", is_flag=True, help="Add latent means and variances, as they are before calibration."
)
@shared.number("--reject-below", "Mark rows whose greatest probability is below X.", float)
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
    """Write labels and probabilities of the rows of DATA.

    Predictions are those of the model in RUN. Where DATA has a test part, that part is taken;
    labels are not needed. A .csv has the columns row, label, p_<class>...; .npz and .zarr have the
    arrays labels, probabilities and classes. In a regression the label is the mean, and its
    variance, noise included, replaces probabilities. With --reject-below there is `rejected` too: 1
    or 0 in a .csv, true or false in arrays. Arrays hold labels as they are. A .csv has escapes for
    control characters, and an apostrophe before texts that a spreadsheet would take for a formula:
    those that begin with = + - or @.
    """
    if reject_below is not None and not 0.0 < reject_below <= 1.0:
        raise SettingsError(f"--reject-below must be above 0 and at most 1, got {reject_below:g}")
    from sparsegp.cli.predictions import check_target, write
    from sparsegp.cli.tables import table_for
    from sparsegp.model import load

    path = Path(out)
    check_target(path, force)
    model = load(run)
    if reject_below is not None and model.is_regression:
        raise SettingsError("--reject-below is for classifiers; leave it out")
    table = table_for(model, data, label_column, labels=False)
    rejected: list[int] = []
    write(path, model.classes, predictions(model, table, latent, reject_below, rejected))
    note = f", {sum(rejected)} of them rejected (probability below {reject_below})"
    done = f"{plural(int(table.X.shape[0]), 'row')} of {table.source} predicted"
    show([f"{done}{note if rejected else ''}: {path}"])


def predictions(
    model: "Model",
    table: "Table",
    latent: bool,
    reject_below: float | None,
    rejected: list[int],
) -> Iterator[dict[str, Any]]:
    """Yield what is written for one batch of rows after another, and count those rejected."""
    import numpy as np

    from sparsegp.cli.tables import batches

    for X in batches(table):
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
            rejected.append(int(found["rejected"].sum()))
        yield found
