"""Pipelines that train, and report error and predictive probability along the way."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from sparsegp.data import Dataset, Table, encode_with
from sparsegp.data.numbers import as_numbers
from sparsegp.kernels import Kernel
from sparsegp.model import Model
from sparsegp.report import Evaluation, NullProgress, evaluate
from sparsegp.report.regression import RegressionEvaluation, evaluate_regression
from sparsegp.reproduce.cell import Cell
from sparsegp.reproduce.contestants import CONTESTANTS, in_memory
from sparsegp.reproduce.judge import Predictions, held_out, information
from sparsegp.reproduce.kinds.base import KINDS, Bench, Kind, Result
from sparsegp.settings import DenseSettings
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
        self.shown.turn_to(f"{self.bench.pipeline.stem}: {self.name}")

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

    figures: ClassVar[Sequence[str]] = tuple(FIGURES)
    default_figures: ClassVar[Sequence[str]] = ("test error %", "test NLPP")
    has_curves = True
    moves = True
    compares = True

    def task_of(self, cell: Cell) -> str | None:
        """Return a task of its own for what takes all rows, which is small."""
        dense = isinstance(cell.settings, DenseSettings)
        return cell.name if dense or "model" in cell.options else None

    def run(self, cell: Cell, bench: Bench) -> Result:
        """Train in a run directory of the cell, which a later call would go on with."""
        dataset = bench.dataset(cell)
        test = held_out(dataset)
        model = train(
            dataset.train,
            test=test,
            out=bench.runs / cell.run_name,
            resume=True,
            runtime=bench.runtime,
            progress=CellProgress(bench, cell.name),
            **cell.settings.to_json(),
        )
        figures = evaluate_on(model, test).to_json()
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
            **self.kept_rows(lambda: predictions_of(model, test), dataset),
        }

    def run_rival(self, cell: Cell, bench: Bench) -> Result:
        """Fit a classifier of a library on one thread; its result is like that of `run`."""
        dataset = in_memory(bench.dataset(cell))
        bench.progress.message(f"{cell.name}: {CONTESTANTS[cell.options['model']].title}")
        with threadpool_limits(1):
            fitted = CONTESTANTS[cell.options["model"]].prepare(
                dataset.train, cell, NullProgress()
            )()
            predictions = Predictions.of(fitted, held_out(dataset))
        n_train = int(dataset.train.X.shape[0])
        return {
            "n_train": n_train,
            "n_test": len(predictions.codes),
            "settings": fitted.settings,
            "details": fitted.details,
            "model": predictions.figures(dataset),
            "curve": [{"n_active": cell.n_active or n_train}],
            **self.kept_rows(lambda: predictions, dataset),
        }

    def kept_rows(self, predictions: Callable[[], Predictions], dataset: Dataset) -> Result:
        """Return what is kept of single test rows; nothing unless overridden."""
        del predictions, dataset
        return {}

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


def predictions_of(model: Model, test: Table) -> Predictions:
    """Return what a classifier of ours tells of test rows."""
    logs = log_probabilities_on(model, test)
    return Predictions(model.classes, logs.argmax(axis=1), logs)
