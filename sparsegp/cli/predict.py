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
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@shared.label_column
def predict(
    run: str, data: str, out: str, latent: bool, force: bool, label_column: str | None
) -> None:
    """Write labels and class probabilities of the rows of DATA by the model in RUN.

    Where DATA has a test part, that part is taken; labels are not needed. A .csv has the columns
    row, label, p_<class>...; .npz and .zarr have the arrays labels, probabilities and classes.
    """
    from sparsegp.cli.predictions import check_target, writing
    from sparsegp.cli.scoring import batches, open_for
    from sparsegp.model import load

    path = Path(out)
    check_target(path, force)
    model = load(run)
    table = open_for(model, data, label_column)
    rows = int(table.X.shape[0])
    with writing(path, model.classes, rows, latent) as writer:
        for first, X in batches(table):
            writer.write(first, predictions(model, X, latent))
    click.echo(f"{plural(rows, 'row')} of {table.source} predicted: {path}")


def predictions(model: "Model", X: Any, latent: bool) -> dict[str, Any]:
    """Return the arrays that are written for some rows, in the order of their columns."""
    import numpy as np

    logs = model.predict_log_proba(X)
    found = {
        "labels": model.classes[logs.argmax(axis=1)],
        "probabilities": np.exp(logs),
    }
    if latent:
        found["latent_mean"], found["latent_variance"] = model.latent_mean_and_variance(X)
    return found
