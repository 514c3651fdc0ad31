"""`sparsegp evaluate`."""

from typing import TYPE_CHECKING

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, listed, pairs, show
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.report import Evaluation

WIDEST = 15
"""Classes up to which the whole table of confusions is printed."""

MOST = 10
"""Confusions that are printed otherwise."""


@click.command()
@click.argument("run")
@click.argument("data")
@click.option(
    "--plots",
    metavar="DIR",
    help="Draw reliability, errors against rejections, confusions and the learning curve (.png; "
    'needs the extra "plot").',
)
@shared.label_column
@shared.as_json
def evaluate(
    run: str, data: str, plots: str | None, label_column: str | None, as_json: bool
) -> None:
    """Compare the predictions of the model in RUN with the labels of DATA.

    Where DATA has a test part, that part is taken. Labels that were never seen in training count as
    errors. nlpp is the mean negative log predictive probability in nats; ece has 15 equal bins.
    """
    from sparsegp.cli.tables import figures, score, table_for
    from sparsegp.model import load
    from sparsegp.report import evaluation_pictures
    from sparsegp.report.regression import RegressionEvaluation

    model = load(run)
    table = table_for(model, data, label_column)
    evaluation, unseen = score(model, table)
    if unseen:
        warning = (
            f"warning: {table.source} has labels that the model does not know: {listed(unseen)}; "
            "they count as errors"
        )
        show([warning], err=True)
    pictures = []
    if plots is not None:
        if isinstance(evaluation, RegressionEvaluation):
            raise SettingsError("--plots draws pictures of classifiers; leave it out")
        pictures = [str(path) for path in evaluation_pictures(evaluation, model.history, plots)]
    if as_json:
        record = {"run": run, "source": table.source, **evaluation.to_json(), "unseen": unseen}
        show([json_line({**record, "pictures": pictures})])
        return
    lines = pairs([("data", table.source), *figures(evaluation)])
    if not isinstance(evaluation, RegressionEvaluation):
        lines += confusions(evaluation)
    show([*lines, *(f"picture: {picture}" for picture in pictures)])


def confusions(evaluation: "Evaluation") -> list[str]:
    """Return the table of confusions, or the most frequent ones where it would be too large."""
    import numpy as np

    names, counts = [str(label) for label in evaluation.classes.tolist()], evaluation.confusion
    if len(names) > WIDEST:
        wrong = counts * (1 - np.eye(len(names), dtype=int))
        most = np.argsort(-wrong, axis=None, kind="stable")[:MOST]
        cells = [divmod(int(cell), len(names)) for cell in most]
        lines = [
            f"  {names[i]} taken for {names[j]}: {wrong[i, j]}" for i, j in cells if wrong[i, j]
        ]
        return ["most frequent confusions", *lines]
    width = max(len(text) for text in map(str, [*names, *counts.ravel().tolist()]))
    left = max(map(len, names))
    rows = zip(["", *names], [names, *counts.tolist()], strict=True)
    lines = [
        f"  {name:>{left}} " + " ".join(f"{value:>{width}}" for value in row) for name, row in rows
    ]
    return ["confusion (true class down, predicted across)", *lines]
