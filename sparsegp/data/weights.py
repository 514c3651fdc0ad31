"""Weights of rows and of classes, and labels with probabilities.

A row of weight w stands for w copies: its log likelihood is multiplied by w. See copies.py for
copies in the data.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparsegp.data.blocks import from_memory
from sparsegp.data.labels import encode, plain_text
from sparsegp.data.table import WEIGHTS, Table, as_table
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.lists import pairs_in
from sparsegp.types import Doubles, Integers

BALANCED = "balanced"
MIN_SHARE = 0.01
"""Classes with a smaller probability, and one below 1 / K, are dropped from a soft label."""


def class_weights(text: str) -> dict[str, float]:
    """Parse the weights of classes, "a=2,b=0.5" or JSON; the keys are labels as text.

    A label with a comma must be in double quotes.

    Raises
    ------
    SettingsError
        If the text cannot be parsed, names a label twice, or a weight is out of range.
    """
    pairs = {} if text.startswith("{") else pairs_in(text)
    try:
        found = pairs or json.loads(text)
        weights = {str(label): float(weight) for label, weight in found.items()}
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError):
        weights = {"": -1.0}
    low, high = WEIGHTS
    within = (weight == 0.0 or low <= weight <= high for weight in weights.values())
    if not all(weights) or not all(within):
        raise SettingsError(
            f"class_weight must be {BALANCED} or labels with weights that are 0, or from {low:g} "
            f"to {high:g}, such as a=2,b=0.5, got {quoted(text)}"
        )
    return weights


def class_weight_text(given: Any) -> Any:
    """Convert a mapping, or series, of weights by labels to text; return anything else as it is."""
    if not hasattr(given, "items"):
        return given
    plain = {plain_text(label): weight for label, weight in given.items()}
    try:
        return json.dumps({label: float(weight) for label, weight in plain.items()})
    except (OverflowError, TypeError, ValueError):
        return json.dumps(plain, default=str)  # refused by `class_weights`


def weighted(table: Table, class_weight: str = "") -> tuple[Table, Doubles, Doubles]:
    """Return the rows of positive weight, their weights, and factors for their classes, (n,) each.

    Parameters
    ----------
    table : Table
        With labels; without weights, each row has weight one.
    class_weight : str
        "balanced", which gives all classes the same total weight; or a text for `class_weights`,
        whose numbers multiply the weights of the rows of each class (1 for classes left out).

    Raises
    ------
    DataError, SettingsError
        If weights or labels cannot be used.
    """
    table, counts = _positive(table, table.counts)
    factors = np.ones_like(counts)
    if class_weight:
        factors = _of_classes(table, counts, class_weight)
        counts = counts[factors > 0.0]
        table, factors = _positive(table, factors)
    return table, counts, factors


def soft_labels(
    X: Any, P: ArrayLike, classes: ArrayLike | None = None, sample_weight: Any = None
) -> Table:
    """Return a table whose rows have class probabilities instead of a label.

    A row with probabilities p_k becomes one row per class k, with weight p_k. Classes with less
    than 1 %, or 1 / K if K > 100, are dropped, and the others rescaled to the weight of the row.
    A model can thus be trained on the predictions of another one (distillation), which should be
    made for rows that the other one was not trained on.

    Parameters
    ----------
    X : array-like (n, p)
        Inputs.
    P : array-like (n, K)
        Probabilities.
    classes : array-like (K,), optional
        Class labels; by default 0 to K - 1.
    sample_weight : array-like (n,), optional
        Weights of the rows.

    Raises
    ------
    DataError
        If probabilities are negative or not finite, or their shape does not match rows and classes.
    """
    share = np.array(P, dtype=np.float64, ndmin=1)
    labels = np.arange(share.shape[-1]) if classes is None else np.asarray(classes)
    if share.ndim != 2 or labels.shape != share.shape[1:] or len(labels) < 2:
        raise DataError(
            "soft labels must be probabilities (n, K) with K labels, two or more, got shapes "
            f"{share.shape} and {labels.shape}"
        )
    given = as_table(X, np.zeros(len(share)), sample_weight)
    bad = ~((share >= 0.0) & (share < np.inf)).all(axis=1) | ~(share.sum(axis=1) > 0.0)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            "probabilities must be finite and not negative, and not all zero in a row, got "
            f"{share[row].tolist()} in row {row}"
        )
    share = share / share.sum(axis=1, keepdims=True)
    share[share < min(MIN_SHARE, 1.0 / len(labels))] = 0.0
    share /= share.sum(axis=1, keepdims=True)
    table = replace(given, classes=labels).learnt(is_regression=False, shares=share)
    if table.weights is not None:
        share *= table.weights[:, np.newaxis]
    rows, codes = np.nonzero(share)
    kept = None if given.frame is None else given.frame.take(rows)
    probable = taken(table, rows)
    known = {"y": labels[codes], "weights": share[rows, codes], "classes": None}
    return replace(probable, frame=kept, **known)


def without_weights(table: Table, column: str) -> Table:
    """Use a column, given by name or number, as row weights instead of as an input.

    Raises
    ------
    DataError
        If there is no such column, or its values are not weights.
    """
    names, p = table.names, table.X.shape[1]
    known = [*(names or map(str, range(p)))]
    if column not in known or p == 1:
        unnamed = ", which have no names" if names is None else ""
        raise DataError(
            f"weight_column must be one of {p} input columns of {table.source}{unnamed}, and not "
            f"the only one, got {quoted(column)}"
        )
    place = known.index(column)
    rows = table.columns([number for number in range(p) if number != place])
    try:
        weights = np.asarray(table.columns([place]).X)[:, 0]
        return replace(rows, weights=weights, weight_column=column)
    except DataError as error:
        raise DataError(
            f"column {quoted(column)} cannot be weights: {error}; or give another weight_column"
        ) from None


def _of_classes(table: Table, weights: Doubles, class_weight: str) -> Doubles:
    """Return the weight factor of each row by its label, (n,)."""
    classes, codes = encode(table.y, table.source)
    if class_weight == BALANCED:
        total = np.bincount(codes, weights)
        return np.asarray((total.sum() / (len(classes) * total))[codes])
    wanted, known = class_weights(class_weight), [str(label) for label in classes.tolist()]
    if unknown := sorted(wanted.keys() - known):
        raise SettingsError(
            f"class_weight must name classes of the rows; {table.source} has no label "
            f"{quoted(unknown[0])}: leave it out"
        )
    return np.array([wanted.get(label, 1.0) for label in known])[codes]


def _positive(table: Table, weights: Doubles) -> tuple[Table, Doubles]:
    """Return the rows of positive weight, and these weights."""
    kept = np.flatnonzero(weights > 0.0)
    if len(kept) == len(weights):
        return table, weights
    if not len(kept):
        raise DataError(f"weights must not be zero in all rows; those of {table.source} are")
    source = f"{table.source}, rows of weight above zero"
    return replace(taken(table, kept), source=source), weights[kept]


def taken(table: Table, rows: Integers, scheduler: Any = None) -> Table:
    """Return some rows of a table, without weights but with their row numbers in the source."""
    if np.array_equal(rows, np.arange(len(table.X))):
        return table
    X, ordered = table.X, bool((np.diff(rows) >= 0).all())
    return replace(
        table,
        X=X[rows] if ordered else from_memory(X.compute(scheduler=scheduler)[rows], table.source),
        y=None if table.y is None else table.y[rows],
        origin=None if table.origin is None else table.origin[rows],
        weights=None,
        rows=rows if table.rows is None else table.rows[rows],
    )
