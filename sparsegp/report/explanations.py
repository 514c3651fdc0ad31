"""Pictures of rows beside the active rows that explain them. They need matplotlib."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.data.virtual import image_shape
from sparsegp.model import Model, SparseModel
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
    """Draw rows that are images, each with its active rows, as row-<number>.png.

    Parameters
    ----------
    model : SparseModel
    explanations : mapping
        By row number.
    X : array (n, p)
        Their inputs before scaling.
    image : (int, int), optional
        Height and width; square if left out.
    folder : path
        Made if it is not there.

    Raises
    ------
    SettingsError
        If rows do not make such images, or matplotlib is not installed.
    StoreError
        If a picture cannot be written.
    """
    assert isinstance(model, SparseModel)  # which alone has explanations
    shape = image_shape(model.n_features, image)
    unmixed = replace(model.scaling, mixing=None)
    draw = {
        f"row-{number}": partial(
            _row, own=own.reshape(shape), active=model.rows_unmixed, explanation=explanation
        )
        for (number, explanation), own in zip(
            explanations.items(), unmixed.apply(np.asarray(X)), strict=True
        )
    }
    return draw_all(draw, folder)


def _row(figure: "Figure", own: Any, active: Any, explanation: Explanation) -> None:
    """Draw a row and its supporting rows; below, the effects of its pixels and opposing rows."""
    each = explanation
    width = 1 + max(len(each.supporting), len(each.opposing))
    figure.set_size_inches(1.5 * width, 3.8)
    low, high = float(active.min()), float(active.max())
    rows = figure.subplots(2, width, squeeze=False)
    for axes in rows.flat:
        axes.set_axis_off()
    largest = float(np.abs(each.effects).max()) or 1.0
    grey = {"cmap": "gray_r", "vmin": low, "vmax": high}
    rows[0, 0].imshow(own, **grey)
    rows[0, 0].set_title(plain(f"{each.predicted}: {each.probability:.3f}"), fontsize=9)
    rows[1, 0].imshow(each.effects.reshape(own.shape), cmap="RdBu", vmin=-largest, vmax=largest)
    rows[1, 0].set_title(plain(f"not {each.rival}: {each.rival_probability:.3f}"), fontsize=9)
    for line, terms in zip(rows, (each.supporting, each.opposing), strict=True):
        for axes, term in zip(line[1:], terms, strict=False):
            axes.imshow(active[term.place].reshape(own.shape), **grey)
            axes.set_title(plain(f"{term.label}: {term.contribution:+.2f}"), fontsize=9)
