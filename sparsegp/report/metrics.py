"""How good predictions are: error, log probability, Brier score, calibration; squared error.

Error, Brier score, confusion, r2 and the figures of one of two classes are those of scikit-learn.
Log probabilities are not clipped, and bins of the calibration error hold their upper end, unlike
there.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.math.normal import LOG_PEAK
from sparsegp.types import Booleans, Doubles, Integers, Labels

Numbers: TypeAlias = Integers | Doubles
"""Counts of rows, or sums of their weights."""

CALIBRATION_BINS = 15
"""Bins of equal width in which confidence is compared with the share of right answers."""

INTERVAL = 0.95
"""Central probability of the interval whose coverage is reported."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures of n predictions for K classes; y is the true code, p the probabilities of a row.

    Where rows have weights, means, shares and confusion are of weights in place of rows. A label
    that was never seen in training has no probability. Its rows count as errors and as wrong
    answers in `ece`, and take no part in `nlpp`, `brier` and `confusion`.

    Parameters
    ----------
    n, n_unseen : int
        Rows, and those of them whose label was not seen in training.
    error : float
        Share of rows whose most probable class is not theirs, from 0 to 1; the first of equally
        probable classes is taken.
    nlpp : float
        Mean of -log p[y] in nats; NaN if no row has a seen label.
    brier : float
        Mean of sum_k (p[k] - [k = y])^2, from 0 to 2, for two classes also: scikit-learn's
        ``brier_score_loss(..., scale_by_half=False)``. NaN if no row has a seen label.
    ece : float
        Expected calibration error, from 0 to 1: sum over 15 equal bins (low, high] of the
        greatest probability, of |right answers - sum of greatest probabilities| / n.
    ece_by_chance : float
        What `ece` is on average, in so many rows, if the greatest probabilities are true.
    confusion : array (K, K)
        Rows by true class (down) and most probable class (across).
    classes : array (K,)
        The labels, in the order of the codes.
    confidence : array (n,)
        Greatest probability of each row.
    right : array (n,)
        Whether its class is the true one.
    weight : float, optional
        Sum of the weights of the rows, where they have any.
    """

    n: int
    n_unseen: int
    error: float
    nlpp: float
    brier: float
    ece: float
    ece_by_chance: float
    confusion: Numbers
    classes: Labels
    confidence: Doubles
    right: Booleans
    weight: float | None = None

    @property
    def precision(self) -> Doubles:
        """Share of right rows among those predicted to be of each class, (K,); NaN of none."""
        return _shares(np.diag(self.confusion), self.confusion.sum(axis=0))

    @property
    def recall(self) -> Doubles:
        """Share of right rows among those of each class, (K,); NaN of none."""
        return _shares(np.diag(self.confusion), self.confusion.sum(axis=1))

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists of classes; what is not finite is None."""
        names = ("n", "n_unseen", "error", "nlpp", "brier", "ece", "ece_by_chance")
        figures = {name: finite(getattr(self, name)) for name in names}
        figures |= {} if self.weight is None else {"weight": self.weight}
        tables = {"confusion": self.confusion.tolist(), "classes": self.classes.tolist()}
        for name in ("precision", "recall"):
            tables[name] = [finite(share) for share in getattr(self, name).tolist()]
        return figures | tables


def _shares(some: NDArray[Any], of: NDArray[Any]) -> Doubles:
    shares: Doubles = np.divide(some, of, out=np.full(len(of), math.nan), where=of > 0)
    return shares


def evaluate(
    log_probabilities: NDArray[np.floating[Any]],
    codes: Integers,
    classes: Labels,
    weights: Doubles | None = None,
) -> Evaluation:
    """Compare predictions with the true labels.

    Parameters
    ----------
    log_probabilities : array (n, K)
        Natural logarithms; the probabilities of each row sum to one.
    codes : array (n,)
        True classes from 0 to K - 1, -1 for a label that was not seen in training.
    classes : array (K,)
        The labels, in the order of the codes.
    weights : array (n,), optional
        Of the rows.

    Returns
    -------
    Evaluation

    Raises
    ------
    DataError
        If all rows weigh nothing.
    """
    logs = np.asarray(log_probabilities, dtype=np.float64)
    codes, classes = np.asarray(codes), np.asarray(classes)
    probabilities, chosen, seen = np.exp(logs), logs.argmax(axis=1), codes >= 0
    right, confidence = chosen == codes, probabilities.max(axis=1)
    own, count, of_seen = codes[seen].astype(np.int64), len(classes), None
    if weights is not None:
        _require_weight(weights)
        of_seen = weights[seen]
    pairs = np.bincount(own * count + chosen[seen], of_seen, minlength=count**2)
    nlpp = brier = math.nan
    if len(own) and (of_seen is None or of_seen.any()):
        nlpp = -_mean(np.take_along_axis(logs[seen], own[:, np.newaxis], axis=1)[:, 0], of_seen)
        squares = np.square(probabilities[seen] - np.eye(count)[own]).sum(axis=1)
        brier = _mean(squares, of_seen)
    return Evaluation(
        n=len(codes),
        n_unseen=int(np.count_nonzero(~seen)),
        error=_mean(~right, weights),
        nlpp=nlpp,
        brier=brier,
        ece=calibration_error(confidence, right, weights=weights),
        ece_by_chance=chance_error(confidence, weights),
        confusion=pairs.reshape(count, count),
        classes=classes,
        confidence=confidence,
        right=right,
        weight=None if weights is None else float(weights.sum()),
    )


def _mean(values: Any, weights: Doubles | None) -> float:
    return float(np.average(values, weights=weights))


def _require_weight(weights: Doubles) -> None:
    if not weights.any():
        raise DataError("an evaluation needs a row of weight above zero; all weigh nothing")


def reliability(
    confidence: Doubles, right: Booleans, weights: Doubles | None = None
) -> tuple[Numbers, Doubles, Doubles]:
    """Compare confidence (n,) with right answers (n,), in bins of equal width (low, high].

    Returns
    -------
    counts : array (CALIBRATION_BINS,)
        Rows in each bin, or the sum of their weights (n,).
    confidence, accuracy : Doubles (CALIBRATION_BINS,)
        Mean confidence and share of right answers in each bin; NaN where it is empty.
    """
    bins = _bins(confidence)
    counts = np.bincount(bins, weights, minlength=CALIBRATION_BINS)
    each = (confidence, right) if weights is None else (confidence * weights, right * weights)
    sums = [np.bincount(bins, one, minlength=CALIBRATION_BINS) for one in each]
    with np.errstate(invalid="ignore"):
        return counts, sums[0] / counts, sums[1] / counts


def calibration_error(
    confidence: Doubles, right: Booleans, weights: Doubles | None = None
) -> float:
    """Return the mean distance of confidence (n,) from the share of right answers (n,), by bins."""
    counts, mean, accuracy = reliability(confidence, right, weights)
    return float(np.nansum(counts * np.abs(accuracy - mean)) / counts.sum())


def chance_error(confidence: Doubles, weights: Doubles | None = None) -> float:
    """Return the mean of `calibration_error` where each confidence (n,) is the chance to be right.

    The sum of right answers in a bin is taken to be normal, and so its mean distance from what is
    expected is sqrt(2 / pi) standard deviations.
    """
    w = np.ones(len(confidence)) if weights is None else weights
    spread = w**2 * confidence * (1.0 - confidence)
    variances = np.bincount(_bins(confidence), np.maximum(spread, 0.0))
    return float(np.sqrt(2.0 / np.pi * variances).sum() / w.sum())


def _bins(confidence: Doubles) -> Integers:
    bins = np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1
    return bins.clip(0, CALIBRATION_BINS - 1)


def rejecting(certainty: Doubles, values: Doubles) -> tuple[Doubles, Doubles]:
    """Reject rows in the order of their certainty, and average over those that are kept.

    Parameters
    ----------
    certainty : array (n,)
        The least certain rows are rejected first, those of one certainty together.
    values : array (n,)

    Returns
    -------
    rejected : array (m,)
        Shares of the rows that are rejected, from 0 on, less than 1.
    means : array (m,)
        Mean value of the rows that are kept.
    """
    order = np.argsort(certainty, kind="stable")
    kept = np.arange(len(order), 0, -1)
    sums = np.cumsum(values[order][::-1])[::-1]
    first = np.diff(certainty[order], prepend=-np.inf) > 0
    return 1.0 - kept[first] / len(order), sums[first] / kept[first]


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """Figures of n rows, each of the positive class or not; a label not seen in training is not.

    Parameters
    ----------
    positive : int or str or bool
        Its label.
    threshold : float
        Probability from which on a row is taken for positive.
    auc, average_precision : float
        NaN where there are no positive rows, or (auc) no others.
    precision, recall, f1 : float
        At the threshold; 0 where they are not defined.
    probability : Doubles (n,)
        Of the positive class.
    is_positive : Booleans (n,)
    """

    positive: Any
    threshold: float
    auc: float
    average_precision: float
    precision: float
    recall: float
    f1: float
    probability: Doubles
    is_positive: Booleans

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and the label; what is not finite is None."""
        names = ("threshold", "auc", "average_precision", "precision", "recall", "f1")
        return {"positive": self.positive} | {name: finite(getattr(self, name)) for name in names}


def evaluate_two_classes(
    log_probabilities: Doubles,
    codes: Integers,
    classes: Labels,
    positive: str,
    threshold: float,
    weights: Doubles | None = None,
) -> TwoClasses:
    """Compare the probabilities (n, 2) of two classes with the true ones, codes (n,).

    Rows may have weights (n,).

    Raises
    ------
    SettingsError
        If the positive class is neither, or the threshold is no probability.
    """
    from sklearn import metrics

    names = [str(label) for label in classes.tolist()]
    if positive not in names or not 0.0 <= threshold <= 1.0:
        raise SettingsError(
            f"the positive class must be {' or '.join(names)}, and the threshold from 0 to 1; got "
            f"{quoted(positive)} and {threshold:g}"
        )
    code = names.index(positive)
    p, truth = np.exp(log_probabilities[:, code]), codes == code
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        truth, p >= threshold, average="binary", zero_division=0.0, sample_weight=weights
    )
    heard = truth if weights is None else truth[weights > 0.0]
    auc = average = math.nan
    if heard.any():
        average = float(metrics.average_precision_score(truth, p, sample_weight=weights))
        if not heard.all():
            auc = float(metrics.roc_auc_score(truth, p, sample_weight=weights))
    at_threshold = float(precision), float(recall), float(f1)
    return TwoClasses(classes[code].item(), threshold, auc, average, *at_threshold, p, truth)


@dataclass(frozen=True)
class RegressionEvaluation:
    """Figures of n predicted normal distributions.

    Parameters
    ----------
    n : int
        Rows.
    mse : float
        Mean squared error of the means, in squared units of the labels.
    r2 : float
        1 - mse / variance of the labels; NaN where that is zero.
    nlpp : float
        Mean negative log predictive density, in nats.
    coverage : float
        Share of the labels inside the central intervals of probability 0.95.
    """

    n: int
    mse: float
    r2: float
    nlpp: float
    coverage: float

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers; what is not finite is None."""
        return {name: finite(value) for name, value in asdict(self).items()}


def evaluate_regression(
    mean: Doubles, variance: Doubles, y: Doubles, weights: Doubles | None = None
) -> RegressionEvaluation:
    """Compare predictions with labels.

    Parameters
    ----------
    mean, variance : Doubles (n,)
        Of the predictive distributions, noise included.
    y : Doubles (n,)
    weights : Doubles (n,), optional
        Of the rows, in all means.

    Raises
    ------
    DataError
        If there are no rows, or all weigh nothing.
    """
    if not len(y):
        raise DataError("an evaluation needs at least one row; got none")
    if weights is not None:
        _require_weight(weights)
    spread, mse = np.sqrt(variance), _mean(np.square(y - mean), weights)
    total = _mean(np.square(y - _mean(y, weights)), weights)
    return RegressionEvaluation(
        n=len(y),
        mse=mse,
        r2=1.0 - mse / total if total else math.nan,
        nlpp=_mean(np.square((y - mean) / spread) / 2 + np.log(spread) - LOG_PEAK, weights),
        coverage=_mean(np.abs(y - mean) <= ndtri(0.5 + INTERVAL / 2) * spread, weights),
    )


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None if it is not finite."""
    return value if math.isfinite(value) else None
