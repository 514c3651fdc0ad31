"""How good predicted means and variances are: squared error, log density, coverage."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.metrics import mean_squared_error, r2_score

from sparsegp.errors import DataError
from sparsegp.types import Doubles

INTERVAL = 0.95
"""Central probability of the interval whose coverage is told."""


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
        1 - mse / variance of the labels; NaN for one row.
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
        """Plain numbers; what is not finite is None."""
        return {
            name: value if math.isfinite(value) else None for name, value in asdict(self).items()
        }


def evaluate_regression(mean: Doubles, variance: Doubles, y: Doubles) -> RegressionEvaluation:
    """Compare predictive means and variances (n,), noise included, with labels (n,).

    Raises
    ------
    DataError
        If there are no rows.
    """
    if not len(y):
        raise DataError("an evaluation needs at least one row; got none")
    spread = np.sqrt(variance)
    inside = np.abs(y - mean) <= norm.ppf(0.5 + INTERVAL / 2) * spread
    return RegressionEvaluation(
        n=len(y),
        mse=float(mean_squared_error(y, mean)),
        r2=float(r2_score(y, mean)) if len(y) > 1 else math.nan,
        nlpp=-float(np.mean(norm.logpdf(y, mean, spread))),
        coverage=float(inside.mean()),
    )
