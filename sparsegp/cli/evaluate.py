"""`sparsegp evaluate`."""

from typing import TYPE_CHECKING

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, listed, pairs, show, table
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
@shared.text(
    "--plots",
    "DIR",
    "Draw reliability, errors against rejections, confusions and the relevances of the columns "
    '(.png; needs the extra "plot").',
)
@shared.label_column
@shared.as_json
def evaluate(
    run: str, data: str, plots: str | None, label_column: str | None, as_json: bool
) -> None:
    """Measure how well the model in RUN predicts DATA.

    Where DATA has a test part, that part is taken. Labels that were never seen in training count as
    errors. nlpp is the mean negative log predictive probability in nats, ece the expected
    calibration error in 15 equal bins.
    """
    from sparsegp.cli.tables import figures, relevances, score, table_for
    from sparsegp.model import load
    from sparsegp.report import Evaluation, evaluation_pictures

    model = load(run)
    rows = table_for(model, data, label_column)
    evaluation, unseen = score(model, rows)
    if unseen:
        warning = f"warning: {rows.source} has labels that the model does not know"
        show([f"{warning}: {listed(unseen)}; they count as errors"], err=True)
    lines = pairs({"data": rows.source, **figures(evaluation)})
    judged, ranked = evaluation if isinstance(evaluation, Evaluation) else None, relevances(model)
    if judged is not None:
        lines += confusions(judged)
    pictures = []
    if plots is not None:
        if judged is None and not ranked:
            raise SettingsError(
                "--plots draws classifiers, and relevances of kernels such as ard, which this "
                "regression has not; leave it out"
            )
        drawn = evaluation_pictures(judged, plots, ranked)
        pictures = [str(path) for path in drawn]
    record = {"run": run, "source": rows.source, **evaluation.to_json(), "unseen": unseen}
    record["pictures"] = pictures
    shown = [*lines, *(f"picture: {picture}" for picture in pictures)]
    show([json_line(record)] if as_json else shown)


def confusions(evaluation: "Evaluation") -> list[str]:
    """Return the table of confusions, or the most frequent ones where it would be too large."""
    import numpy as np

    names, counts = [str(label) for label in evaluation.classes.tolist()], evaluation.confusion
    if len(names) <= WIDEST:
        rows = [[name, *row] for name, row in zip(names, counts.tolist(), strict=True)]
        return ["confusion (true class down, predicted across)", *table(["", *names], rows)]
    wrong = counts * (1 - np.eye(len(names), dtype=int))
    most = np.argsort(-wrong, axis=None, kind="stable")[:MOST]
    cells = [divmod(int(cell), len(names)) for cell in most]
    rows = [[names[i], names[j], int(wrong[i, j])] for i, j in cells if wrong[i, j]]
    return ["most frequent confusions", *table(["true class", "predicted", "rows"], rows)]
