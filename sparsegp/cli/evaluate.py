"""`sparsegp evaluate`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from sparsegp.cli import options as shared
from sparsegp.cli.output import json_line, on_terminal, pairs, show
from sparsegp.errors import SettingsError

if TYPE_CHECKING:
    from sparsegp.model import Model

OF_TWO = ("positive", "threshold")
"""Options for two classes."""


@click.command()
@click.argument("run")
@click.argument("data")
@shared.sets
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
    errors. nlpp is the mean negative log predictive probability, in nats; ece is the expected
    calibration error, in 15 bins of equal width.
    """
    from sparsegp.cli import facts
    from sparsegp.cli.tables import table_for
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
        wanted = shared.given(options, OF_TWO)
        two = evaluate_two_classes(logs, codes, model.classes, rows.weights, **wanted)
    if (coverage := options["set"]) is not None:
        sets = facts.sizes_and_coverage(model, logs, codes, coverage, rows.weights)
    lines = pairs({"data": rows.source, **facts.figures(evaluation, two, sets)})
    judged = evaluation if isinstance(evaluation, Evaluation) else None
    if judged is not None:
        lines += facts.by_class(judged)
    if (folder := options["plots"]) is not None:
        source, name = (text.rstrip("/").rsplit("/", 1)[-1] for text in (rows.source, run))
        about = f"{source}; model: {name}, {len(model.rows)} active rows"
        shares = facts.relevances(model)
        pictures += map(str, evaluation_pictures(judged, folder, shares, two, about))
    record = {"run": run, "source": rows.source, **evaluation.to_json(), "unseen": unseen}
    record |= {"pictures": pictures, "two_classes": two and two.to_json(), "sets": sets or None}
    lines += [f"picture: {picture}" for picture in pictures]
    show([json_line(record)] if as_json else lines)


def require_fitting(model: "Model", options: dict[str, Any]) -> None:
    """Raise a SettingsError if options do not suit the model or each other."""
    two, sets = shared.given(options, OF_TWO), shared.given(options, ("set",))
    if (two and len(model.classes) != 2) or (sets and model.is_regression):
        name, few = shared.flags(two or sets), " of two classes" if two else ""
        raise SettingsError(f"{name} is for classifiers{few}; leave it out")
    if options["plots"] is not None and model.is_regression and model.relevances is None:
        raise SettingsError(
            "--plots draws classifiers, and relevances of kernels such as ard, which this "
            "regression does not have; leave it out"
        )
