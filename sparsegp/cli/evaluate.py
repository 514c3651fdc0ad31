"""`sparsegp evaluate`."""

from typing import TYPE_CHECKING

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import listed, print_json, print_pairs

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
    from sparsegp.cli.scoring import figures, open_for, score
    from sparsegp.errors import SettingsError
    from sparsegp.model import load
    from sparsegp.report import History, evaluation_pictures
    from sparsegp.report.regression import RegressionEvaluation

    model = load(run)
    table = open_for(model, data, label_column)
    evaluation, unseen = score(model, table)
    if unseen:
        click.echo(
            f"warning: {table.source} has labels that the model does not know: {listed(unseen)}; "
            f"they count as errors",
            err=True,
        )
    pictures = []
    if plots is not None:
        if isinstance(evaluation, RegressionEvaluation):
            raise SettingsError("--plots draws pictures of classifiers; leave it out")
        history = History.from_records(model.history)
        pictures = [str(path) for path in evaluation_pictures(evaluation, history, plots)]
    if as_json:
        record = {"run": run, "source": table.source, **evaluation.to_json(), "unseen": unseen}
        print_json({**record, "pictures": pictures})
        return
    print_pairs([("data", table.source), *figures(evaluation)])
    if not isinstance(evaluation, RegressionEvaluation):
        click.echo(confusions(evaluation))
    for picture in pictures:
        click.echo(f"picture: {picture}")


def confusions(evaluation: "Evaluation") -> str:
    """Return the table of confusions, or the most frequent ones where it would be too large."""
    names = [str(label) for label in evaluation.classes.tolist()]
    counts = evaluation.confusion.tolist()
    if len(names) > WIDEST:
        wrong = [
            (count, names[i], names[j])
            for i, row in enumerate(counts)
            for j, count in enumerate(row)
            if i != j and count
        ]
        wrong.sort(key=lambda item: -item[0])
        lines = [f"  {true} taken for {taken}: {count}" for count, true, taken in wrong[:MOST]]
        return "\n".join(["most frequent confusions", *lines])
    width = max(len(text) for row in [names, *counts] for text in map(str, row))
    left = max(map(len, names))
    lines = [
        f"  {name:>{left}} " + " ".join(f"{value:>{width}}" for value in row)
        for name, row in zip(["", *names], [names, *counts], strict=True)
    ]
    return "\n".join(["confusion (true class down, predicted across)", *lines])
