"""Pictures. They need matplotlib, the extra ``plot``."""

import os
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sparsegp.errors import SettingsError, StoreError
from sparsegp.report.history import History
from sparsegp.report.metrics import Evaluation, error_reject, reliability
from sparsegp.types import Doubles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Numbers of active rows (m,) and values (m,); values that are not finite are left out."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers tell apart."""

DASHES = ("--", ":", "-.")

LOG_RANGE = 8.0
"""The y axis is logarithmic when the greatest value is more than this many times the least."""

FEW = 25
"""Curves of no more points than this have them marked."""

LEAST_KEPT = 20
"""The error of fewer rows than this is not drawn: one row would move it by more than 5 %."""

CONTOURS = 12
"""Levels of a picture of contours, between which there are equally many points."""

READABLE = 40
"""Classes up to which a confusion matrix has its numbers written into it."""


def learning_curve(
    curves: Mapping[str, Curve],
    ylabel: str,
    path: str | os.PathLike[str],
    reference: Mapping[str, float] | None = None,
) -> None:
    """Draw values against the number of active rows.

    Parameters
    ----------
    curves : mapping
        A `Curve` by the name that the legend shows.
    ylabel : str
        What the values are.
    path : path
        Picture to write; its suffix tells the format (.png, .svg, .pdf).
    reference : mapping, optional
        Values by name that are drawn as horizontal lines.

    Raises
    ------
    SettingsError
        If matplotlib is not installed, does not know the format, or there is nothing to draw.
    StoreError
        If the picture cannot be written.
    """
    points = {name: _points(name, curve) for name, curve in curves.items()}
    if not any(len(x) for x, _ in points.values()):
        raise SettingsError("a learning curve needs at least one finite value; got none")
    levels = dict(reference or {})
    figure = _canvas(path)
    axes = figure.subplots()
    for (name, (x, y)), colour in zip(points.items(), cycle(COLOURS), strict=False):
        marker = "o" if len(x) <= FEW else ""
        axes.plot(x, y, label=_plain(name), color=colour, marker=marker, markersize=3.5)
    for (name, level), dashes in zip(levels.items(), cycle(DASHES), strict=False):
        axes.axhline(level, label=_plain(name), color="0.35", linestyle=dashes, linewidth=1.2)
    _scale(axes, np.concatenate([*(y for _, y in points.values()), list(levels.values())]))
    axes.set_xlabel("active rows")
    axes.set_ylabel(ylabel)
    _tidy(axes)
    axes.legend(frameon=False)
    _save(figure, path)


def contours(
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    surfaces: Mapping[str, Doubles],
    path: str | os.PathLike[str],
) -> None:
    """Draw functions of two variables beside each other, with a cross at the highest point of each.

    Parameters
    ----------
    x, y : (str, sequence of float)
        Name and values of the variables, (a,) and (b,).
    surfaces : mapping
        Values of a function, (b, a), by its name.
    path : path
        Picture to write; its suffix tells the format (.png, .svg, .pdf).

    Raises
    ------
    SettingsError
        If matplotlib is not installed or does not know the format.
    StoreError
        If the picture cannot be written.
    """
    figure = _canvas(path, (4.2 * len(surfaces), 3.8))
    for axes, (name, values) in zip(
        figure.subplots(1, len(surfaces), squeeze=False)[0], surfaces.items(), strict=True
    ):
        levels = np.unique(np.quantile(values, np.linspace(0.0, 1.0, CONTOURS)))
        if len(levels) > 1:
            drawn = axes.contour(x[1], y[1], values, levels=levels, cmap="viridis", linewidths=1.0)
            axes.clabel(drawn, fmt="%.3g", fontsize=7)
        row, column = divmod(int(values.argmax()), values.shape[1])
        axes.plot(x[1][column], y[1][row], "x", color="black")
        axes.set_title(_plain(name))
        axes.set_xlabel(_plain(x[0]))
        axes.set_ylabel(_plain(y[0]))
        _tidy(axes)
    _save(figure, path)


def reliability_diagram(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Draw the share of right answers against confidence, in 15 bins, above the rows in each bin.

    Confidence is the greatest probability of a row; a calibrated model has all points on the
    diagonal. Where a bin holds few rows its share says little, hence the counts.

    Raises
    ------
    SettingsError
        If matplotlib is not installed or does not know the format.
    StoreError
        If the picture cannot be written.
    """
    figure = _canvas(path, (6.4, 5.6))
    from matplotlib.ticker import NullLocator  # noqa: PLC0415 - after the canvas: it may be missing

    bins = reliability(evaluation.confidence, evaluation.right)
    n_bins, full = len(bins.counts), bins.counts > 0
    width = 1.0 / n_bins
    centres = (np.arange(n_bins) + 0.5) * width
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color="0.35", linestyle="--", linewidth=1.2, label="calibrated")
    above.bar(centres, bins.accuracy, 0.92 * width, color=COLOURS[5], alpha=0.5, label="bin")
    x, y = bins.confidence[full], bins.accuracy[full]
    above.plot(x, y, "o", color=COLOURS[0], label="its mean confidence", zorder=3, clip_on=False)
    above.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share of right answers")
    above.set_title(f"ECE {evaluation.ece:.4f}, {evaluation.n} rows", fontsize="medium")
    line, points, bars = above.get_legend_handles_labels()[0]
    figure.legend(handles=[bars, points, line], frameon=False, loc="outside upper center", ncols=3)
    below.bar(centres[full], bins.counts[full], 0.92 * width, color=COLOURS[0])
    for centre, count in zip(centres[full], bins.counts[full].tolist(), strict=True):
        below.text(centre, count, f"{count}", ha="center", va="bottom", fontsize=6.5)
    below.set_yscale("log")
    below.yaxis.set_major_locator(NullLocator())  # the counts are written on the bars
    below.yaxis.set_minor_locator(NullLocator())
    below.set_ylim(0.5, 6.0 * bins.counts.max())
    below.set(xlabel="confidence (greatest probability)", ylabel="rows (log scale)")
    _tidy(above, below)
    _save(figure, path)


def error_reject_curve(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Draw the error on the rows that are kept against the share that is rejected.

    The least certain rows are rejected first (Rasmussen & Williams 2006, figure 3.10).

    Raises
    ------
    SettingsError
        If matplotlib is not installed or does not know the format.
    StoreError
        If the picture cannot be written.
    """
    rejected, error = error_reject(evaluation.confidence, evaluation.right)
    kept = (1.0 - rejected) * evaluation.n
    drawn = kept > min(LEAST_KEPT, evaluation.n) - 0.5
    figure = _canvas(path)
    axes = figure.subplots()
    axes.plot(rejected[drawn], 100 * error[drawn], color=COLOURS[0], drawstyle="steps-post")
    axes.set(xlim=(0, 1), xlabel="share of rows rejected, the least certain first")
    axes.set_ylabel("error on the rows kept, %")
    axes.set_ylim(bottom=0)
    axes.set_title(f"error of all {evaluation.n} rows: {100 * error[0]:.2f} %", fontsize="medium")
    _tidy(axes)
    _save(figure, path)


def reject_curves(curves: Mapping[str, Mapping[str, Curve]], path: str | os.PathLike[str]) -> None:
    """Draw means over the rows kept against the share rejected, as `error_reject_curve` does.

    Parameters
    ----------
    curves : mapping
        By what is averaged, in a picture each, and by the name in the legend: shares rejected (m,)
        and means (m,).
    path : path
        Picture to write; its suffix tells the format (.png, .svg, .pdf).

    Raises
    ------
    SettingsError
        If matplotlib is not installed or does not know the format.
    StoreError
        If the picture cannot be written.
    """
    figure = _canvas(path, (5.2 * len(curves), 4.2))
    every = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (what, drawn) in zip(every, curves.items(), strict=True):
        for (name, (x, y)), colour in zip(drawn.items(), cycle(COLOURS), strict=False):
            axes.plot(x, y, color=colour, drawstyle="steps-post", label=_plain(name))
        axes.set(xlabel="share of rows rejected, the least certain first", ylabel=what)
        _tidy(axes)
    handles, names = every[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside upper center", ncols=7)
    _save(figure, path)


def confusion_matrix(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Draw the numbers of rows by true and predicted class; colours are shares of the true class.

    Raises
    ------
    SettingsError
        If matplotlib is not installed or does not know the format.
    StoreError
        If the picture cannot be written.
    """
    counts = evaluation.confusion
    names = [_plain(str(label)) for label in evaluation.classes.tolist()]
    side = min(max(4.8, 0.36 * len(names) + 1.6), 14.0)
    figure = _canvas(path, (side + 0.8, side))
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", norm=_errors_visible())
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="share of the true class")
    bar.set_ticks([0, 0.01, 0.1, 0.5, 1], labels=["0", "0.01", "0.1", "0.5", "1"])
    every = np.arange(len(names))
    if len(names) <= READABLE:
        _label_axes(axes, names)
        for i, j in zip(*np.nonzero(counts), strict=True):
            colour = "white" if shares[i, j] > 0.3 else "black"
            axes.text(j, i, f"{counts[i, j]}", ha="center", va="center", fontsize=7, color=colour)
    else:
        axes.set_xticks(every[:: len(names) // 10], names[:: len(names) // 10])
        axes.set_yticks(every[:: len(names) // 10], names[:: len(names) // 10])
    axes.set(xlabel="predicted class", ylabel="true class")
    _save(figure, path)


def evaluation_pictures(
    evaluation: Evaluation, history: History, folder: str | os.PathLike[str]
) -> list[Path]:
    """Draw all that an evaluation and a learning curve show, as .png files.

    Parameters
    ----------
    evaluation : Evaluation
    history : History
        With n_active, train_error and heldout_error; may be empty.
    folder : path
        Made if it is not there.

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
    folder = Path(folder)
    _canvas(folder / "reliability.png")  # raises before a folder is made
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    draw = {
        "reliability": reliability_diagram,
        "error-reject": error_reject_curve,
        "confusion": confusion_matrix,
    }
    paths = [folder / f"{name}.png" for name in draw]
    for function, path in zip(draw.values(), paths, strict=True):
        function(evaluation, path)
    names = {
        "train_error": "training rows, while selecting",
        "heldout_error": "held-out rows, while selecting",
    }
    curves = {
        shown: curve
        for name, shown in names.items()
        if name in history.columns and len((curve := history.curve(name))[0]) > 0
    }
    if curves:
        paths.append(folder / "learning-curve.png")
        finished = {"finished model, rows evaluated": evaluation.error}
        learning_curve(curves, "error", paths[-1], finished)
    return paths


def _points(name: str, curve: Curve) -> tuple[Doubles, Doubles]:
    x, y = (np.asarray(values, dtype=np.float64) for values in curve)
    if x.ndim != 1 or x.shape != y.shape:
        raise SettingsError(
            f"a curve must have as many values as numbers of active rows; {name!r} has "
            f"{y.shape} values for {x.shape}"
        )
    finite = np.isfinite(x) & np.isfinite(y)
    return x[finite], y[finite]


def _canvas(path: str | os.PathLike[str], size: tuple[float, float] = (6.4, 4.2)) -> "Figure":
    """Return a figure of a size in inches, without the global state of pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise SettingsError(
            'pictures need matplotlib; install it by pip install "sparsegp[plot]"'
        ) from None
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    suffix = Path(path).suffix.removeprefix(".").lower()
    known = canvas.get_supported_filetypes()
    if suffix not in known:
        raise SettingsError(
            f"the suffix of a picture must be one of {', '.join(sorted(known))}; got "
            f"{os.fspath(path)!r}"
        )
    return figure


def _tidy(*all_axes: "Axes") -> None:
    """Give axes a faint grid behind what is drawn, and no box."""
    for axes in all_axes:
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)


def _label_axes(axes: "Axes", names: Sequence[str]) -> None:
    """Name all classes, upright below where the names are long."""
    every = np.arange(len(names))
    long = max(map(len, names)) > 3
    axes.set_xticks(every, names, rotation=90 if long else 0)
    axes.set_yticks(every, names)


def _errors_visible() -> Any:
    """Return a norm for shares that keeps apart 0, 0.01 and 0.1."""
    from matplotlib.colors import PowerNorm  # noqa: PLC0415

    return PowerNorm(0.4, 0.0, 1.0)


def _scale(axes: "Axes", values: Doubles) -> None:
    """Choose a logarithmic axis for positive values of a wide range, else a linear one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    if values.min() > 0 and values.max() > LOG_RANGE * values.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif values.min() >= 0:
        axes.set_ylim(bottom=0)


def _plain(text: str) -> str:
    """Escape what matplotlib takes for formulas."""
    return text.replace("$", r"\$")


def _save(figure: "Figure", path: str | os.PathLike[str]) -> None:
    try:
        figure.savefig(path)
    except OSError as error:
        raise StoreError(f"cannot write the picture {path}: {error.strerror or error}") from error
