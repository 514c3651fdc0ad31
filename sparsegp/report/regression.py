"""How good predicted means and variances are: squared error, log density, coverage."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from sparsegp.errors import DataError
from sparsegp.types import Doubles

INTERVAL = 0.95
"""Central probability of the interval whose coverage is reported."""


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
        return {
            name: value if math.isfinite(value) else None for name, value in asdict(self).items()
        }


def evaluate_regression(mean: Doubles, variance: Doubles, y: Doubles) -> RegressionEvaluation:
    """Compare predictions with labels.

    Parameters
    ----------
    mean, variance : Doubles (n,)
        Of the predictive distributions, noise included.
    y : Doubles (n,)

    Raises
    ------
    DataError
        If there are no rows.
    """
    if not len(y):
        raise DataError("an evaluation needs at least one row; got none")
    spread, mse, total = np.sqrt(variance), float(np.square(y - mean).mean()), float(np.var(y))
    inside = np.abs(y - mean) <= norm.ppf(0.5 + INTERVAL / 2) * spread
    return RegressionEvaluation(
        n=len(y),
        mse=mse,
        r2=1.0 - mse / total if total else math.nan,
        nlpp=-float(np.mean(norm.logpdf(y, mean, spread))),
        coverage=float(inside.mean()),
    )
