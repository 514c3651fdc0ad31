"""Parameters of the estimators: the settings that people use, and what they mean for a fit."""

import os
from collections.abc import Mapping
from dataclasses import fields
from inspect import cleandoc
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from sparsegp.errors import SettingsError
from sparsegp.runtime.threads import usable_cpus
from sparsegp.settings import Settings, declared, docstring_entry

T = TypeVar("T", bound=type)


NO_SETTINGS = {
    "settings": ("mapping", "Other settings by name: fields of `sparsegp.settings.TrainSettings`."),
    "random_state": (
        "int, RandomState instance or None",
        "Seed of whatever is random. Fits are the same again unless it is None or an instance.",
    ),
    "n_jobs": (
        "int",
        "Threads of a fit that runs on no cluster. They stand in for those of BLAS, so None is not "
        "one but what ``OMP_NUM_THREADS`` says, and all usable processors where it says nothing; "
        "in a search run by joblib's processes that is their share. As elsewhere in scikit-learn, "
        "-1 is all usable processors and -2 all but one. Results do not depend on it.",
    ),
    "client": (
        "distributed.Client",
        "Fit in the workers of this dask cluster. None is the current client of dask for data that "
        "are dask collections, and threads of this process for all others. It is shared by clones "
        "and left out of pickles.",
    ),
    "checkpoint_dir": (
        "path",
        "Directory of the run, for checkpoints and the model. Fits have one each, so leave it out "
        "in a search or a cross-validation.",
    ),
    "resume": (
        "bool",
        "Go on with the run in `checkpoint_dir`, if there is one; it must have had the same data "
        "and settings.",
    ),
    "verbose": ("int", "Show progress on standard error if greater than 0."),
}
"""Types and descriptions of parameters that are no settings."""


FITTED = """
active_indices_ : array (d,)
    Numbers of the active rows in the training data, in order of inclusion; all rows of a dense
    method.
kernel_ : str or list of str
    The kernel with all length scales filled in, or as it was learnt; length scales refer to scaled
    inputs, variances to standardised labels. A list with one kernel a class if `kernel_per_class`.
model_ : Model
n_features_in_ : int
feature_names_in_ : array (p,)
    Only if all columns of the training data have names.
"""
"""Attributes that all fitted estimators have."""


def documented(owner: T) -> T:
    """Fill the sections of parameters and attributes in the docstring of an estimator."""
    known, entries = declared(owner._settings_type), []  # type: ignore[attr-defined]
    for each in sorted(fields(owner), key=lambda each: each.name not in known):
        if each.name in known:
            setting = known[each.name]
            kind = setting.kind.__name__
            text = owner._descriptions.get(each.name, setting.description)  # type: ignore[attr-defined]
            kind = f"{kind} or Kernel" if each.name == "kernel" else kind
            if each.default is None:
                text += f" None: {setting.unset or 'what suits the likelihood'}."
        else:
            kind, text = NO_SETTINGS[each.name]
        entries.append(docstring_entry(each.name, f"{kind}, default={each.default!r}", text))
    text = cleandoc(owner.__doc__ or "").replace("{parameters}", "\n".join(entries))
    owner.__doc__ = text.replace("{attributes}", FITTED.strip())
    return owner


def named_settings(estimator: Any) -> dict[str, Any]:
    """Return the settings that an estimator names, those in `settings` too, with a seed.

    Raises
    ------
    SettingsError
        If `settings` holds what is not known, or a parameter.
    """
    known = declared(estimator._settings_type)
    parameters = estimator.get_params(deep=False)
    more = parameters.get("settings") or {}
    if not isinstance(more, Mapping):
        raise SettingsError(f"settings must be a mapping of names and values, got {more!r}")
    others = {name for name in known if name not in parameters} - {"seed", "method"}
    if wrong := sorted(str(name) for name in more if name not in others):
        raise SettingsError(
            f"settings must be among {', '.join(sorted(others))}, got {', '.join(wrong)}; what is "
            "a parameter of the estimator goes there"
        )
    named = {name: plain(value) for name, value in parameters.items() if name in known}
    seed = parameters["random_state"]
    if not isinstance(seed, int | np.integer):
        seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
    return {name: value for name, value in named.items() if value is not None} | {
        **more,
        "seed": seed,
    }


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters on which results depend, as JSON can hold them."""
    names = {*declared(estimator._settings_type), "random_state"}
    found = estimator.get_params(deep=False)
    kept = {name: plain(value) for name, value in found.items() if name in names}
    if more := found.get("settings"):
        kept["settings"] = {name: plain(value) for name, value in more.items()}
    return kept


def parameters_from(settings: Settings, owner: Any) -> dict[str, Any]:
    """Return the parameters of a class of estimators that give these settings."""
    names, stored = {*owner._get_param_names()}, settings.to_json()
    found = {name: value for name, value in stored.items() if name in names}
    if "settings" in names:
        known = declared(type(settings))
        others = stored.keys() - names - {"seed"}
        more = {name: stored[name] for name in others if stored[name] != known[name].default}
        found["settings"] = more or None
    return {**found, "random_state": settings.seed}


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


def plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it: NumPy scalars as Python's, kernels as their text."""
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
