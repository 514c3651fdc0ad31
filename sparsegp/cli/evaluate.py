"""`sparsegp evaluate`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, on_terminal, pairs, percent, show, table
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.model import Model
    from sparsegp.report import Evaluation, TwoClasses

WIDEST = 15
"""Maximum number of classes for which the whole confusion matrix is printed."""

MAX_CONFUSIONS = 10
"""Number of confusions that are printed otherwise."""


@click.command()
@click.argument("run")
@click.argument("data")
@shared.label_set
@shared.text("--positive", "LABEL", "Positive class, of two.  [the last]")
@shared.number("--threshold", "Smallest probability at which it is predicted.  [0.5]", float)
@shared.text(
    "--plots",
    "DIR",
    "Draw reliability diagram, error-reject curve, confusion matrix, column relevances and, for "
    "two classes, ROC and precision-recall curves (.png and .svg; needs matplotlib).",
)
@shared.weighted_columns
@shared.quiet
@shared.as_json
def evaluate(run: str, data: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Measure how well the model in RUN predicts DATA.

    If DATA has a test part, that part is used. Labels that did not occur in training count as
    errors. nlpp is the mean negative log predictive probability in nats, ece the expected
    calibration error in 15 equal bins.
    """
    from sparsegp.cli.tables import figures, relevances, table_for
    from sparsegp.model import load
    from sparsegp.report import Evaluation, evaluate_two_classes, evaluation_pictures
    from sparsegp.report.scores import score

    model = load(run)
    require_fitting(model, options)
    rows = table_for(model, data, **shared.given(options, shared.COLUMNS))
    if rows.weights is not None and options["plots"] is not None:
        show(["warning: --plots counts each row once, so weights are not used"], err=True)
        rows = replace(rows, weights=None)
    with on_terminal(wanted=not quiet) as progress:
        evaluation, unseen, logs, codes = score(model, rows, progress)
    two, sets, pictures = None, {}, list[str]()
    if len(model.classes) == 2:
        usual: dict[str, Any] = {"positive": str(model.classes.tolist()[-1]), "threshold": 0.5}
        wanted = usual | shared.given(options, usual)
        two = evaluate_two_classes(logs, codes, model.classes, **wanted, weights=rows.weights)
    if (coverage := options["coverage"]) is not None:
        sets = sizes_and_coverage(model, logs, codes, coverage, rows.weights)
    lines = pairs({"data": rows.source, **figures(evaluation), **in_words(two, sets)})
    judged = evaluation if isinstance(evaluation, Evaluation) else None
    if judged is not None:
        lines += confusions(judged) + by_class(judged)
    if (folder := options["plots"]) is not None:
        source, name = (text.rstrip("/").rsplit("/", 1)[-1] for text in (rows.source, run))
        about = f"{source}; model: {name}, {len(model.rows)} active rows"
        pictures += map(str, evaluation_pictures(judged, folder, relevances(model), two, about))
    record = {"run": run, "source": rows.source, **evaluation.to_json(), "unseen": unseen}
    record |= {"pictures": pictures, "two_classes": two and two.to_json(), "sets": sets or None}
    lines += [f"picture: {picture}" for picture in pictures]
    show([json_line(record)] if as_json else lines)


def require_fitting(model: "Model", options: dict[str, Any]) -> None:
    """Raise a SettingsError if options do not suit the model or each other."""
    two, plots = shared.given(options, ("positive", "threshold")), options["plots"] is not None
    sets = options["coverage"] is not None
    if (two and len(model.classes) != 2) or (sets and model.is_regression):
        name, few = shared.in_words(two or ["set"]), " of two classes" if two else ""
        raise SettingsError(f"{name} is for classifiers{few}; leave it out")
    if plots and model.is_regression and model.relevances is None:
        raise SettingsError(
            "--plots draws classifiers, and relevances of kernels such as ard, which this "
            "regression does not have; leave it out"
        )


def sizes_and_coverage(
    model: "Model", logs: Any, codes: Any, coverage: float, weights: Any
) -> dict[str, float]:
    """Return how often prediction sets contain the true class, and how large they are."""
    import numpy as np

    from sparsegp.posterior.limits import prediction_sets

    sets = prediction_sets(np.exp(logs), model.scores, coverage)
    held, sizes = (codes >= 0) & sets[np.arange(len(codes)), codes], sets.sum(axis=1)
    means = [float(np.average(each, weights=weights)) for each in (held, sizes, sizes == 1)]
    return {"asked": coverage, **dict(zip(("coverage", "mean_size", "alone"), means, strict=True))}


def in_words(two: "TwoClasses | None", sets: dict[str, float]) -> dict[str, str]:
    """Return the metrics of a positive class and of prediction sets in words."""
    words = {}
    if two is not None:
        average = f"average precision {two.average_precision:.4f}"
        words["auc"] = f"{two.auc:.4f}, {average} (positive class: {two.positive})"
        words[f"{two.positive} from {two.threshold:g}"] = (
            f"precision {two.precision:.4f}, recall {two.recall:.4f}, F1 {two.f1:.4f}"
        )
    if sets:
        words["prediction sets"] = (
            f"{percent(sets['coverage'])} contain the true class ({sets['asked']:g} requested); "
            f"{sets['mean_size']:.3f} classes on average, a single one in {percent(sets['alone'])}"
        )
    return words


def by_class(evaluation: "Evaluation") -> list[str]:
    """Return a table of precision and recall; of many classes only those with the worst recall."""
    import numpy as np

    names, counts = evaluation.classes.tolist(), evaluation.confusion.sum(axis=1).tolist()
    order = range(len(names))
    if len(names) > WIDEST:
        order = np.argsort(evaluation.recall, kind="stable")[:MAX_CONFUSIONS].tolist()
    cells = [
        (str(names[k]), counts[k], f"{evaluation.precision[k]:.4f}", f"{evaluation.recall[k]:.4f}")
        for k in order
    ]
    counted = "rows" if evaluation.weight is None else "weight"
    return table(("class", counted, "precision", "recall"), cells)


def confusions(evaluation: "Evaluation") -> list[str]:
    """Return the confusion matrix, or the most frequent confusions if it would be too large."""
    import numpy as np

    names, counts = [str(label) for label in evaluation.classes.tolist()], evaluation.confusion
    if len(names) <= WIDEST:
        rows = [[name, *row] for name, row in zip(names, counts.tolist(), strict=True)]
        return ["confusion (true class down, predicted across)", *table(["", *names], rows)]
    wrong = counts * (1 - np.eye(len(names), dtype=int))
    most = np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS]
    cells = [divmod(int(cell), len(names)) for cell in most]
    rows = [[names[i], names[j], wrong[i, j].item()] for i, j in cells if wrong[i, j]]
    counted = "rows" if evaluation.weight is None else "weight"
    return ["most frequent confusions", *table(["true class", "predicted", counted], rows)]
