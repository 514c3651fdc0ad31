"""`sparsegp predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import plural

if TYPE_CHECKING:
    from sparsegp.model import Model


@click.command()
@click.argument("run")
@click.argument("data")
@click.option("--out", required=True, metavar="FILE", help="A .csv, .npz or .zarr to be written.")
@click.option("--latent", is_flag=True, help="Add latent means and variances.")
@click.option(
    "--reject-below",
    type=float,
    metavar="P",
    help="Mark rows whose greatest probability is below P.",
)
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
    """Write labels and class probabilities of the rows of DATA by the model in RUN.

    Where DATA has a test part, that part is taken; labels are not needed. A .csv has the columns
    row, label, p_<class>...; .npz and .zarr have the arrays labels, probabilities and classes. In a
    regression the label is the mean, and its variance, noise included, replaces probabilities.
    With --reject-below there is `rejected` too: 1 or 0 in a .csv, true or false in arrays.
    """
    from sparsegp.cli.predictions import Layout, check_target, writing
    from sparsegp.cli.scoring import batches, open_for
    from sparsegp.errors import SettingsError
    from sparsegp.model import load

    path, rejects = Path(out), reject_below is not None
    check_probability(reject_below)
    check_target(path, force)
    model = load(run)
    table = open_for(model, data, label_column)
    rows, rejected = int(table.X.shape[0]), 0
    if rejects and model.is_regression:
        raise SettingsError("--reject-below is for classifiers; leave it out")
    layout = Layout.of(model, latent, rejects)
    with writing(path, layout, rows) as writer:
        for first, X in batches(table):
            found = predictions(model, X, latent)
            if rejects:
                found["rejected"] = found["probabilities"].max(axis=1) < reject_below
                rejected += int(found["rejected"].sum())
            writer.write(first, found)
    said = f", {rejected} of them rejected (probability below {reject_below})" if rejects else ""
    click.echo(f"{plural(rows, 'row')} of {table.source} predicted{said}: {path}")


def check_probability(value: float | None) -> None:
    """Check a least probability.

    Raises
    ------
    SettingsError
        If it is out of range.
    """
    from sparsegp.errors import SettingsError

    if value is not None and not 0.0 < value <= 1.0:
        raise SettingsError(f"--reject-below must be above 0 and at most 1, got {value:g}")


def predictions(model: "Model", X: Any, latent: bool) -> dict[str, Any]:
    """Return the arrays that are written for some rows, in the order of their columns."""
    import numpy as np

    if model.is_regression:
        mean, variance = model.predictive_mean_and_variance(X)
        found = {"labels": mean, "variance": variance[:, np.newaxis]}
    else:
        logs = model.predict_log_proba(X)
        found = {"labels": model.classes[logs.argmax(axis=1)], "probabilities": np.exp(logs)}
    if latent:
        found["latent_mean"], found["latent_variance"] = model.latent_mean_and_variance(X)
    return found
