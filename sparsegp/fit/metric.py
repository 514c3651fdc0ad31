"""The metric of a run, learnt before its fit from small fits to some of its rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sparsegp.data import Numbers, unscaled
from sparsegp.errors import SettingsError
from sparsegp.fit.prepare import Prepared
from sparsegp.learning.metric import MAX_METRIC_COLUMNS, NONE, Metric, Part, learn_mixing
from sparsegp.model import SparseModel
from sparsegp.progress import Progress
from sparsegp.settings import TrainSettings
from sparsegp.types import Booleans, Doubles, Floats, Labels

ROWS, ACTIVE = 5000, 500
"""Maximum numbers of rows and active rows in the small fits."""

Fit = Callable[[Floats, Any, TrainSettings, Labels, Numbers | None, Doubles | None], SparseModel]
"""Fits scaled rows; see `fit.training.fit_rows`."""


def learn_metric(
    data: Prepared,
    settings: TrainSettings,
    validation: Booleans,
    fit: Fit,
    progress: Progress,
    scheduler: Any = None,
) -> Doubles:
    """Learn the matrix by which scaled inputs are multiplied, (p, p).

    The small fits run on one thread of this process, so the result does not depend on the runtime.

    Parameters
    ----------
    data : Prepared
    settings : TrainSettings
        With a metric.
    validation : Booleans (n,)
        Validation rows, which are not used.
    fit : callable
    progress : Progress
    scheduler : str or callable, optional
        Dask scheduler that reads the rows; Dask's default if omitted.

    Raises
    ------
    SettingsError
        If there are too many columns.
    """
    metric, p = Metric.of(settings.metric), data.summary.p
    assert metric is not None
    if p > MAX_METRIC_COLUMNS:
        raise SettingsError(
            f"metric=full is for at most {MAX_METRIC_COLUMNS} columns, found {p}; leave it out"
        )
    others = np.flatnonzero(~validation)
    drawn = np.random.default_rng([settings.seed, len(validation), ROWS]).permutation(len(others))
    rows = others[np.sort(drawn[:ROWS])]
    x = data.scaling.apply(data.train.X[rows].compute(scheduler=scheduler))
    covariance = np.atleast_2d(np.cov(x, rowvar=False))
    target, small = data.target[rows], _small(settings, len(rows))
    weights = None if data.train.weights is None else data.train.weights[rows]

    def fit_mixed(mixing: Doubles) -> tuple[Floats, list[Part]]:
        mixed = unscaled(p, mixing).apply(x, settings.dtype)
        posterior = fit(mixed, target, small, data.classes, data.numbers, weights).posterior
        return mixed, list(zip(posterior.kernels, posterior.x, posterior.weights, strict=True))

    progress.start(metric.rounds, "rounds", "metric")
    mixing = learn_mixing(metric, covariance, fit_mixed, progress.update)
    progress.finish()
    return mixing


def _small(settings: TrainSettings, n: int) -> TrainSettings:
    """Return the settings of the small fits to n rows."""
    most = min(ACTIVE, settings.n_active or ACTIVE)
    open_ = replace(settings, metric=NONE, stub_entries=None, candidates=None)
    small = replace(open_, n_active=most, report_every=most)
    return replace(small, n_active=min(most, n - small.n_validation(n)))
