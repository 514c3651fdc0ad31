"""Explanations of predictions: contributions of active rows, effects of columns.

The difference of the latent means of two classes is a sum over active rows,

    f_a(x) - f_b(x) = sum_i k(x, x_i) (w_ia - w_ib)

whose terms are their *contributions*. Its slope along a column, times the standard deviation of the
column, is to first order the change of the difference when the value changes by one standard
deviation: the *effect* of the column. A single latent value, or its negative, is that difference.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.blas import single_threaded_blas
from sparsegp.errors import SettingsError
from sparsegp.model.rows import map_rows
from sparsegp.types import Doubles

if TYPE_CHECKING:
    from sparsegp.model.sparse import SparseModel


@dataclass(frozen=True)
class Term:
    """Contribution of an active row, with its number in the training data and its label.

    `share` is the contribution divided by the sum of the absolute values of all contributions,
    which may be large and cancel; `place` is the position among the active rows.
    """

    row: int
    label: Any
    contribution: float
    share: float
    place: int


@dataclass(frozen=True)
class Effect:
    """Effect of a column, given by name or number; `value` is before scaling."""

    column: str
    value: float
    effect: float


@dataclass(frozen=True)
class Explanation:
    """Explanation of the prediction of one row.

    Attributes
    ----------
    predicted, rival : int or str or bool
        Labels of the most and the second most probable class.
    probability, rival_probability : float
    difference : float
        Difference of their latent means: the sum of the contributions of all active rows.
    supporting, opposing : tuple of Term
        Active rows that contribute most to the predicted class, and to the rival.
    columns : tuple of Effect
        Columns with the largest effects in absolute value, in descending order.
    effects : Doubles (p,)
        Effects of all columns.
    """

    predicted: Any
    rival: Any
    probability: float
    rival_probability: float
    difference: float
    supporting: tuple[Term, ...]
    opposing: tuple[Term, ...]
    columns: tuple[Effect, ...]
    effects: Doubles

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without `effects`."""
        return {name: value for name, value in asdict(self).items() if name != "effects"}


def explain(model: "SparseModel", X: Any, most: int) -> list[Explanation]:
    """Return an explanation for every row; see `Model.explain`."""
    if model.is_regression:
        raise SettingsError("explanations are for classifiers; got a regression")
    if most < 1:
        raise SettingsError(f"`most` must be at least 1, got {most}")
    inputs = np.asarray(map_rows(model, "_inputs", X, model.n_features))
    logs = model.predict_log_proba(inputs)
    with single_threaded_blas():
        return list(_explanations(model, inputs, logs, most))


def _explanations(
    model: "SparseModel", inputs: Doubles, logs: Doubles, most: int
) -> Iterator[Explanation]:
    names = model.names or [str(number) for number in range(model.n_features)]
    classes, deviations, scaled = model.classes.tolist(), model.deviations, model._scaled(inputs)
    labels = [classes[code] for code in model.active.target]
    for values, x, log_p in zip(inputs, scaled, logs, strict=True):
        a, b = np.argsort(-log_p, kind="stable")[:2]
        parts, slopes = difference(model, x, a, b)
        shares = (parts / (np.abs(parts).sum() or 1.0)).tolist()
        columns = (model.rows.tolist(), labels, parts.tolist(), shares, range(len(parts)))
        terms, effects = list(map(Term, *columns)), slopes * deviations
        order = np.argsort(-parts, kind="stable")
        leading = np.argsort(-np.abs(effects), kind="stable")[:most]
        yield Explanation(
            predicted=classes[a],
            rival=classes[b],
            probability=float(np.exp(log_p[a])),
            rival_probability=float(np.exp(log_p[b])),
            difference=float(parts.sum()),
            supporting=tuple(terms[i] for i in order[:most] if parts[i] > 0.0),
            opposing=tuple(terms[i] for i in order[::-1][:most] if parts[i] < 0.0),
            columns=tuple(Effect(names[j], float(values[j]), float(effects[j])) for j in leading),
            effects=effects,
        )


def difference(model: "SparseModel", x: Doubles, a: int, b: int) -> tuple[Doubles, Doubles]:
    """Return the terms of f_a - f_b, (d,), and its slopes, (p,), at a scaled row x (p,).

    Slopes are along scaled columns, before a metric mixes them.
    """
    direction = np.zeros(model.n_latent)
    if model.n_latent == 1:
        direction[0] = 1.0 if a > b else -1.0
    else:
        direction[a], direction[b] = 1.0, -1.0
    active, posterior, row = model.active, model.posterior, x[np.newaxis]
    terms, slopes = np.zeros(len(active.x)), np.zeros(len(x))
    for c, (members, columns) in enumerate(zip(active.members(), active.columns(), strict=True)):
        kernel, own = posterior.kernels[c], posterior.x[c]
        weights = posterior.weights[c] @ direction[columns]
        terms[members] += np.asarray(kernel(row, own))[0] * weights
        slopes += kernel.slopes(row, own, weights[:, np.newaxis])[0, 0]
    mixing = model.scaling.mixing
    return terms, slopes if mixing is None else mixing @ slopes
