"""From the parameters of an estimator to the settings and threads of a fit."""

import os
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sparsegp.errors import SettingsError
from sparsegp.execution.threads import usable_cpus
from sparsegp.settings import DenseSettings, TrainSettings

PARAMETER = {"seed": "random_state"}
"""Settings that are called otherwise in scikit-learn."""


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters on which results depend, as JSON can hold them."""
    names = [PARAMETER.get(field.name, field.name) for field in fields(estimator._settings_type)]
    known = estimator.get_params(deep=False)
    return {name: _plain(known[name]) for name in names if name in known}


def parameters_from(settings: TrainSettings | DenseSettings) -> dict[str, Any]:
    """Return the parameters that give these settings."""
    return {PARAMETER.get(name, name): value for name, value in settings.to_json().items()}


def named_settings(estimator: Any) -> dict[str, Any]:
    """Return the settings that an estimator names, with a seed that is a number."""
    named = {name: value for name, value in parameters_of(estimator).items() if value is not None}
    seed = named.pop("random_state", None)
    if not isinstance(seed, int):
        seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
    return {**named, "seed": seed}


def settings_of(estimator: Any, task: str, n: int, n_classes: int) -> TrainSettings:
    """Return the settings of a fit to n rows.

    A parameter that is None is left to `TrainSettings.given`, which chooses what suits the
    likelihood. Where each class needs a kernel of its own, None of `kernel_per_class` is that. No
    more rows are to be included than can be.

    Raises
    ------
    SettingsError, ValueError
        If a parameter is out of range, or parameters do not go together.
    """
    given = parameters_of(estimator)
    named = named_settings(estimator)
    settings = TrainSettings.given(task=task, **named)
    open_choice = given.get("kernel_per_class", False) is None
    if open_choice and settings.sites == "moments" and n_classes > 1:
        likelihood = settings.start_likelihood(n_classes)
        settings = replace(settings, kernel_per_class=likelihood.n_latent(n_classes) > 1)
    if settings.n_active is None or settings.active_per_class:
        return settings
    open_rows = n - settings.rows_aside(n)
    return replace(settings, n_active=min(settings.n_active, open_rows))


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for; see the estimators.

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
