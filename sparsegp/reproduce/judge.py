"""What predictions of test rows are worth: error, log probability, information, certainty."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.data import Dataset, Table, encode_with
from sparsegp.errors import DataError
from sparsegp.report import evaluate
from sparsegp.reproduce.contestants import Fitted
from sparsegp.types import Booleans, Doubles, Integers, Labels

FIGURES = ("error", "nlpp", "brier", "ece")


@dataclass(frozen=True)
class Predictions:
    """What a classifier tells of n test rows.

    Parameters
    ----------
    classes : Labels (K,)
    codes : Integers (n,)
        Of the classes told.
    log_probabilities : Doubles (n, K) or None
        None for a classifier without.
    certainty : Doubles (n,) or None
        Rows with the least of it are rejected first; None where that is the greatest probability.
    """

    classes: Labels
    codes: Integers
    log_probabilities: Doubles | None
    certainty: Doubles | None = None

    @classmethod
    def of(cls, fitted: Fitted, test: Table) -> "Predictions":
        """Ask a contestant."""
        X = np.asarray(test.X)
        if fitted.log_probabilities is None:
            return cls(fitted.classes, fitted.codes(X), None)
        logs = fitted.log_probabilities(X)
        certainty = None if fitted.certainty is None else fitted.certainty(X)
        return cls(fitted.classes, logs.argmax(axis=1), logs, certainty)

    def figures(self, dataset: Dataset) -> dict[str, Any]:
        """Return figures by name, without those that need probabilities where there are none."""
        test, logs = held_out(dataset), self.log_probabilities
        target, _ = encode_with(self.classes, test.y, test.source)
        if logs is None:
            logs = np.full((len(target), len(self.classes)), -np.inf)
            logs[np.arange(len(target)), self.codes] = 0.0
            return {"error": evaluate(logs, target, self.classes).error}
        found = evaluate(logs, target, self.classes).to_json()
        return {**{name: found[name] for name in FIGURES}, **information(dataset, found)}


@dataclass(frozen=True)
class Rows:
    """Test rows one by one, as a classifier sees them.

    Attributes
    ----------
    certainty : Doubles (n,)
    right : Booleans (n,)
        Whether the class told is the true one.
    information : Doubles (n,)
        log2 p of the true label, less the mean over all test rows of that of the share of the label
        in the training rows; NaN where there is no probability.
    """

    certainty: Doubles
    right: Booleans
    information: Doubles

    @classmethod
    def of(cls, predictions: Predictions, dataset: Dataset) -> "Rows":
        """Compare predictions with the labels of the test rows."""
        test, logs = held_out(dataset), predictions.log_probabilities
        target, _ = encode_with(predictions.classes, test.y, test.source)
        right, known, certainty = predictions.codes == target, target >= 0, predictions.certainty
        gains = np.full(len(target), np.nan)
        if logs is not None:
            own = np.take_along_axis(logs[known], target[known, np.newaxis], axis=1)[:, 0]
            gains[known] = (own - np.log(label_shares(dataset)).mean()) / math.log(2.0)
        if certainty is None:
            certainty = np.ones(len(target)) if logs is None else np.exp(logs.max(axis=1))
        return cls(certainty, right, gains)

    def to_json(self) -> dict[str, list[Any]]:
        """Return lists."""
        return {name: values.tolist() for name, values in vars(self).items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Rows":
        """Restore what `to_json` gave."""
        return cls(*(np.array(stored[name]) for name in ("certainty", "right", "information")))


def held_out(dataset: Dataset) -> Table:
    """Return the test rows of a data set.

    Raises
    ------
    DataError
        If there are none.
    """
    if dataset.test is None:
        raise DataError(f"{dataset.train.source} has no test rows; a pipeline needs them")
    return dataset.test


def label_shares(dataset: Dataset) -> Doubles:
    """Return the share in the training rows of the label of each test row that has one."""
    classes, counts = np.unique(np.asarray(dataset.train.y), return_counts=True)
    test = held_out(dataset)
    codes, _ = encode_with(classes, test.y, test.source)
    return np.asarray(counts[codes[codes >= 0]] / counts.sum())


def information(dataset: Dataset, figures: Mapping[str, Any]) -> dict[str, float]:
    """Return what predictions tell of the test labels, in bits a row.

    The mean of log2 p, less that of the shares of the labels in the training rows (Rasmussen &
    Williams 2006, eq. 3.76).
    """
    if figures.get("nlpp") is None or "error" not in figures:
        return {}
    share = float(np.log(label_shares(dataset)).mean())
    return {"information": -(share + figures["nlpp"]) / math.log(2.0)}
