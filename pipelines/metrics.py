"""Metrics of predictions for the test rows.

Test NLPP is the mean of -log p of the test labels, in nats, infinite if a p is zero; when bounded,
a smaller p counts as `MIN_PROBABILITY`. Test probability is the geometric mean of p. The rows of
which a classifier is least certain are rejected first.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipelines.data import Data
from sparsegp.data import encode_with
from sparsegp.report import evaluate, rejecting
from sparsegp.types import Doubles, Integers, Labels

REJECTED = (0.05, 0.1, 0.2)
"""Shares of test rows to reject."""

MIN_PROBABILITY = 1e-15


@dataclass(frozen=True)
class Predictions:
    """Predictions of a classifier for n test rows."""

    classes: Labels  # (K,)
    codes: Integers  # (n,), numbers of the predicted classes
    log_probabilities: Doubles | None  # (n, K); None for a classifier without probabilities
    certainty: Doubles | None = None  # (n,); None means the largest probability

    def figures(self, data: Data) -> dict[str, float]:
        """Return metrics by name; without probabilities, only those that need none."""
        rows, logs = self.rows(data), self.log_probabilities
        found = {"test error %": float(np.mean(rows["wrong"]))}
        if logs is not None:
            evaluation = evaluate(logs, self._target(data), self.classes)
            found |= of_nlpp(evaluation.nlpp) | {
                "test NLPP, bounded": float(np.nanmean(rows["nlpp"])),
                "test log likelihood, all rows": -evaluation.nlpp * len(logs),
                "test Brier score": evaluation.brier,
                "test ECE": evaluation.ece,
                "test information bits": float(np.nanmean(rows["information"])),
            }
        for what, (rejected, means) in reject_curves(rows).items():
            for share in REJECTED:
                mean = float(means[np.flatnonzero(rejected <= share)[-1]])
                found |= {} if math.isnan(mean) else {f"{what}, {share:.0%} rejected": mean}
        return found

    def rows(self, data: Data) -> dict[str, Any]:
        """Return certainty, `wrong` (100 or 0), information and bounded NLPP of every test row.

        Information is log2 p of the true label, minus the mean over all test rows of log2 of the
        label's share of the training rows; it and NLPP are NaN where there is no probability.
        """
        target, logs, certainty = self._target(data), self.log_probabilities, self.certainty
        known, gains, nlpp = target >= 0, *np.full((2, len(target)), np.nan)
        if logs is not None:
            own = np.take_along_axis(logs[known], target[known, np.newaxis], axis=1)[:, 0]
            shares = pd.Series(data.y_train).value_counts(normalize=True).reindex(data.y_test)
            gains[known] = (own - np.log(shares).mean()) / math.log(2.0)
            nlpp[known] = -np.maximum(own, math.log(MIN_PROBABILITY))
        if certainty is None:
            certainty = np.ones(len(target)) if logs is None else np.exp(logs.max(axis=1))
        wrong = 100.0 * (self.codes != target)
        return {"certainty": certainty, "wrong": wrong, "information": gains, "nlpp": nlpp}

    def _target(self, data: Data) -> Integers:
        return encode_with(self.classes, data.y_test, data.name)[0]


def reject_curves(rows: Mapping[str, Any]) -> dict[str, tuple[Doubles, Doubles]]:
    """Return the shares rejected, and the means over the remaining rows, by metric.

    As in Rasmussen & Williams (2006), figure 3.10. The baseline of the information is the same
    whatever is rejected: the label shares on all test rows.
    """
    names = {"test error %": "wrong", "test information bits": "information"}
    certainty = np.asarray(rows["certainty"])
    return {what: rejecting(certainty, np.asarray(rows[name])) for what, name in names.items()}


def of_nlpp(nlpp: float) -> dict[str, float]:
    """Return the metrics that follow from the NLPP."""
    p = math.exp(-nlpp)
    return {"test NLPP": nlpp, "test probability": p, "test log likelihood": -nlpp}


def of_record(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a record of the learning curve."""
    n, seconds = record["n_active"], record["seconds"]
    found = {"n_active": n, "selection, seconds": seconds, "ms an inclusion": 1e3 * seconds / n}
    if record.get("heldout_error") is not None:
        found["test error %"] = 100.0 * record["heldout_error"]
    if record.get("heldout_mse") is not None:
        found["test MSE"] = record["heldout_mse"]
    if record.get("heldout_nlpp") is not None:
        found |= of_nlpp(record["heldout_nlpp"])
        found["test log likelihood, uncalibrated"] = -record["heldout_nlpp"]
    return found
