"""How well one of two classes is found, by the figures of scikit-learn."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.errors import SettingsError, quoted
from sparsegp.report.metrics import finite
from sparsegp.types import Booleans, Doubles, Integers, Labels


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
