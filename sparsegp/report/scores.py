"""Evaluation of a model on labelled rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparsegp.data import Table, as_numbers, as_table, known_codes
from sparsegp.fields import model_of
from sparsegp.model import Model
from sparsegp.progress import Progress, watched
from sparsegp.report import metrics
from sparsegp.report.metrics import Evaluation, RegressionEvaluation


def evaluate(
    model: Any, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> Evaluation | RegressionEvaluation:
    """Measure how well a model predicts rows with labels, as `sparsegp evaluate` does.

    Parameters
    ----------
    model : Model or fitted estimator
    X : array-like (n, p), data frame or Table
        Inputs.
    y : array-like (n,), optional
        Their labels, unless X is a table that has them. Labels that did not occur in training
        count as errors, with a warning.
    sample_weight : array-like (n,), optional
        Row weights.

    Returns
    -------
    Evaluation or RegressionEvaluation

    Raises
    ------
    DataError
        If there are no labels, the model knows none of them, or rows do not fit the model.
    """
    return score(model_of(model), as_table(X, y, sample_weight))[0]


def score(
    model: Model, table: Table, progress: Progress | None = None
) -> tuple[Evaluation | RegressionEvaluation, list[Any], Any, Any]:
    """Compare the predictions of a model with the labels of a table; see `evaluate`.

    Returns
    -------
    evaluation : Evaluation or RegressionEvaluation
    unseen : list
        Labels that the model does not know; they count as errors.
    logs : Doubles (n, K)
        Log probabilities; None in a regression.
    codes : Integers (n,)
        True classes, -1 for unseen labels; None in a regression.
    """
    table = table.encoded_for(model)
    batches = watched(table.batches(), progress or Progress(), len(table.X), "evaluate")
    if model.numbers is not None:
        y = as_numbers(table.y, table.source, model.numbers.form)
        moments = [model.predictive_mean_and_variance(X) for X, _ in batches]
        mean, variance = (np.concatenate(parts) for parts in zip(*moments, strict=True))
        return metrics.evaluate_regression(mean, variance, y, table.weights), [], None, None
    codes, unseen = known_codes(model.classes, table.y, table.source)
    logs = np.concatenate([model.predict_log_proba(X) for X, _ in batches])
    return metrics.evaluate(logs, codes, model.classes, table.weights), unseen, logs, codes
