"""Consistency checks of models that are read from a file."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.state import MAX_MAGNITUDE

if TYPE_CHECKING:
    from sparsegp.model.base import Model


def require_numbers(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ValueError if numbers of a model are not finite or too large."""
    for key, array in arrays.items():
        limited = array.dtype.kind == "f" and not key.startswith(("scaling.", "medians"))
        if limited and not float(np.abs(array).max(initial=0.0)) <= MAX_MAGNITUDE:
            raise ValueError(f"{key} holds values that are not finite, or too large")


def require_fitting(model: "Model") -> None:
    """Raise a ValueError, or an error of kernel or likelihood, if parts do not fit each other."""
    x = np.asarray(model._scaled(np.zeros((1, model.n_features))), np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        values = [float(kernel(x, x)[0, 0]) for kernel in model.kernels]
    if not model.is_regression:
        model.likelihood.log_density(np.zeros((1, model.n_latent)), np.zeros(1, np.int64))
    rows, names, medians = model.rows, model.names, model.medians
    mappings = (model.settings, model.report, *model.history)
    checks = {
        "rows": rows.shape == model._stored_rows.shape[:1] and rows.dtype.kind in "iu",
        "classes": len(set(model.classes.tolist())) == len(model.classes),
        "names": names is None or [type(name) for name in names] == [str] * model.n_features,
        "settings, report or history": all(isinstance(each, Mapping) for each in mappings),
        "missing": model.missing is None or all(type(word) is str for word in model.missing),
        "encoding": model.encoding is None or model.encoding.names == names,
        "medians": medians is None
        or (medians.shape == (model.n_features,) and np.isfinite(medians).all()),
        "kernels": bool((np.abs(values) <= MAX_MAGNITUDE).all()),
    }
    if wrong := [name for name, holds in checks.items() if not holds]:
        raise ValueError(f"not those of a model: {', '.join(wrong)}")
