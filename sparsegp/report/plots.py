"""Pictures. They need matplotlib, the extra ``plot``."""

import os
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sparsegp.errors import SettingsError, StoreError
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
    figure, axes = _canvas(path)
    for (name, (x, y)), colour in zip(points.items(), cycle(COLOURS), strict=False):
        marker = "o" if len(x) <= FEW else ""
        axes.plot(x, y, label=_plain(name), color=colour, marker=marker, markersize=3.5)
    for (name, level), dashes in zip(levels.items(), cycle(DASHES), strict=False):
        axes.axhline(level, label=_plain(name), color="0.35", linestyle=dashes, linewidth=1.2)
    _scale(axes, np.concatenate([*(y for _, y in points.values()), list(levels.values())]))
    axes.set_xlabel("active rows")
    axes.set_ylabel(ylabel)
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    _save(figure, path)


def _points(name: str, curve: Curve) -> tuple[Doubles, Doubles]:
    x, y = (np.asarray(values, dtype=np.float64) for values in curve)
    if x.ndim != 1 or x.shape != y.shape:
        raise SettingsError(
            f"a curve must have as many values as numbers of active rows; {name!r} has "
            f"{y.shape} values for {x.shape}"
        )
    finite = np.isfinite(x) & np.isfinite(y)
    return x[finite], y[finite]


def _canvas(path: str | os.PathLike[str]) -> tuple["Figure", "Axes"]:
    """Return a figure and its axes, without the global state of pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise SettingsError(
            'pictures need matplotlib; install it by pip install "sparsegp[plot]"'
        ) from None
    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    suffix = Path(path).suffix.removeprefix(".").lower()
    known = canvas.get_supported_filetypes()
    if suffix not in known:
        raise SettingsError(
            f"the suffix of a picture must be one of {', '.join(sorted(known))}; got "
            f"{os.fspath(path)!r}"
        )
    return figure, figure.subplots()


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
