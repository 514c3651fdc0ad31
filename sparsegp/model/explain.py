"""Why a row is predicted as it is: active rows that speak for it, columns that would move it.

The difference of the latent means of two classes is a sum over active rows,

    f_a(x) - f_b(x) = sum_i k(x, x_i) (w_ia - w_ib)

whose terms are what each of them contributes. Its slope along a column, times the standard
deviation of that column, is what the difference moves by where the value changes so much: the
*effect* of the column. With one latent value in all, it or its negative is that difference.
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
    """What an active row contributes.

    Attributes
    ----------
    row : int
        Its number in the training data.
    label : int or str or bool
    contribution : float
        To the difference of the latent means.
    share : float
        Of the absolute values of all contributions, which may be large and cancel; negative where
        it speaks for the rival.
    place : int
        Among the active rows, in order of inclusion.
    """

    row: int
    label: Any
    contribution: float
    share: float
    place: int


@dataclass(frozen=True)
class Effect:
    """What a column would move.

    Attributes
    ----------
    column : str
        Its name, or its number.
    value : float
        Of the row, before scaling.
    effect : float
        Slope of the difference of the latent means times the standard deviation of the column.
    """

    column: str
    value: float
    effect: float


@dataclass(frozen=True)
class Explanation:
    """Why one row is predicted as it is.

    Attributes
    ----------
    predicted, rival : int or str or bool
        Labels of the most and of the second most probable class.
    probability, rival_probability : float
    difference : float
        Of their latent means, the sum of the contributions of all active rows.
    supporting, opposing : tuple of Term
        Active rows that speak most for the predicted class, and for the rival.
    columns : tuple of Effect
        The largest first.
    effects : Doubles (p,)
        Of all columns.
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
    """Return an explanation for every row; see `SparseModel.explain`."""
    if model.is_regression:
        raise SettingsError("a regression has no classes to explain; use a classifier")
    if most < 1:
        raise SettingsError(f"most must be at least 1, got {most}")
    inputs = np.asarray(map_rows(model, "_inputs", X, model.n_features))
    logs = model.predict_log_proba(inputs)
    with single_threaded_blas():
        return list(_explanations(model, inputs, logs, most))


def _explanations(
    model: "SparseModel", inputs: Doubles, logs: Doubles, most: int
) -> Iterator[Explanation]:
    names = model.names or [str(number) for number in range(model.n_features)]
    deviations, labels = model.deviations, model.classes[model.active.target]
    for values, x, log_p in zip(inputs, model._scaled(inputs), logs, strict=True):
        predicted, rival = np.argsort(-log_p, kind="stable")[:2]
        parts, slopes = difference(model, x, predicted, rival)
        effects, total = slopes * deviations, float(np.abs(parts).sum()) or 1.0
        terms = [
            Term(int(row), label.item(), float(part), float(part) / total, place)
            for place, (row, label, part) in enumerate(zip(model.rows, labels, parts, strict=True))
        ]
        order = np.argsort(-parts, kind="stable")
        leading = np.argsort(-np.abs(effects), kind="stable")[:most]
        yield Explanation(
            predicted=model.classes[predicted].item(),
            rival=model.classes[rival].item(),
            probability=float(np.exp(log_p[predicted])),
            rival_probability=float(np.exp(log_p[rival])),
            difference=float(parts.sum()),
            supporting=tuple(terms[i] for i in order[:most] if parts[i] > 0.0),
            opposing=tuple(terms[i] for i in order[::-1][:most] if parts[i] < 0.0),
            columns=tuple(Effect(names[j], float(values[j]), float(effects[j])) for j in leading),
            effects=effects,
        )


def difference(
    model: "SparseModel", x: Doubles, predicted: int, rival: int
) -> tuple[Doubles, Doubles]:
    """Return the terms of the difference of two latent means at a row, (d,), and its slopes, (p,).

    Parameters
    ----------
    model : SparseModel
    x : Doubles (p,)
        Scaled; slopes are along scaled columns, before a metric mixes them.
    predicted, rival : int
        Codes of the classes.
    """
    direction = np.zeros(model.n_latent)
    if model.n_latent == 1:
        direction[0] = 1.0 if predicted > rival else -1.0
    else:
        direction[predicted], direction[rival] = 1.0, -1.0
    active, posterior, row = model.active, model.posterior, x[np.newaxis]
    terms, slopes = np.zeros(len(active.x)), np.zeros(len(x))
    for c, (members, columns) in enumerate(zip(active.members(), active.columns(), strict=True)):
        kernel, own = posterior.kernels[c], posterior.x[c]
        weights = posterior.weights[c] @ direction[columns]
        terms[members] += np.asarray(kernel(row, own))[0] * weights
        slopes += kernel.slopes(row, own, weights[:, np.newaxis])[0, 0]
    mixing = model.scaling.mixing
    return terms, slopes if mixing is None else mixing @ slopes
