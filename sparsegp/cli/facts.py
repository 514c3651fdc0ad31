"""Descriptions of models, of unfinished runs and of evaluations, for JSON and in words."""

from dataclasses import asdict
from math import isnan
from typing import Any

import numpy as np
from scipy.special import entr

from sparsegp import store
from sparsegp.cli.output import percent, show, table
from sparsegp.data import Table
from sparsegp.lists import plural
from sparsegp.model import Model
from sparsegp.posterior.limits import prediction_sets
from sparsegp.report import Evaluation, RegressionEvaluation, TwoClasses
from sparsegp.settings import settings_given
from sparsegp.store.folders import Folder

WIDEST, MAX_CONFUSIONS = 15, 10
"""Maximum number of classes whose confusion matrix is printed; number of confusions otherwise."""


def figures(
    evaluation: Evaluation | RegressionEvaluation,
    two: TwoClasses | None = None,
    sets: dict[str, float] | None = None,
) -> dict[str, str]:
    """Return the metrics of an evaluation, of a positive class and of prediction sets, in words."""
    rows, nlpp = f"{evaluation.n}", f"{evaluation.nlpp:.4f} nats"
    if isinstance(evaluation, RegressionEvaluation):
        return {
            "rows": rows,
            "mse": f"{evaluation.mse:.5g}",
            "r2": "undefined" if isnan(evaluation.r2) else f"{evaluation.r2:.4f}",
            "nlpp": nlpp,
            "coverage": f"{percent(evaluation.coverage)} of the 95 % intervals",
        }
    if unseen := evaluation.n_unseen:
        rows += f", of them {unseen} with labels that the model does not know"
    wrong = f" ({plural(round(evaluation.error * evaluation.n), 'row')})"
    if evaluation.weight is not None:
        rows, wrong = f"{rows}; weights, which sum to {evaluation.weight:.6g}, are used", ""
    total = evaluation.n if evaluation.weight is None else evaluation.weight  # also unseen labels
    counts = evaluation.confusion.sum(axis=1)
    shares = counts / (counts.sum() or np.nan)
    words = {
        "rows": rows,
        "error": f"{percent(evaluation.error)}{wrong}",
        "nlpp": nlpp + (f", of the {plural(evaluation.n - unseen, 'other row')}" if unseen else ""),
        "brier": f"{evaluation.brier:.4f}",
        "ece": f"{evaluation.ece:.4f} ({evaluation.ece_by_chance:.4f} by chance alone)",
        "baseline": f"error {percent(1.0 - counts.max() / total)}, nlpp "
        f"{entr(shares).sum():.4f} nats, by the shares of the classes alone",
    }
    if two is not None:
        average = f"average precision {two.average_precision:.4f}"
        words["auc"] = f"{two.auc:.4f}, {average} (positive class: {two.positive})"
        words[f"{two.positive} from {two.threshold:g}"] = (
            f"precision {two.precision:.4f}, recall {two.recall:.4f}, F1 {two.f1:.4f}"
        )
    if sets:
        words["prediction sets"] = (
            f"{percent(sets['coverage'])} contain the true class ({sets['asked']:g} requested); "
            f"{sets['mean_size']:.3f} classes on average, a single one in {percent(sets['alone'])}"
        )
    return words


def sizes_and_coverage(
    model: Model, logs: Any, codes: Any, coverage: float, weights: Any
) -> dict[str, float]:
    """Return how often prediction sets contain the true class, and how large they are."""
    sets = prediction_sets(np.exp(logs), model.scores, coverage)
    held, sizes = (codes >= 0) & sets[np.arange(len(codes)), codes], sets.sum(axis=1)
    means = [float(np.average(each, weights=weights)) for each in (held, sizes, sizes == 1)]
    return {"asked": coverage, **dict(zip(("coverage", "mean_size", "alone"), means, strict=True))}


def by_class(evaluation: Evaluation) -> list[str]:
    """Return tables of confusions, precision and recall; with many classes only of the worst."""
    names, counts = [str(label) for label in evaluation.classes.tolist()], evaluation.confusion
    counted, order = "rows" if evaluation.weight is None else "weight", [*range(len(names))]
    if len(names) <= WIDEST:
        rows = [[name, *row] for name, row in zip(names, counts.tolist(), strict=True)]
        lines = ["confusion (true class down, predicted across)", *table(["", *names], rows)]
    else:
        wrong = counts * (1 - np.eye(len(names), dtype=int))
        most = np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS]
        cells = [divmod(int(cell), len(names)) for cell in most]
        rows = [[names[i], names[j], wrong[i, j].item()] for i, j in cells if wrong[i, j]]
        lines = ["most frequent confusions", *table(["true class", "predicted", counted], rows)]
        order = np.argsort(evaluation.recall, kind="stable")[:MAX_CONFUSIONS].tolist()
    precision, recall = evaluation.precision, evaluation.recall
    totals = counts.sum(axis=1).tolist()
    rows = [[names[k], totals[k], f"{precision[k]:.4f}", f"{recall[k]:.4f}"] for k in order]
    return [*lines, *table(("class", counted, "precision", "recall"), rows)]


def relevances(model: Model) -> dict[str, float]:
    """Return `Model.input_relevances` by name, or number, largest first; empty without any."""
    found = model.input_relevances
    if found is None:
        return {}
    names = model.inputs or [*map(str, range(model.n_features))]
    every = model.encoding.all if model.encoding else names
    shares = dict(zip(every, found.tolist(), strict=True))
    return {name: shares[name] for name in sorted(names, key=lambda name: -shares[name])}


def facts(model: Model) -> dict[str, Any]:
    """Return a description of a model, and of its columns if they held more than numbers."""
    shares, nlpp = relevances(model) if model.encoding else {}, model.report.get("validation_nlpp")
    if isinstance(nlpp, dict):  # by prior variance factor, of which one was chosen
        nlpp = nlpp.get(f"{model.calibration.prior_scale:.4g}")
    inputs = [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.missing,
            "levels": dict(zip(column.levels, column.counts, strict=True)),
            "rare": len(column.rare),
            "left_out": column.note,
            "relevance": shares.get(column.name),
        }
        for column in (model.encoding.columns if model.encoding else ())
    ]
    return {
        "settings": dict(model.settings),
        "classes": model.classes.tolist(),
        "columns": model.n_features,
        "names": list(model.names or ()),
        "label": model.label,
        "weights": model.weight_column,
        "inputs": inputs,
        "n_active": len(model.rows),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "validation_nlpp": nlpp,
        "validation_rows": model.report.get("validation_rows"),
    }


def outcome(model: Model, rows: Table, folder: Folder) -> dict[str, Any]:
    """Return the record of a model: data, description and files."""
    last = model.history[-1]
    apart = model.settings.get("posterior") == "all"  # the selection does not have its errors
    return {
        "source": rows.source,
        "rows": int(rows.X.shape[0]),
        **facts(model),
        **{k: None if apart else last[k] for k in ("train_error", "train_mse") if k in last},
        "likelihood": model.likelihood.to_json(),
        "run": str(folder),
        "model": f"{folder}/{store.MODEL_FILE}",
        "model_bytes": folder.sizes().get(store.MODEL_FILE, 0),
    }


def finished(model: Model) -> dict[str, Any]:
    """Return the record of a finished run, from its model."""
    history = [dict(point) for point in model.history]
    return {
        "state": "finished",
        **facts(model),
        "relevances": relevances(model),
        "calibration": asdict(model.calibration),
        "posterior": {name: value for name, value in model.report.items() if name != "learning"},
        "n_wanted": len(model.rows),
        "active_rows": model.rows.tolist(),
        "history": history,
        "learning": model.report.get("learning", []),
        "seconds": history[-1]["seconds"] if history else None,
    }


def unfinished(run: str, folder: Folder) -> dict[str, Any]:
    """Return the record of the newest checkpoint, or of settings alone if there is none.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    newest = store.RunDirectory(run, 1, lambda text: show([f"warning: {text}"], err=True)).load()
    meta, arrays = ({}, {}) if newest is None else (newest[1].meta, newest[1].arrays)
    rows = [int(row) for row in arrays.get("rows", ())]  # none while it learns
    with store.read_errors(f"{folder}/{store.RUN_FILE}"):
        known = outline(*store.read_run(folder))
    known |= {name: meta[name] for name in ("history", "learning", "seconds") if name in meta}
    known |= {"n_active": len(rows), "active_rows": rows, "progress": store.read_progress(run)}
    return {"state": "unfinished", **known}


def outline(settings: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are known from settings and data."""
    return {
        "settings": settings,
        "classes": data["classes"],
        "columns": data["columns"],
        "n_wanted": settings_given(**settings).rows_to_include(data["rows"]),
    }
