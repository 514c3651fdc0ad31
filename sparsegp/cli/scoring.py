"""Rows through a model, batch by batch: the inputs need not fit into memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsegp.cli.output import percent, plural
from sparsegp.data import Dataset, Table, encode_with, open_dataset, summarise
from sparsegp.data.numbers import as_numbers
from sparsegp.model import Model
from sparsegp.report.metrics import Evaluation
from sparsegp.report.metrics import evaluate as compare
from sparsegp.report.regression import RegressionEvaluation, evaluate_regression


def test_part(dataset: Dataset) -> Table:
    """Return the test rows where the data set has some, else its only rows."""
    return dataset.test or dataset.train


def open_for(model: Model, source: str, label_column: str | None) -> Table:
    """Open the rows that a model is asked about, and check that their values are finite.

    Raises
    ------
    DataError
        If they cannot be read, or do not fit the model.
    """
    dataset = open_dataset(source, label_column=label_column, n_features=model.n_features)
    table = test_part(dataset)
    summarise(table.X, table.source)
    return table


def batches(table: Table) -> Iterator[tuple[int, Any]]:
    """Yield the first row number and the inputs of one chunk after another."""
    first = 0
    blocks: Any = table.X.blocks
    for index in range(table.X.numblocks[0]):
        X = np.asarray(blocks[index].compute(scheduler="synchronous"))
        yield first, X
        first += len(X)


def score(model: Model, table: Table) -> tuple[Evaluation | RegressionEvaluation, list[Any]]:
    """Compare the predictions of a model with the labels of a table.

    Returns
    -------
    evaluation : Evaluation or RegressionEvaluation
    unseen : list
        Labels that the model does not know; they count as errors.

    Raises
    ------
    DataError
        If there are no labels.
    """
    if model.is_regression:
        y = as_numbers(table.y, table.source)
        pairs = [model.predictive_mean_and_variance(X) for _, X in batches(table)]
        mean, variance = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        return evaluate_regression(mean, variance, y), []
    codes, unseen = encode_with(model.classes, table.y, table.source)
    logs = [model.predict_log_proba(X) for _, X in batches(table)]
    return compare(np.concatenate(logs), codes, model.classes), unseen


def figures(evaluation: Evaluation | RegressionEvaluation) -> list[tuple[str, str]]:
    """Return the figures of an evaluation in words."""
    if isinstance(evaluation, RegressionEvaluation):
        return [
            ("rows", f"{evaluation.n}"),
            ("mse", f"{evaluation.mse:.5g}"),
            ("r2", f"{evaluation.r2:.4f}"),
            ("nlpp", f"{evaluation.nlpp:.4f} nats"),
            ("coverage", f"{percent(evaluation.coverage)} of the 95 % intervals"),
        ]
    rows = f"{evaluation.n}"
    if evaluation.n_unseen:
        rows += f", of them {evaluation.n_unseen} with labels that the model does not know"
    wrong = round(evaluation.error * evaluation.n)
    return [
        ("rows", rows),
        ("error", f"{percent(evaluation.error)} ({plural(wrong, 'row')})"),
        ("nlpp", f"{evaluation.nlpp:.4f} nats"),
        ("brier", f"{evaluation.brier:.4f}"),
        ("ece", f"{evaluation.ece:.4f}"),
    ]
