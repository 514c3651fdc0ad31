"""How well one of two classes is found: AUC, average precision, precision and recall.

All figures are those of scikit-learn. A row whose label training has not seen is not of the class.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.errors import SettingsError, quoted
from sparsegp.report.metrics import finite
from sparsegp.types import Booleans, Doubles, Integers, Labels


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """Figures of n rows, each of the positive class or not.

    Parameters
    ----------
    positive : int or str or bool
        Its label.
    threshold : float
        Probability from which on a row is taken for positive.
    auc : float
        Area under the ROC curve; NaN where all rows are of one class.
    average_precision : float
        NaN where no row is positive.
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
    positive: str | None = None,
    threshold: float = 0.5,
) -> TwoClasses:
    """Compare the probabilities of one of two classes with the true labels.

    Parameters
    ----------
    log_probabilities : Doubles (n, 2)
    codes : Integers (n,)
        True classes, -1 for a label that was not seen in training.
    classes : Labels (2,)
    positive : str, optional
        The label of the positive class as a text; the last if left out.
    threshold : float

    Raises
    ------
    SettingsError
        If there is no such label, or the threshold is no probability.
    """
    from sklearn import metrics

    names = [str(label) for label in classes.tolist()]
    if positive is not None and positive not in names:
        raise SettingsError(
            f"the positive class must be {' or '.join(names)}, got {quoted(positive)}"
        )
    if not 0.0 <= threshold <= 1.0:
        raise SettingsError(f"the threshold must be from 0 to 1, got {threshold:g}")
    code = len(names) - 1 if positive is None else names.index(positive)
    p, truth = np.exp(log_probabilities[:, code]), codes == code
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        truth, p >= threshold, average="binary", zero_division=0.0
    )
    some, other = bool(truth.any()), bool((~truth).any())
    return TwoClasses(
        positive=classes[code].item(),
        threshold=threshold,
        auc=float(metrics.roc_auc_score(truth, p)) if some and other else math.nan,
        average_precision=float(metrics.average_precision_score(truth, p)) if some else math.nan,
        precision=float(precision),
        recall=float(recall),
        f1=float(f1),
        probability=p,
        is_positive=truth,
    )
