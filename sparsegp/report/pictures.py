"""Pictures of an evaluation. They need matplotlib, the extra ``plot``."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsegp.errors import SettingsError, StoreError, visible
from sparsegp.report.metrics import Evaluation, rejecting, reliability
from sparsegp.report.two_classes import TwoClasses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[["Figure"], None]
"""What draws a picture."""

LEAST_KEPT = 20
"""The error of fewer rows than this is not drawn: one row would move it by more than 5 %."""

MOST_BARS = 20
"""Columns whose relevances are drawn, the largest."""

LONGEST_NAME = 40
"""Letters of a name on an axis."""

READABLE = 40
"""Classes up to which a confusion matrix has its numbers written into it."""


def evaluation_pictures(
    evaluation: Evaluation | None,
    folder: str | os.PathLike[str],
    relevances: Mapping[str, float] | None = None,
    two: TwoClasses | None = None,
) -> list[Path]:
    """Draw an evaluation, and what is given of the model, as .png files.

    Parameters
    ----------
    evaluation : Evaluation or None
        None in a regression, which has no pictures of its own.
    folder : path
        Made if it is not there.
    relevances : mapping, optional
        Of the columns by name, the largest first; may be empty.
    two : TwoClasses, optional
        Figures of a positive class; there are no curves where all rows are of one.

    Returns
    -------
    list of Path

    Raises
    ------
    SettingsError
        If matplotlib is not installed.
    StoreError
        If a picture cannot be written.
    """
    draw: dict[str, Draw] = {}
    if evaluation is not None:
        draw["reliability"] = partial(_reliability, evaluation=evaluation)
        draw["error-reject"] = partial(_error_reject, evaluation=evaluation)
        draw["confusion"] = partial(_confusion, evaluation=evaluation)
    if relevances:
        draw["relevances"] = partial(_relevances, shares=relevances)
    if two is not None and np.isfinite(two.auc):
        draw["roc"] = partial(_roc, two=two)
        draw["precision-recall"] = partial(_precision_recall, two=two)
    return draw_all(draw, folder)


def draw_all(draw: Mapping[str, Draw], folder: str | os.PathLike[str]) -> list[Path]:
    """Draw pictures by their names; see `evaluation_pictures` for what it raises."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError(
            'pictures need matplotlib; install it by pip install "sparsegp[plot]"'
        ) from None
    for name, function in draw.items():
        figure, path = Figure(dpi=150, layout="constrained"), Path(folder, f"{name}.png")
        function(figure)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path)
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"cannot write the picture {path}: {reason}") from error
    return [Path(folder, f"{name}.png") for name in draw]


def _relevances(figure: "Figure", shares: Mapping[str, float]) -> None:
    """Draw a bar for each of the most relevant columns, the largest at the top."""
    names = [plain(name) for name in shares][:MOST_BARS]
    axes, values = figure.subplots(), [100 * share for share in shares.values()][:MOST_BARS]
    axes.barh(range(len(names)), values, tick_label=names)
    axes.invert_yaxis()
    some = f"the {len(names)} greatest of {len(shares)}" if len(names) < len(shares) else "all"
    axes.set(xlabel="relevance, %", title=f"relevances of the columns ({some})")


def plain(name: str) -> str:
    """Return a name that is no formula to matplotlib, and not too long for an axis."""
    text = visible(name).replace("$", r"\$")
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _reliability(figure: "Figure", evaluation: Evaluation) -> None:
    """Draw the share of right answers against confidence, in 15 bins, above the rows in each bin.

    Confidence is the greatest probability of a row; a calibrated model has all points on the
    diagonal. Where a bin holds few rows its share says little, hence the counts.
    """
    from sklearn.calibration import CalibrationDisplay

    counts, confidence, accuracy = reliability(evaluation.confidence, evaluation.right)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    full = counts > 0
    CalibrationDisplay(accuracy[full], confidence[full], evaluation.confidence).plot(ax=above)
    above.set(xlabel="", ylabel="share of right answers")
    above.set_title(f"ECE {evaluation.ece:.4f}, {evaluation.n} rows")
    below.stairs(counts, np.linspace(0.0, 1.0, len(counts) + 1), fill=True)
    below.set(yscale="log", xlabel="confidence (greatest probability)", ylabel="rows")


def _error_reject(figure: "Figure", evaluation: Evaluation) -> None:
    """Draw the error on the rows that are kept against the share that is rejected.

    The least certain rows are rejected first (Rasmussen & Williams 2006, figure 3.10).
    """
    rejected, error = rejecting(evaluation.confidence, (~evaluation.right).astype(np.float64))
    drawn = (1.0 - rejected) * evaluation.n > min(LEAST_KEPT, evaluation.n) - 0.5
    axes = figure.subplots()
    axes.plot(rejected[drawn], 100 * error[drawn], drawstyle="steps-post")
    axes.set(xlim=(0, 1), xlabel="share of rows rejected, the least certain first")
    axes.set_ylabel("error on the rows kept, %")
    axes.set_ylim(bottom=0)
    axes.set_title(f"error of all {evaluation.n} rows: {100 * error[0]:.2f} %")


def _confusion(figure: "Figure", evaluation: Evaluation) -> None:
    """Draw the numbers of rows by true and predicted class."""
    from sklearn.metrics import ConfusionMatrixDisplay

    names = [plain(str(label)) for label in evaluation.classes.tolist()]
    side = min(max(4.8, 0.36 * len(names) + 1.6), 14.0)
    figure.set_size_inches(side + 0.8, side)
    small = len(names) <= READABLE
    display = ConfusionMatrixDisplay(evaluation.confusion, display_labels=names if small else None)
    rotation = "vertical" if max(map(len, names)) > 3 else "horizontal"
    display.plot(ax=figure.subplots(), cmap="Blues", include_values=small, xticks_rotation=rotation)


def _roc(figure: "Figure", two: TwoClasses) -> None:
    """Draw recall against the share of other rows taken for positive; a cross is the threshold."""
    from sklearn.metrics import RocCurveDisplay

    axes, taken = figure.subplots(), two.probability >= two.threshold
    RocCurveDisplay.from_predictions(two.is_positive, two.probability, ax=axes)
    axes.plot(taken[~two.is_positive].mean(), two.recall, "k+", markersize=12)
    axes.set(xlabel="share of other rows taken for positive", ylabel="recall")
    axes.set_title(plain(f"positive: {two.positive}"))


def _precision_recall(figure: "Figure", two: TwoClasses) -> None:
    """Draw precision against recall; a cross is the threshold."""
    from sklearn.metrics import PrecisionRecallDisplay

    axes = figure.subplots()
    PrecisionRecallDisplay.from_predictions(two.is_positive, two.probability, ax=axes)
    axes.plot(two.recall, two.precision, "k+", markersize=12)
    axes.set(xlabel="recall", ylabel="precision", title=plain(f"positive: {two.positive}"))
