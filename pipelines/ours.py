"""Methods of this package: one run of `sparsegp.train`, or several that belong together."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import numpy as np
from scipy.special import log_softmax

import sparsegp
from pipelines.data import Data, against_rest, errors_of
from pipelines.experiment import MORE, Cell
from pipelines.metrics import Predictions, of_nlpp, of_record
from pipelines.place import Place
from sparsegp.model import Model
from sparsegp.report import evaluate_regression
from sparsegp.types import Doubles

FIRST, LAST = ", without copies", ""
"""Suffixes of metrics of the models before and after virtual rows; otherwise there is only LAST."""

RELEVANT = 10.0
"""Length scale, in units of scaled inputs, below which a column counts as relevant."""


def run(cell: Cell, data: Data, place: Place) -> dict[str, Any]:
    """Train the method of a cell, and evaluate it on the test rows.

    Returns
    -------
    dict
        `figures`, metrics by name; `curve`, those after some numbers of active rows; `rows`, the
        values of `Predictions.rows` to be kept; `kernels`, their texts.
    """
    if cell.spec.get("one_against_rest"):
        return _one_against_rest(cell, data, place)
    models = _train(cell, data, place, "run")
    model = models[LAST]
    curve = [of_record(record) for record in model.history]
    figures: dict[str, Any] = dict(curve[-1])
    for end, found in models.items():
        figures |= {f"{k}{end}": value for k, value in _figures(found, data, place).items()}
    kernels = [str(kernel) for kernel in model.kernels]
    scales = ",".join(re.findall(r"ard\(([^()]*)\)", kernels[0])).split(",")
    figures["relevant columns"] = sum(float(scale) < RELEVANT for scale in filter(None, scales))
    if "log_evidence" in model.report:
        figures["log evidence"] = model.report["log_evidence"]
    figures |= place.costs
    if "extra" in cell.spec:
        with errors_of(cell.spec["extra"]):
            function = resolve_name(cell.spec["extra"])
        figures |= function(model, data, figures, cell.seed, **cell.spec.get("options", {}))
    kept, curve = cell.spec.get("keep_rows", ()), [] if cell.is_small else curve
    rows = _predictions(model, data).rows(data) if kept else {}
    rows = {name: rows[name] for name in kept}
    return {"figures": figures, "curve": curve, "rows": rows, "kernels": kernels}


def _train(cell: Cell, data: Data, place: Place, name: str) -> dict[str, Model]:
    """Train the models of a cell; return them by the suffix of their metrics."""
    settings = cell.settings
    if "kernel" in settings:
        settings["kernel"] = _kernel(cell, data, place)
    table = (data.X_train, data.y_train)
    if "virtual" in cell.spec:
        copies = dict(cell.spec["virtual"])
        n_active = copies.pop("n_active")
        first = _fit(table, {**settings, "n_active": n_active}, place, f"{name}-first")
        rows = sparsegp.virtual_rows(first, table, "shift", **copies)
        again = sparsegp.same_settings(first, n_active=settings["n_active"])
        return {FIRST: first, LAST: _fit((rows, None), again, place, name)}
    with tempfile.TemporaryDirectory(prefix="sparsegp-") as folder:
        scratch = folder if cell.spec.get("scratch") else None
        test = None if place.runs is None else (data.X_test, data.y_test)  # is not timed
        return {LAST: _fit(table, settings, place, name, test=test, scratch=scratch)}


def _fit(table: Any, settings: Mapping[str, Any], place: Place, name: str, **options: Any) -> Model:
    """Train a model in a run directory that can be resumed, or without one if it is timed."""
    kept = {} if place.runs is None else {"out": place.runs / name, "resume": True}
    options |= {**kept, "progress": place.progress, "runtime": place.where, **settings}
    train = sparsegp.train  # its first use imports most modules
    with place.timed():
        return train(*table, **options)


def _kernel(cell: Cell, data: Data, place: Place) -> str:
    """Return the kernel of a cell, or what its `kernel_method` learns starting from that.

    Cells on the same rows share the run of a `kernel_method`.
    """
    text = filled(cell.spec["kernel"], data.X_train.shape[1])
    if "kernel_method" not in cell.spec:
        return text
    method = {"method": cell.spec["kernel_method"], "kernel": text, "learn": "none"}
    same = {k: v for k, v in cell.spec.items() if k not in {"kernel_method", "likelihood"}}
    learning, shared = replace(cell, spec=same | method), place.runs and place.runs.parent
    table, beside = (data.X_train, data.y_train), replace(place, runs=shared)
    model = _fit(table, learning.settings, beside, f"kernel-{learning.key}")
    return str(model.kernels[0])


def filled(kernel: str, columns: int) -> str:
    """Replace `MORE` in a kernel's text by repeating the last number for all columns."""

    def fill(match: "re.Match[str]") -> str:
        numbers = match[1].split(", ")
        return f"({', '.join(numbers + numbers[-1:] * (columns - len(numbers)))})"

    return re.sub(rf"\(([^()]*){re.escape(MORE)}\)", fill, kernel)


def _one_against_rest(cell: Cell, data: Data, place: Place) -> dict[str, Any]:
    """Train a binary model for every class against the rest, and normalise their probabilities.

    The predicted class is that of the most confident model, as in Seeger, Lawrence & Herbrich
    (2006, section 6.5). The model of class k has the seed of the cell plus k.
    """
    classes = np.unique(data.y_train)
    logs: dict[str, list[Doubles]] = {}
    kernels = []
    for k in range(len(classes)):
        own, task = replace(cell, seed=cell.seed + k), against_rest(data, k)
        models = _train(own, task, place, f"class-{k}")
        kernels.append(str(models[LAST].kernels[0]))
        for end, model in models.items():
            logs.setdefault(end, []).append(model.predict_log_proba(np.asarray(data.X_test)))
    figures, is_class = dict(place.costs), data.y_test[:, np.newaxis] == classes
    for end, found in logs.items():
        both = np.stack(found, axis=1)  # (n, K, 2)
        wrong = 100.0 * np.mean(both.argmax(axis=2) != is_class, axis=0)
        named = [*(f" of class {k}" for k in range(len(classes))), ""]
        for name, error in zip(named, [*wrong, wrong.mean()], strict=True):
            figures[f"error %{name} against the rest{end}"] = float(error)
        every = log_softmax(both[..., 1], axis=1)
        of_all = Predictions(classes, every.argmax(axis=1), every).figures(data)
        figures |= {f"{name}{end}": value for name, value in of_all.items()}
    return {"figures": figures, "curve": [], "rows": {}, "kernels": kernels}


def _predictions(model: Model, data: Data) -> Predictions:
    """Return the predictions of a classifier for the test rows."""
    logs = model.predict_log_proba(np.asarray(data.X_test))
    return Predictions(model.classes, logs.argmax(axis=1), logs)


def _figures(model: Model, data: Data, place: Place) -> dict[str, float]:
    """Return the metrics of a model on the test rows."""
    if not model.is_regression:
        made: Predictions = place.predicted(lambda: _predictions(model, data), len(data.y_test))
        return made.figures(data)
    moments = model.predictive_mean_and_variance(np.asarray(data.X_test))
    found = evaluate_regression(*moments, np.asarray(data.y_test, np.float64))
    return {"test MSE": found.mse, **of_nlpp(found.nlpp)}
