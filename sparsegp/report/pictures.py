"""Pictures of an evaluation. They need matplotlib, the extra ``plot``."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsegp.errors import SettingsError, StoreError, visible
from sparsegp.report.metrics import Evaluation, rejecting, reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Records = Sequence[Mapping[str, float]]
"""A learning curve; a record need not have all figures."""

LEAST_KEPT = 20
"""The error of fewer rows than this is not drawn: one row would move it by more than 5 %."""

MOST_BARS = 20
"""Columns whose relevances are drawn, the largest."""

LONGEST_NAME = 40
"""Letters of a name on an axis."""

READABLE = 40
"""Classes up to which a confusion matrix has its numbers written into it."""

LOG_RANGE = 8.0
"""An error axis is logarithmic where the greatest value is more than this many times the least."""


def evaluation_pictures(
    evaluation: Evaluation | None,
    folder: str | os.PathLike[str],
    history: Records = (),
    relevances: Mapping[str, float] | None = None,
) -> list[Path]:
    """Draw an evaluation, and what is given of the model, as .png files.

    Parameters
    ----------
    evaluation : Evaluation or None
        None in a regression, which has no pictures of its own.
    folder : path
        Made if it is not there.
    history : sequence of mapping
        Records of n_active, train_error and heldout_error; may be empty.
    relevances : mapping, optional
        Of the columns by name, the largest first; may be empty.

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
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError(
            'pictures need matplotlib; install it by pip install "sparsegp[plot]"'
        ) from None
    draw: dict[str, Callable[[Figure], None]] = {}
    if evaluation is not None:
        draw["reliability"] = partial(_reliability, evaluation=evaluation)
        draw["error-reject"] = partial(_error_reject, evaluation=evaluation)
        draw["confusion"] = partial(_confusion, evaluation=evaluation)
        if curves := _curves(history):
            draw["learning-curve"] = partial(_learning_curve, evaluation=evaluation, curves=curves)
    if relevances:
        draw["relevances"] = partial(_relevances, shares=relevances)
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


def _curves(history: Records) -> dict[str, list[tuple[float, float]]]:
    """Return numbers of active rows with errors, by the rows whose errors they are."""
    points = {
        f"{rows} rows, while selecting": [
            (record["n_active"], record[name]) for record in history if name in record
        ]
        for name, rows in (("train_error", "training"), ("heldout_error", "held-out"))
    }
    return {label: found for label, found in points.items() if found}


def _learning_curve(
    figure: "Figure", evaluation: Evaluation, curves: dict[str, list[tuple[float, float]]]
) -> None:
    """Draw errors against the number of active rows, and the error of the finished model."""
    axes, error = figure.subplots(), evaluation.error
    for label, points in curves.items():
        axes.plot(*zip(*points, strict=True), "o-", label=label, markersize=3.5)
    axes.axhline(error, label="finished model, rows evaluated", color="0.35", linestyle="--")
    errors = [error, *(value for points in curves.values() for _, value in points)]
    if 0 < LOG_RANGE * min(errors) < max(errors):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set(xlabel="active rows", ylabel="error")
    axes.legend()


def _relevances(figure: "Figure", shares: Mapping[str, float]) -> None:
    """Draw a bar for each of the most relevant columns, the largest at the top."""
    names = [_plain(name) for name in shares][:MOST_BARS]
    axes, values = figure.subplots(), [100 * share for share in shares.values()][:MOST_BARS]
    axes.barh(range(len(names)), values, tick_label=names)
    axes.invert_yaxis()
    some = f"the {len(names)} greatest of {len(shares)}" if len(names) < len(shares) else "all"
    axes.set(xlabel="relevance, %", title=f"relevances of the columns ({some})")


def _plain(name: str) -> str:
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

    names = [_plain(str(label)) for label in evaluation.classes.tolist()]
    side = min(max(4.8, 0.36 * len(names) + 1.6), 14.0)
    figure.set_size_inches(side + 0.8, side)
    small = len(names) <= READABLE
    display = ConfusionMatrixDisplay(evaluation.confusion, display_labels=names if small else None)
    rotation = "vertical" if max(map(len, names)) > 3 else "horizontal"
    display.plot(ax=figure.subplots(), cmap="Blues", include_values=small, xticks_rotation=rotation)
