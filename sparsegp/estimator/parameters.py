"""Parameters of the estimators: their documentation, and their conversion to settings."""

import os
from collections.abc import Mapping
from dataclasses import fields
from inspect import cleandoc, signature
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from sparsegp.data.labels import plain_text
from sparsegp.errors import SettingsError, quoted
from sparsegp.fields import declared, docstring_entry
from sparsegp.runtime.threads import usable_cpus
from sparsegp.settings import Settings

T = TypeVar("T", bound=type)

FITTED = """
classes_ : array (K,)
    Class labels, sorted, in the order of the columns of all predictions (classifiers only).
noise_variance_ : float
    Noise variance, in squared units of the labels (regressors only).
active_indices_ : array (d,)
    Numbers of the active rows in the training data, in order of inclusion; all rows for a dense
    method.
n_active_ : int
    Number of active rows.
scaling_ : str
    Scaling of the inputs: standard, range, quantile or none.
kernel_ : str or list of str
    The kernel with all length scales, as computed or learnt, by name if the columns have names;
    length scales refer to scaled inputs, variances to standardised labels. A list with one
    kernel per class if `kernel_per_class`.
feature_relevances_ : array (p,)
    Relevance of each column: its standard deviation divided by its length scale, or times the
    norm of its row in the metric, normalised to sum to 1. Only if a kernel has a length scale per
    column, such as "10*ard", or there is a metric.
history_ : list of dict
    Records of the last selection: n_active, seconds, and train_error or train_mse from its own
    marginals, not from the model; with `stub_entries` only while all rows are candidates. A dense
    method has one final record, with train_nlpp.
model_ : Model
client_ : distributed.Client or None
    Client used by the fit; None if it ran in threads or in another process.
n_features_in_ : int
feature_names_in_ : array (p,)
    Column names, if all columns of the training data have one.
""".strip()
"""Attributes of fitted estimators."""


def documented_estimator(owner: T) -> T:
    """Add sections to a docstring: parameters, from their fields or settings, and attributes."""
    known, entries = declared(owner._settings_type), []  # type: ignore[attr-defined]
    for each in sorted(fields(owner), key=lambda each: each.name not in known):
        kind, text = each.metadata.get("kind"), each.metadata.get("help")
        if setting := known.get(each.name):
            own = "str, Kernel or list of these"  # one for each class
            kind = kind or (own if each.name == "kernel" else setting.kind.__name__)
            text = text or setting.description
            if each.default is None:
                suits = f"{setting.default!r}, or what the likelihood needs"
                if owner._task == "regression":  # type: ignore[attr-defined]
                    suits = "depends on whether a `kernel` is given, see above"
                unset = each.metadata.get("unset") or setting.unset or suits
                text += f" None: {unset}."
        entries.append(docstring_entry(each.name, f"{kind}, default={each.default!r}", text or ""))
    prose, _, examples = cleandoc(owner.__doc__ or "").partition("Examples\n--------\n")
    sections = {"Parameters": "\n".join(entries), "Attributes": FITTED, "Examples": examples}
    owner.__doc__ = prose + "\n\n".join(
        f"{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items()
    )
    return owner


def named_settings(estimator: Any) -> dict[str, Any]:
    """Return the settings given by an estimator's parameters, those in `settings`, and a seed.

    Raises
    ------
    SettingsError
        If `settings` contains unknown names, or names of parameters.
    """
    known, parameters = declared(estimator._settings_type), estimator.get_params(deep=False)
    more = {} if parameters.get("settings") is None else parameters["settings"]
    if not isinstance(more, Mapping):
        raise SettingsError(f"settings must be a mapping of names and values, got {quoted(more)}")
    others = known.keys() - parameters.keys() - {"seed", "method"}
    if wrong := sorted(str(name) for name in more if name not in others):
        raise SettingsError(
            f"settings must be among {', '.join(sorted(others))}, got {', '.join(wrong)}; what is "
            "a parameter of the estimator goes there"
        )
    named = {name: to_plain_json(value) for name, value in parameters.items() if name in known}
    seed = parameters["random_state"]
    if not isinstance(seed, int | np.integer):
        seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
    given = {name: value for name, value in named.items() if value is not None}
    return {**given, **more, "seed": seed}


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters that affect the results of a fitted estimator, as plain JSON."""
    found, names = estimator.get_params(deep=False), result_parameters(estimator)
    kept = {name: to_plain_json(value) for name, value in found.items() if name in names}
    if not isinstance(kept["random_state"], int):
        kept["random_state"] = estimator.model_.settings["seed"]
    return kept


def parameters_from(settings: Settings, owner: Any) -> dict[str, Any]:
    """Return the parameters of an estimator class that result in these settings."""
    names = signature(owner).parameters.keys()
    stored, known = settings.to_json(), declared(type(settings))
    found = {name: value for name, value in stored.items() if name in names}
    if "settings" in names:
        others = stored.keys() - names - {"seed"}
        more = {name: stored[name] for name in others if stored[name] != known[name].default}
        found["settings"] = more or None
    return {**found, "random_state": settings.seed}


def result_parameters(owner: Any) -> set[str]:
    """Return the names of the parameters that affect the results of an estimator."""
    return {*declared(owner._settings_type), "settings", "random_state"}


def n_threads(n_jobs: object) -> int:
    """Return the number of threads for `n_jobs`, as the estimators document it.

    Raises
    ------
    SettingsError
        If it is 0, or not an integer.
    """
    usable = usable_cpus()
    if n_jobs is None:
        allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
        return max(1, min(usable, int(allowed))) if allowed.isdigit() else usable
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise SettingsError(f"n_jobs must be None or an integer other than 0, got {quoted(n_jobs)}")
    return int(n_jobs) if n_jobs > 0 else max(1, usable + 1 + int(n_jobs))


def is_verbose(verbose: object) -> bool:
    """Return whether `verbose` asks for progress; raise a SettingsError if it is no number."""
    if not isinstance(verbose, int | float | np.number | np.bool_):
        raise SettingsError(f"verbose must be a number, got {quoted(verbose)}")
    return bool(verbose > 0)


def to_plain_json(value: Any) -> Any:
    """Convert a parameter to plain JSON: NumPy scalars to those of Python, kernels to text."""
    if hasattr(value, "items"):  # also a series of pandas
        return {plain_text(name): to_plain_json(each) for name, each in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):  # a kernel for each class, as in `kernel_`
        return "; ".join(map(str, value))
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
