"""Metrics of predictions: error, NLPP, Brier score, calibration; mean squared error.

Error, Brier score, confusion, r2 and the metrics of a positive class are those of scikit-learn.
Unlike there, log probabilities are not clipped, and bins of the calibration error include their
upper end.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.math.normal import LOG_PEAK
from sparsegp.types import Booleans, Doubles, Integers, Labels

CALIBRATION_BINS = 15
"""Number of bins of equal width in which confidence is compared with accuracy."""
INTERVAL = 0.95
"""Probability of the central interval whose coverage is reported."""


@dataclass(frozen=True, eq=False)
class Metrics:
    """Metrics whose `repr` and JSON leave out the values of single rows."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; numbers that are not finite become None."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.repr}
        return {name: _plain(value) for name, value in shown.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a number, text or array as JSON, which cannot hold numbers that are not finite."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation(Metrics):
    """Metrics of n predictions for K classes; y is the true code, p the probabilities of a row.

    If rows have weights, means, fractions and confusion are weighted. A label that was not seen in
    training has no probability: its rows count as errors and as wrong in `ece`, and are left out of
    `nlpp`, `brier` and `confusion`.

    Parameters
    ----------
    n, n_unseen : int
        Number of rows, and of those whose label was not seen in training.
    error : float
        Fraction of rows whose most probable class, the first one if tied, is not the true one.
    nlpp : float
        Mean of -log p[y] in nats; NaN if no row has a seen label.
    brier : float
        Mean of sum_k (p[k] - [k = y])^2, from 0 to 2, also for two classes: scikit-learn's
        ``brier_score_loss(..., scale_by_half=False)``. NaN if no row has a seen label.
    ece : float
        Expected calibration error, from 0 to 1: sum over 15 equal bins (low, high] of the greatest
        probability, of ``|number of right rows - sum of greatest probabilities| / n``.
    ece_by_chance : float
        Expected value of `ece` for as many rows if the greatest probabilities are true.
    weight : float, optional
        Sum of the weights, if rows have any.
    confusion : array (K, K)
        Number of rows by true class (down) and most probable class (across).
    classes : array (K,)
        The labels, in the order of the codes.
    precision, recall : array (K,)
        Fraction of right rows among those predicted as each class, and among those of each class;
        NaN without any.
    confidence : array (n,)
        Greatest probability of each row.
    right : array (n,)
        Whether the most probable class is the true one.
    """

    n: int
    n_unseen: int
    error: float
    nlpp: float
    brier: float
    ece: float
    ece_by_chance: float
    weight: float | None = None
    confusion: Integers | Doubles
    classes: Labels
    precision: Doubles
    recall: Doubles
    confidence: Doubles = field(repr=False)
    right: Booleans = field(repr=False)


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
        Row weights.

    Returns
    -------
    Evaluation

    Raises
    ------
    DataError
        If there are no rows, or all weights are zero.
    """
    logs = np.asarray(log_probabilities, dtype=np.float64)
    codes, classes = np.asarray(codes), np.asarray(classes)
    probabilities, chosen, seen = np.exp(logs), logs.argmax(axis=1), codes >= 0
    right, confidence = chosen == codes, probabilities.max(axis=1)
    own, count = codes[seen].astype(np.int64), len(classes)
    of_seen = None if weights is None else weights[seen]
    pairs = np.bincount(own * count + chosen[seen], of_seen, minlength=count**2)
    confusion = pairs.reshape(count, count)
    nlpp = brier = math.nan
    if len(own) and (of_seen is None or of_seen.any()):
        nlpp = -_mean(logs[seen, own], of_seen)
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
        weight=None if weights is None else float(weights.sum()),
        confusion=confusion,
        classes=classes,
        precision=_shares(np.diag(confusion), confusion.sum(axis=0)),
        recall=_shares(np.diag(confusion), confusion.sum(axis=1)),
        confidence=confidence,
        right=right,
    )


def _shares(some: NDArray[Any], of: NDArray[Any]) -> Doubles:
    return np.asarray(np.divide(some, of, out=np.full(len(of), math.nan), where=of > 0))


def _mean(values: Any, weights: Doubles | None) -> float:
    if not len(values):
        raise DataError("an evaluation needs at least one row; got none")
    try:
        return float(np.average(values, weights=weights))
    except ZeroDivisionError:
        raise DataError(
            "an evaluation needs a row of weight above zero; all weigh nothing"
        ) from None


def reliability(
    confidence: Doubles, right: Booleans, weights: Doubles | None = None
) -> tuple[Integers | Doubles, Doubles, Doubles]:
    """Compare confidence (n,) with accuracy, by bins (low, high] of equal width.

    `right` (n,) tells which rows are predicted correctly.

    Returns
    -------
    counts : array (CALIBRATION_BINS,)
        Number of rows in each bin, or sum of their weights.
    confidence, accuracy : Doubles (CALIBRATION_BINS,)
        Mean confidence and fraction of right rows in each bin; NaN if it is empty.
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
    """Return the mean absolute difference of confidence and accuracy by bins; see `reliability`."""
    counts, mean, accuracy = reliability(confidence, right, weights)
    return float(np.nansum(counts * np.abs(accuracy - mean)) / counts.sum())


def chance_error(confidence: Doubles, weights: Doubles | None = None) -> float:
    """Return the expected `calibration_error` if confidence (n,) is the probability of being right.

    The number of right rows in a bin is approximated as normal, so that its mean absolute deviation
    is sqrt(2 / pi) standard deviations.
    """
    w = np.ones(len(confidence)) if weights is None else weights
    spread = w**2 * confidence * (1.0 - confidence)
    variances = np.bincount(_bins(confidence), np.maximum(spread, 0.0))
    return float(np.sqrt(2.0 / np.pi * variances).sum() / w.sum())


def _bins(confidence: Doubles) -> Integers:
    bins = np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1
    return bins.clip(0, CALIBRATION_BINS - 1)


def rejecting(certainty: Doubles, values: Doubles) -> tuple[Doubles, Doubles]:
    """Reject rows in the order of their certainty, and average values over the rows kept.

    Parameters
    ----------
    certainty : array (n,)
        The least certain rows are rejected first, ties together.
    values : array (n,)

    Returns
    -------
    rejected : array (m,)
        Fractions of rows rejected, from 0 to less than 1.
    means : array (m,)
        Mean value of the rows kept.
    """
    order = np.argsort(certainty, kind="stable")
    kept = np.arange(len(order), 0, -1)
    sums = np.cumsum(values[order][::-1])[::-1]
    first = np.diff(certainty[order], prepend=-np.inf) > 0
    return 1.0 - kept[first] / len(order), sums[first] / kept[first]


@dataclass(frozen=True, eq=False)
class TwoClasses(Metrics):
    """Metrics of n rows for a positive class; labels not seen in training count as negative."""

    positive: Any  # its label
    threshold: float  # smallest probability at which a row is predicted positive
    auc: float  # NaN if there are no positive rows, or no negative ones
    average_precision: float  # NaN if there are no positive rows
    precision: float  # at the threshold, as the next two are; 0 where undefined
    recall: float
    f1: float
    probability: Doubles = field(repr=False)  # of the positive class, (n,)
    is_positive: Booleans = field(repr=False)


def evaluate_two_classes(
    log_probabilities: Doubles,
    codes: Integers,
    classes: Labels,
    weights: Doubles | None = None,
    positive: str | None = None,
    threshold: float = 0.5,
) -> TwoClasses:
    """Compare the log probabilities (n, 2) of two classes with the true ones, codes (n,).

    Rows may have weights (n,).

    Raises
    ------
    SettingsError
        If the positive class is not one of the two, or the threshold is not a probability.
    """
    from sklearn import metrics

    names = [str(label) for label in classes.tolist()]
    positive = names[-1] if positive is None else positive
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
class RegressionEvaluation(Metrics):
    """Metrics of n predicted normal distributions.

    Parameters
    ----------
    n : int
        Number of rows.
    mse : float
        Mean squared error of the means, in squared units of the targets.
    r2 : float
        1 - mse / variance of the targets; NaN if that is zero.
    nlpp : float
        Mean negative log predictive density, in nats.
    coverage : float
        Fraction of the targets inside the central intervals of probability 0.95.
    """

    n: int
    mse: float
    r2: float
    nlpp: float
    coverage: float


def evaluate_regression(
    mean: Doubles, variance: Doubles, y: Doubles, weights: Doubles | None = None
) -> RegressionEvaluation:
    """Compare predictions with targets.

    Parameters
    ----------
    mean, variance : Doubles (n,)
        Of the predictive distributions, noise included.
    y : Doubles (n,)
        Targets.
    weights : Doubles (n,), optional
        Row weights.

    Raises
    ------
    DataError
        If there are no rows, or all weights are zero.
    """
    spread, mse = np.sqrt(variance), _mean(np.square(y - mean), weights)
    total = _mean(np.square(y - _mean(y, weights)), weights)
    return RegressionEvaluation(
        n=len(y),
        mse=mse,
        r2=1.0 - mse / total if total else math.nan,
        nlpp=_mean(np.square((y - mean) / spread) / 2 + np.log(spread) - LOG_PEAK, weights),
        coverage=_mean(np.abs(y - mean) <= ndtri(0.5 + INTERVAL / 2) * spread, weights),
    )
