"""Whether a search for the kernel suits the training rows, and which scalings it tries."""

from typing import Any

import numpy as np

from sparsegp.data import Scaling, Summary, neighbour_correlation
from sparsegp.fit.prepare import Prepared
from sparsegp.learning.plan import ALIKE, MAX_PLAIN, PIXELS, SPARSE_RATIO
from sparsegp.learning.space import MAX_ROUGH_COLUMNS
from sparsegp.settings import AUTO, TrainSettings

MOST_LEVEL = 2
"""Range up to which whole numbers are not pixels, but answers, or genes coded as 0, 1 and 2."""


def unsuited(data: Prepared, settings: TrainSettings, scheduler: Any = None) -> bool:
    """Return whether rows are virtual or pixels, for which the default search changes nothing.

    Pixels, spectra and the like are many columns with one range, which resemble their neighbours
    and matter only together.

    Parameters
    ----------
    data : Prepared
    settings : TrainSettings
    scheduler : str or callable, optional
        Dask scheduler that reads the first rows.
    """
    rows, summary = data.train, data.summary
    if rows.origin is not None and rows.weights is None:  # virtual
        return True
    alike = settings.scaling == AUTO and data.scaling.name in {"none", "range"}
    are_levels = summary.whole and summary.high.max() - summary.low.min() <= MOST_LEVEL
    if not alike or are_levels or summary.p < PIXELS:
        return False
    return neighbour_correlation(rows.X, scheduler) >= ALIKE


def scalings_to_try(data: Prepared, searches: bool) -> list[str]:
    """Return the rules to try besides "auto", which led to the scaling of the data.

    Unless there is a search, the last rule is that of the kernel for few rows.
    """
    summary, scaling = data.summary, data.scaling
    is_wide = summary.p > MAX_ROUGH_COLUMNS
    is_plain = np.abs([summary.low, summary.high]).max() <= MAX_PLAIN
    plain = is_plain and ((is_wide and searches) or _is_sparse(summary, scaling))
    rules = ["none"] if plain and scaling.name != "none" else []
    return rules if is_wide else [*rules, "quantile"]


def _is_sparse(summary: Summary, scaling: Scaling) -> bool:
    """Return whether most values are zero and the others positive, as in counts of words."""
    kept = scaling.kept
    summary = summary if kept is None or kept.all() else summary.of(~kept)
    ratios = summary.mean / np.sqrt(np.where(summary.variance > 0.0, summary.variance, np.inf))
    return bool(summary.low.min() >= 0.0 and np.median(ratios) < SPARSE_RATIO)
