"""Pipelines that train, and report error and predictive probability along the way."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.data import Dataset, Table, encode_with
from sparsegp.data.numbers import as_numbers
from sparsegp.errors import DataError
from sparsegp.kernels import Kernel
from sparsegp.model import Model
from sparsegp.report import Evaluation, evaluate
from sparsegp.report.regression import RegressionEvaluation, evaluate_regression
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.training import train
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Figure:
    """Where a figure is found in the result of a cell.

    Parameters
    ----------
    curve : str
        Name in the records of the learning curve, empty if it is not there.
    model : str
        Name among the figures of the finished model.
    convert : callable
    """

    curve: str
    model: str
    convert: Callable[[float], float] = float


def _percent(share: float) -> float:
    return 100.0 * share


FIGURES = {
    "test error %": Figure("heldout_error", "error", _percent),
    "test NLPP": Figure("heldout_nlpp", "nlpp"),
    "test probability": Figure("heldout_nlpp", "nlpp", lambda nlpp: math.exp(-nlpp)),
    "test log likelihood": Figure("heldout_nlpp", "nlpp", lambda nlpp: -nlpp),
    "test log likelihood, uncalibrated": Figure("heldout_nlpp", "", lambda nlpp: -nlpp),
    "test MSE": Figure("heldout_mse", "mse"),
    "test Brier score": Figure("", "brier"),
    "test ECE": Figure("", "ece"),
    "log evidence": Figure("", "log_evidence"),
    "test information bits": Figure("", "information"),
    "relevant columns": Figure("", "relevant"),
    "training error %": Figure("train_error", "", _percent),
    "seconds": Figure("seconds", ""),
}
"""Test NLPP is the mean of -log p of the test labels, test probability the geometric mean of p."""


RELEVANT = 10.0
"""Length scale, in units of scaled inputs, below which a column is taken to matter."""
MODEL_FIGURES = ("error", "nlpp", "brier", "ece", "mse", "r2", "coverage")


class CellProgress:
    """Shows the inclusions of one cell as part of those of all cells."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench, self.shown, self.name = bench, bench.progress, name

    def start(self, total: int, unit: str, description: str) -> None:
        """Name the cell; the first one begins to show."""
        del total, description
        if not self.bench.started:
            self.bench.started = True
            self.shown.start(self.bench.total, unit, self.bench.pipeline.stem)
        self.shown.description = f"{self.bench.pipeline.stem}: {self.name}"

    def update(self, done: int, **figures: float) -> None:
        """Pass on how many rows are included."""
        self.shown.update(self.bench.done + done, **figures)

    def message(self, text: str) -> None:
        """Pass on a message."""
        self.shown.message(f"{self.name}: {text}")

    def finish(self) -> None:
        """Go on showing."""


class Train(Kind):
    """Trains, and evaluates the finished model on the test rows."""

    figures = tuple(FIGURES)
    default_figures = ("test error %", "test NLPP")
    has_curves = True
    moves = True

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Train in a run directory of the cell, which a later call would go on with."""
        dataset = bench.dataset(cell)
        if dataset.test is None:
            raise DataError(f"{dataset.train.source} has no test rows; a pipeline needs them")
        model = train(
            dataset.train,
            test=dataset.test,
            out=bench.runs / cell.run_name,
            resume=True,
            runtime=bench.runtime,
            progress=CellProgress(bench, cell.name),
            **cell.settings.to_json(),
        )
        figures = evaluate_on(model, dataset.test).to_json()
        learning, evidence = model.report.get("learning", []), model.report.get("log_evidence")
        relevant = relevant_columns(model.kernels[0])
        return {
            "n_train": dataset.train.X.shape[0],
            "n_test": figures["n"],
            "kernels": [str(kernel) for kernel in model.kernels],
            "likelihood": model.likelihood.to_json(),
            "relevant": relevant,
            "model": {
                **{name: figures[name] for name in MODEL_FIGURES if name in figures},
                "relevant": len(relevant),
                **({} if evidence is None else {"log_evidence": evidence}),
                **information(dataset, figures),
            },
            "learning": learning,
            "curve": [dict(record) for record in model.history],
        }

    def figure(self, result: Mapping[str, Any], what: str, n_active: int) -> float | None:
        """Look in the finished model after the last inclusion, else in the learning curve."""
        place, curve = FIGURES[what], result["curve"]
        value: float | None = None
        if n_active in {0, curve[-1]["n_active"]} and place.model:
            value = result["model"].get(place.model)
        elif place.curve:
            values = [r.get(place.curve) for r in curve if r["n_active"] == n_active]
            value = values[0] if values else None
        return None if value is None else place.convert(value)


KINDS.register("train")(Train())


def relevant_columns(kernel: Kernel) -> list[int]:
    """Return the columns for which a kernel has a length scale of their own that is not large."""
    named = zip(kernel.parameter_names, kernel.parameters(), strict=True)
    logs = [log for name, log in named if name.endswith(".length_scales")]
    return [column for column, log in enumerate(logs) if log < math.log(RELEVANT)]


def information(dataset: Dataset, figures: Mapping[str, Any]) -> dict[str, float]:
    """Return what predictions tell of the test labels, in bits a row.

    The mean of log2 p, less that of the shares of the labels in the training rows (Rasmussen &
    Williams 2006, eq. 3.76).
    """
    if "nlpp" not in figures or "error" not in figures or dataset.test is None:
        return {}
    classes, counts = np.unique(np.asarray(dataset.train.y), return_counts=True)
    codes, _ = encode_with(classes, dataset.test.y, dataset.test.source)
    shares = counts[codes[codes >= 0]] / counts.sum()
    return {"information": -(float(np.log(shares).mean()) + figures["nlpp"]) / math.log(2.0)}


def evaluate_on(model: Model, test: Table) -> Evaluation | RegressionEvaluation:
    """Evaluate a model on test rows, one chunk of them at a time."""
    if model.is_regression:
        mean, variance = model.predictive_mean_and_variance(test.X)
        y = as_numbers(test.y, test.source)
        return evaluate_regression(mean.compute(), variance.compute(), y)
    codes, _ = encode_with(model.classes, test.y, test.source)
    return evaluate(log_probabilities_on(model, test), codes, model.classes)


def log_probabilities_on(model: Model, test: Table) -> Doubles:
    """Return log probabilities of the classes of test rows, (n, K), by one chunk at a time."""
    chunks: Any = test.X.blocks
    return np.concatenate([model.predict_log_proba(np.asarray(chunk)) for chunk in chunks])
