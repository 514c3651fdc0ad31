"""`sparsegp evaluate`."""

from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, listed, pairs, percent, show, table
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.cli.tables import Judged
    from sparsegp.model import Model
    from sparsegp.report import Evaluation, TwoClasses

WIDEST = 15
"""Classes up to which the whole table of confusions is printed."""

MOST = 10
"""Confusions that are printed otherwise."""


@click.command()
@click.argument("run")
@click.argument("data")
@shared.label_set
@shared.text("--positive", "LABEL", "Of two classes the one to be found.  [the last]")
@shared.number("--threshold", "Its probability from which on it is predicted.  [0.5]", float)
@shared.text(
    "--plots",
    "DIR",
    "Draw reliability, errors against rejections, confusions, the relevances of the columns and, "
    'for two classes, ROC and precision-recall (.png; needs the extra "plot").',
)
@shared.label_column
@shared.as_json
def evaluate(
    run: str,
    data: str,
    coverage: float | None,
    positive: str | None,
    threshold: float | None,
    plots: str | None,
    label_column: str | None,
    as_json: bool,
) -> None:
    """Compare predictions for DATA with its labels.

    Predictions are those of the model in RUN. Where DATA has a test part, that part is taken.
    Labels that were never seen in training count as errors. nlpp is the mean negative log
    predictive probability in nats; ece has 15 equal bins.
    """
    from sparsegp.cli.tables import figures, relevances, score, table_for
    from sparsegp.model import load
    from sparsegp.report import Evaluation, evaluate_two_classes, evaluation_pictures

    model = load(run)
    given = {"set": coverage, "positive": positive, "threshold": threshold}
    _check(given, len(model.classes))
    rows = table_for(model, data, label_column)
    found = score(model, rows)
    evaluation, unseen = found.evaluation, found.unseen
    if unseen:
        warning = f"warning: {rows.source} has labels that the model does not know"
        show([f"{warning}: {listed(unseen)}; they count as errors"], err=True)
    judged, ranked = evaluation if isinstance(evaluation, Evaluation) else None, relevances(model)
    two, sets = None, {}
    if len(model.classes) == 2:
        at = 0.5 if threshold is None else threshold
        two = evaluate_two_classes(found.logs, found.codes, model.classes, positive, at)
    if coverage is not None:
        sets = sizes_and_coverage(model, found, coverage)
    lines = pairs({"data": rows.source, **figures(evaluation), **in_words(two, sets)})
    if judged is not None:
        lines += confusions(judged) + by_class(judged)
    pictures = []
    if plots is not None:
        if judged is None and not ranked:
            raise SettingsError(
                "--plots draws classifiers, and relevances of kernels such as ard, which this "
                "regression has not; leave it out"
            )
        pictures = [str(path) for path in evaluation_pictures(judged, plots, ranked, two)]
    record = {"run": run, "source": rows.source, **evaluation.to_json(), "unseen": unseen}
    record |= {"pictures": pictures, "two_classes": two and two.to_json(), "sets": sets or None}
    shown = [*lines, *(f"picture: {picture}" for picture in pictures)]
    show([json_line(record)] if as_json else shown)


def _check(given: dict[str, Any], n_classes: int) -> None:
    """Refuse options that are for other models."""
    wrong = shared.given(given, given if n_classes == 0 else ("positive", "threshold"))
    if wrong and n_classes != 2:
        whose = "classifiers" if n_classes == 0 else "two classes"
        raise SettingsError(f"{shared.in_words(wrong)} is for {whose}; leave it out")


def sizes_and_coverage(model: "Model", found: "Judged", coverage: float) -> dict[str, Any]:
    """Return how often label sets hold the true class, and how large they are."""
    import numpy as np

    from sparsegp.posterior.limits import label_sets

    sets, codes = label_sets(np.exp(found.logs), model.scores, coverage), found.codes
    covers = (codes >= 0) & sets[np.arange(len(codes)), codes]
    sizes = sets.sum(axis=1)
    return {
        "asked": coverage,
        "coverage": float(covers.mean()),
        "mean_size": float(sizes.mean()),
        "alone": float(np.mean(sizes == 1)),
    }


def in_words(two: "TwoClasses | None", sets: dict[str, Any]) -> dict[str, str]:
    """Return the figures of a positive class and of label sets in words."""
    words = {}
    if two is not None:
        at = f"{two.positive} at {two.threshold:g}"
        words = {
            "auc": f"{two.auc:.4f}, average precision {two.average_precision:.4f}",
            at: f"precision {two.precision:.4f}, recall {two.recall:.4f}, F1 {two.f1:.4f}",
        }
    if sets:
        words["label sets"] = (
            f"{percent(sets['coverage'])} hold the true class, {sets['asked']:g} asked; "
            f"{sets['mean_size']:.3f} classes each, one in {percent(sets['alone'])}"
        )
    return words


def by_class(evaluation: "Evaluation") -> list[str]:
    """Return precision and recall of each class, of those that are most often wrong if many."""
    import numpy as np

    names, rows = evaluation.classes.tolist(), evaluation.confusion.sum(axis=1).tolist()
    shares = np.stack([evaluation.precision, evaluation.recall], axis=1)
    order = np.arange(len(names))
    if len(names) > WIDEST:
        order = np.argsort(evaluation.recall, kind="stable")[:MOST]
    cells = ((str(names[k]), rows[k], *(f"{share:.4f}" for share in shares[k])) for k in order)
    return table(("class", "rows", "precision", "recall"), cells)


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
