"""Rows for a command: opened, and passed through a model batch by batch, as they may be many."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import numpy as np

from sparsegp.cli.output import percent, plural
from sparsegp.data import Table, as_numbers, encode_with, open_dataset, summarise
from sparsegp.errors import DataError
from sparsegp.model import Model
from sparsegp.report import Evaluation, RegressionEvaluation, evaluate, evaluate_regression

LINES = 4096
"""Of standard input that are read at a time."""
STANDARD_INPUT = "standard input"


def stem(data: str) -> str:
    """Return a name for the run on some data, from the name of its first file."""
    name = Path(data.split(",", maxsplit=1)[0].rstrip("/")).name.lower()
    return Path(name.removesuffix(".gz")).stem or "data"


def training_tables(
    data: str, test: str | None, label_column: str | None
) -> tuple[Table, Table | None]:
    """Return the training table and, where there is one, the held-out table."""
    dataset = open_dataset(data, label_column=label_column)
    if test is None:
        return dataset.train, dataset.test
    names, known = dataset.train.names, dataset.train.label
    other = open_dataset(test, label_column=label_column, names=names, known=known)
    return dataset.train, other.test or other.train


def table_for(model: Model, source: str, label_column: str | None, labels: bool = True) -> Table:
    """Return the rows for a model to predict: the test part where there is one.

    Without `labels`, those of a text or parquet file are not read.

    Raises
    ------
    DataError
        If they cannot be read, are not finite, or do not fit the model.
    """
    dataset = open_dataset(
        source,
        label_column=label_column,
        n_features=None if model.encoding else model.n_features,
        names=model.inputs,
        labels=labels,
        known=model.label,
    )
    table = for_model(model, dataset.test or dataset.train)
    summarise(table.X, table.source, names=table.names)
    return table


def for_model(model: Model, table: Table) -> Table:
    """Return the columns of a model, in its order, as it takes them."""
    return table.encoded(model.encoding).select(model.names)


def tables_from(file: TextIO, model: Model, label_column: str | None) -> Iterator[Table]:
    """Yield the rows of a text without an end, a table for every `LINES` of them.

    Raises
    ------
    DataError
        As `table_for`; lines are counted from the first one of their table.
    """
    head, first = "", list(islice(file, LINES))
    if not first:
        raise DataError(f"{STANDARD_INPUT} is empty")
    with TemporaryDirectory(prefix="sparsegp-") as folder:
        path = Path(folder, "rows.csv")
        for lines in chain([first], iter(lambda: list(islice(file, LINES)), [])):
            path.write_text("".join([head, *lines]), encoding="utf-8")
            try:
                table = table_for(model, str(path), label_column, labels=False)
            except DataError as error:
                raise DataError(str(error).replace(str(path), STANDARD_INPUT)) from None
            if not head and table.names is not None:
                head = lines[0]
            yield replace(table, source=STANDARD_INPUT)


def batches(table: Table) -> Iterator[Any]:
    """Yield the inputs of one chunk after another."""
    from dask.local import get_sync

    blocks: Any = table.X.blocks
    for index in range(table.X.numblocks[0]):
        yield np.asarray(blocks[index].compute(scheduler=get_sync))  # a name loads distributed


@dataclass(frozen=True)
class Judged:
    """Predictions for labelled rows, and how good they are.

    Attributes
    ----------
    evaluation : Evaluation or RegressionEvaluation
    unseen : list
        Labels that the model does not know; they count as errors.
    logs : Doubles (n, K), optional
        Log probabilities; none in a regression.
    codes : Integers (n,), optional
        True classes, -1 for those.
    """

    evaluation: Evaluation | RegressionEvaluation
    unseen: list[Any] = field(default_factory=list)
    logs: Any = None
    codes: Any = None


def score(model: Model, table: Table) -> Judged:
    """Compare the predictions of a model with the labels of a table.

    Raises
    ------
    DataError
        If there are no labels.
    """
    table = for_model(model, table)
    if model.is_regression:
        y = as_numbers(table.y, table.source)
        moments = [model.predictive_mean_and_variance(X) for X in batches(table)]
        mean, variance = (np.concatenate(parts) for parts in zip(*moments, strict=True))
        return Judged(evaluate_regression(mean, variance, y))
    codes, unseen = encode_with(model.classes, table.y, table.source)
    logs = np.concatenate([model.predict_log_proba(X) for X in batches(table)])
    return Judged(evaluate(logs, codes, model.classes), unseen, logs, codes)


def figures(evaluation: Evaluation | RegressionEvaluation) -> dict[str, str]:
    """Return the figures of an evaluation in words."""
    rows, nlpp = f"{evaluation.n}", f"{evaluation.nlpp:.4f} nats"
    if isinstance(evaluation, RegressionEvaluation):
        return {
            "rows": rows,
            "mse": f"{evaluation.mse:.5g}",
            "r2": f"{evaluation.r2:.4f}",
            "nlpp": nlpp,
            "coverage": f"{percent(evaluation.coverage)} of the 95 % intervals",
        }
    if unseen := evaluation.n_unseen:
        rows += f", of them {unseen} with labels that the model does not know"
    wrong = plural(round(evaluation.error * evaluation.n), "row")
    return {
        "rows": rows,
        "error": f"{percent(evaluation.error)} ({wrong})",
        "nlpp": nlpp + (f", of the {plural(evaluation.n - unseen, 'other row')}" if unseen else ""),
        "brier": f"{evaluation.brier:.4f}",
        "ece": f"{evaluation.ece:.4f}",
    }


def relevances(model: Model) -> dict[str, float]:
    """Return the relevances of the columns by name, or number, largest first; none if it has none.

    See `Model.relevances`.
    """
    found = model.relevances
    if found is None:
        return {}
    names = model.names or [str(number) for number in range(model.n_features)]
    return {names[j]: float(found[j]) for j in np.argsort(-found, kind="stable")}


def inputs(model: Model) -> list[dict[str, Any]]:
    """Return what is known of the columns of a data frame that held more than numbers.

    Relevances are those of the encoded columns together; None where the model has none.
    """
    if model.encoding is None:
        return []
    relevant, columns = model.relevances, model.encoding.columns
    shares = None
    if relevant is not None:
        shares = np.bincount(model.encoding.groups, relevant, len(columns))
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.missing,
            "levels": dict(zip(column.levels, column.counts, strict=True)),
            "rare": None if column.rare is None else len(column.rare),
            "left_out": column.note,
            "relevance": None if shares is None else float(shares[number]),
        }
        for number, column in enumerate(columns)
    ]


def validation_nlpp(model: Model) -> float | None:
    """Return that of the validation rows, as the posterior was chosen; None if there were none."""
    found = model.report.get("validation_nlpp")
    if isinstance(found, dict):  # by the scale of the prior
        found = found.get(f"{model.calibration.prior_scale:.4g}")
    return found


def facts(model: Model) -> dict[str, Any]:
    """Return what a model is, for the records of commands."""
    return {
        "settings": dict(model.settings),
        "classes": model.classes.tolist(),
        "columns": model.n_features,
        "names": list(model.names or ()),
        "label": model.label,
        "inputs": inputs(model),
        "n_active": len(model.rows),
        "kernels": [str(kernel) for kernel in model.kernels],
        "scaling": model.scaling.name,
        "validation_nlpp": validation_nlpp(model),
    }
