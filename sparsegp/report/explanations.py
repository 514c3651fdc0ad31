"""Plots of rows with the active rows that explain them; they need matplotlib."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.data.virtual import image_shape
from sparsegp.model import Model
from sparsegp.model.explain import Explanation
from sparsegp.report.pictures import draw_all, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def explanation_pictures(
    model: Model,
    explanations: Mapping[int, Explanation],
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
    own, active = unmixed.apply(np.asarray(X)), model.rows_unmixed.reshape(-1, *shape)
    draw = {
        f"row-{number}": partial(_row, own=row.reshape(shape), active=active, explanation=each)
        for (number, each), row in zip(explanations.items(), own, strict=True)
    }
    return draw_all(draw, folder)


def _row(figure: "Figure", own: Any, active: Any, explanation: Explanation) -> None:
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
