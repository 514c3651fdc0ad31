"""Plots of an evaluation, and of explanations; they need matplotlib, the extra ``plot``."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.data.virtual import image_shape
from sparsegp.errors import SettingsError, short, visible
from sparsegp.report.metrics import Evaluation, TwoClasses, rejecting, reliability
from sparsegp.store import store_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sparsegp.model import Model
    from sparsegp.model.explain import Explanation

Draw = Callable[["Figure"], None]
"""Draws a plot into a figure."""
MIN_KEPT = 20
"""The error of fewer rows is not plotted: one row would change it by more than 5 %."""
MAX_BARS = 20
"""Maximum number of columns whose relevances are plotted."""
LONGEST_NAME, LONGEST_TITLE = 40, 70
"""Maximum number of characters of a name on an axis, and of a title."""
READABLE = 40
"""Maximum number of classes of a confusion matrix whose cells show numbers."""


def evaluation_pictures(
    evaluation: Evaluation | None,
    folder: str | os.PathLike[str],
    relevances: Mapping[str, float] | None = None,
    two: TwoClasses | None = None,
    title: str = "",
) -> list[Path]:
    """Plot an evaluation, and relevances of columns if given, as .png and .svg files.

    Parameters
    ----------
    evaluation : Evaluation or None
        None for a regression, which has no plots of its own.
    folder : path
        Created if it does not exist.
    relevances : mapping, optional
        Relevances by column name, the largest first; may be empty.
    two : TwoClasses, optional
        Metrics of a positive class; there are no curves if all rows have the same class.
    title : str
        Title of every plot: data and model.

    Returns
    -------
    list of Path
        The .png files.

    Raises
    ------
    SettingsError
        If matplotlib is not installed.
    StoreError
        If a file cannot be written.
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
    return _draw_all(draw, folder, title)


def explanation_pictures(
    model: "Model",
    explanations: Mapping[int, "Explanation"],
    X: Any,
    image: tuple[int, int] | None,
    folder: str | os.PathLike[str],
) -> list[Path]:
    """Plot explanations of images X (n, p), by row number, as row-<number>.png and .svg.

    `image` is their height and width, by default square.

    Raises
    ------
    SettingsError
        If rows are not such images, or matplotlib is not installed.
    StoreError
        If a file cannot be written.
    """
    shape, unmixed = image_shape(model.n_features, image), replace(model.scaling, mixing=None)
    own = unmixed.apply(np.asarray(X)).reshape(-1, *shape)
    active = model.rows_unmixed.reshape(-1, *shape)
    draw = {
        f"row-{number}": partial(_explanation, own=row, active=active, explanation=each)
        for (number, each), row in zip(explanations.items(), own, strict=True)
    }
    return _draw_all(draw, folder)


def _draw_all(
    draw: Mapping[str, Draw], folder: str | os.PathLike[str], title: str = ""
) -> list[Path]:
    """Draw plots, given by name, as .png and .svg files; see `evaluation_pictures`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError(
            "pictures need matplotlib; install it by `pip install matplotlib`"
        ) from None
    for name, function in draw.items():
        figure, path = Figure(dpi=150, layout="constrained"), Path(folder, f"{name}.png")
        function(figure)
        if title:
            figure.suptitle(plain(title, LONGEST_TITLE), fontsize="medium")
        with store_errors("write", path, remedy="choose another folder"):
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path)
            figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    return [Path(folder, f"{name}.png") for name in draw]


def _relevances(figure: "Figure", shares: Mapping[str, float]) -> None:
    """Plot a bar for each of the most relevant columns, the largest at the top."""
    names = [plain(name) for name in shares][:MAX_BARS]
    axes, values = figure.subplots(), [100 * share for share in shares.values()][:MAX_BARS]
    axes.barh(range(len(names)), values, tick_label=names)
    axes.invert_yaxis()
    some = f"the {len(names)} greatest of {len(shares)}" if len(names) < len(shares) else "all"
    axes.set(xlabel="relevance, %")
    axes.set_title(f"relevances of the columns ({some})", fontsize="medium")


def plain(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name that matplotlib does not take for a formula, shortened to fit an axis."""
    return short(visible(name), longest).replace("$", r"\$")


def _reliability(figure: "Figure", evaluation: Evaluation) -> None:
    """Plot accuracy against confidence, in 15 bins, above the number of rows in each bin.

    Confidence is the greatest probability of a row; a calibrated model has all points near the
    diagonal. Bars are 95 % intervals for the accuracy (Wilson), wide where rows are few.
    """
    from scipy.stats import binomtest

    counts, confidence, accuracy = reliability(evaluation.confidence, evaluation.right)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    full = np.flatnonzero(counts)
    n, right = counts[full].astype(int), np.rint(counts[full] * accuracy[full]).astype(int)
    ends = [binomtest(*pair).proportion_ci(method="wilson") for pair in zip(right, n, strict=True)]
    bars = 100 * np.abs(np.array(ends).T - accuracy[full])
    above.plot((0, 100), (0, 100), "k:", label="calibrated")
    how: Any = {"fmt": "o", "capsize": 3, "label": "95 % interval"}
    above.errorbar(100 * confidence[full], 100 * accuracy[full], bars, **how)
    above.set(ylabel="accuracy, %", xlim=(0, 101), ylim=(-2, 102))
    above.set_title(f"ECE {evaluation.ece:.4f}, {evaluation.n} rows", fontsize="medium")
    above.legend(frameon=False)
    below.stairs(counts, np.linspace(0.0, 100.0, len(counts) + 1), fill=True, alpha=0.5)
    for place, count in zip((full + 0.5) * 100 / len(counts), n, strict=True):
        below.annotate(f"{count}", (place, count), ha="center", va="bottom", fontsize=7)
    below.set(yscale="log", xlabel="confidence (greatest probability), %", ylabel="rows")
    below.set_ylim(0.7, 4 * max(n, default=1))


def _error_reject(figure: "Figure", evaluation: Evaluation) -> None:
    """Plot the error on the rows kept against the fraction of rows rejected.

    The least certain rows are rejected first (Rasmussen & Williams 2006, figure 3.10).
    """
    rejected, error = rejecting(evaluation.confidence, (~evaluation.right).astype(np.float64))
    drawn = (1.0 - rejected) * evaluation.n > min(MIN_KEPT, evaluation.n) - 0.5
    axes = figure.subplots()
    axes.plot(100 * rejected[drawn], 100 * error[drawn], drawstyle="steps-post")
    axes.set(xlim=(0, 100), xlabel="rows rejected, the least certain first, %")
    axes.set_ylabel("error on the rows kept, %")
    axes.set_ylim(bottom=0)
    axes.set_title(f"error of all {evaluation.n} rows: {100 * error[0]:.2f} %", fontsize="medium")


def _confusion(figure: "Figure", evaluation: Evaluation) -> None:
    """Plot row counts by true and predicted class, coloured by their share of the true class."""
    names = [plain(str(label)) for label in evaluation.classes.tolist()]
    side = min(max(4.8, 0.36 * len(names) + 1.6), 14.0)
    figure.set_size_inches(side + 0.8, side)
    axes, counts = figure.subplots(), evaluation.confusion
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, label="rows of the true class, %", shrink=0.8)
    if len(names) <= READABLE:
        axes.set_xticks(range(len(names)), names, rotation=90 * (max(map(len, names)) > 3))
        axes.set_yticks(range(len(names)), names)
        for i, j in np.argwhere(counts):
            colour = "white" if shares[i, j] > 50 else "black"
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", color=colour, fontsize=8)
    about = f"{evaluation.n} rows, {np.sum(counts) - np.trace(counts)} of them wrong"
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.set_title(about, fontsize="medium")


def _roc(figure: "Figure", two: TwoClasses) -> None:
    """Plot recall against the false positive rate; a cross marks the threshold."""
    from sklearn.metrics import roc_curve

    axes, taken = figure.subplots(), two.probability >= two.threshold
    false, recall, _ = roc_curve(two.is_positive, two.probability)
    axes.plot(100 * false, 100 * recall)
    axes.plot(100 * taken[~two.is_positive].mean(), 100 * two.recall, "k+", markersize=12)
    axes.set(xlabel="other rows taken for positive, %", ylabel="recall, %")
    about = f"AUC {two.auc:.4f}; positive: {two.positive}"
    axes.set_title(plain(about, LONGEST_TITLE), fontsize="medium")


def _precision_recall(figure: "Figure", two: TwoClasses) -> None:
    """Plot precision against recall; a cross marks the threshold."""
    from sklearn.metrics import precision_recall_curve

    axes = figure.subplots()
    precision, recall, _ = precision_recall_curve(two.is_positive, two.probability)
    axes.plot(100 * recall, 100 * precision, drawstyle="steps-post")
    axes.plot(100 * two.recall, 100 * two.precision, "k+", markersize=12)
    axes.set(xlabel="recall, %", ylabel="precision, %", ylim=(0, 101))
    about = f"average precision {two.average_precision:.4f}; positive: {two.positive}"
    axes.set_title(plain(about, LONGEST_TITLE), fontsize="medium")


def _explanation(figure: "Figure", own: Any, active: Any, explanation: "Explanation") -> None:
    """Plot a row and its supporting rows; below, the effects of its pixels and opposing rows."""
    each, effects = explanation, explanation.effects.reshape(own.shape)
    width = 1 + max(len(each.supporting), len(each.opposing))
    figure.set_size_inches(1.5 * width, 3.8)
    panels = figure.subplots(2, width, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    grey = {"cmap": "gray_r", "vmin": float(active.min()), "vmax": float(active.max())}
    largest = float(np.abs(effects).max()) or 1.0
    panels[0, 0].imshow(own, **grey)
    panels[0, 0].set_title(plain(f"{each.predicted}: {each.probability:.3f}"))
    panels[1, 0].imshow(effects, cmap="RdBu", vmin=-largest, vmax=largest)
    panels[1, 0].set_title(plain(f"not {each.rival}: {each.rival_probability:.3f}"))
    for line, terms in zip(panels, (each.supporting, each.opposing), strict=True):
        for axes, term in zip(line[1:], terms, strict=False):
            axes.imshow(active[term.place], **grey)
            axes.set_title(plain(f"{term.label}: {term.contribution:+.2f}"))
