"""Class probabilities from models that each tell one class from all others."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from sparsegp.errors import DataError
from sparsegp.types import Doubles


def combine(log_probabilities: ArrayLike) -> Doubles:
    """Return the log probabilities of K classes, (n, K): those given, normalised row by row.

    The class of the greatest one is that of the surest model, which is how Seeger, Lawrence &
    Herbrich (2006, section 6.5) combine c-against-rest models. scikit-learn's
    ``OneVsRestClassifier`` normalises in the same way.

    Parameters
    ----------
    log_probabilities : array (n, K)
        Log probability of class k by the model that tells class k from the rest.

    Raises
    ------
    DataError
        If the shape is another one, or a value is no log probability, or every model is sure that
        a row is not of its class.
    """
    logs = np.asarray(log_probabilities, dtype=np.float64)
    if logs.ndim != 2 or logs.shape[1] < 2:
        raise DataError(
            "log probabilities must be (n, K), with a column for each of at least two classes; "
            f"their shape is {logs.shape}"
        )
    bad = ~(logs <= 0.0).all(axis=1) | np.isneginf(logs).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"log probabilities must not exceed 0, nor be -inf throughout; row {row} has "
            f"{logs[row].tolist()}"
        )
    return np.asarray(log_softmax(logs, axis=1))
