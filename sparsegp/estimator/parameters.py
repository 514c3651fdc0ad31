"""From the parameters of the estimator to the settings and threads of a fit."""

import os
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sparsegp.errors import SettingsError
from sparsegp.execution.threads import usable_cpus
from sparsegp.settings import TrainSettings

PARAMETER = {"seed": "random_state"}
"""Settings that are called otherwise in scikit-learn."""


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters on which results depend, as JSON can hold them."""
    names = [PARAMETER.get(field.name, field.name) for field in fields(TrainSettings)]
    return {name: _plain(getattr(estimator, name)) for name in names}


def parameters_from(settings: TrainSettings) -> dict[str, Any]:
    """Return the parameters that give these settings."""
    return {PARAMETER.get(name, name): value for name, value in settings.to_json().items()}


def settings_of(estimator: Any, n: int) -> TrainSettings:
    """Return the settings of a fit to n rows; no more rows are to be included than can be.

    Raises
    ------
    SettingsError, ValueError
        If a parameter is out of range.
    """
    given = parameters_of(estimator)
    seed = given.pop("random_state")
    if not isinstance(seed, int):
        seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
    settings = TrainSettings(**given, seed=seed)
    if settings.n_active is None:
        return settings
    open_rows = n - settings.rows_aside(n)
    return replace(settings, n_active=min(settings.n_active, open_rows))


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for; see `SparseGPClassifier`.

    Raises
    ------
    SettingsError
        If it is 0.
    """
    usable = usable_cpus()
    if n_jobs is None:
        allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
        return max(1, min(usable, int(allowed))) if allowed.isdigit() else usable
    if n_jobs == 0:
        raise SettingsError("n_jobs must be None or not 0, got 0")
    return int(n_jobs) if n_jobs > 0 else max(1, usable + 1 + int(n_jobs))


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it: NumPy scalars as Python's, kernels as their text."""
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
