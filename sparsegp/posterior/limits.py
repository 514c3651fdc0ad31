"""Limits of a model: the novelty of a row, and prediction sets.

Both compare a row with quantiles for other rows: validation or left-out rows, or for novelty the
training rows if there are no validation rows.

*Novelty* is the rank of a fraction: how much of the prior variance remains at a row, given the
active rows of its predicted class. Given those of all classes, less would remain between classes
than at many ordinary rows. What distinguishes ordinary rows from others varies more slowly than
what distinguishes classes, so length scales are `STRETCH` times those of the kernel.

*Prediction sets* use split conformal prediction (Vovk, Gammerman & Shafer 2005, section 4.2) with
the score of adaptive prediction sets (Romano, Sesia & Candes 2020, "Classification with valid and
adaptive coverage", eq. 5-7) without its random part: the total probability of the classes that are
more probable than the label. A set always contains the most probable class, and no other if that
class alone is right often enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.fields import Setting
from sparsegp.kernels import Kernel
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.base import ActiveRows
from sparsegp.types import Booleans, Doubles, Floats, Integers

STRETCH = 2.0
"""Divisor of the scaled inputs. On nine training sets 2 to 4 were equally good at detecting a class
left out of training, or rows with an eighth of their values from other rows; less was worse."""

COVERAGE = Setting("coverage", float, 0.95, optional=False, above=0.0, below=1.0)
"""Requested coverage of prediction sets."""


@dataclass(frozen=True)
class Span:
    """Active rows of one class, or all active rows of a regression."""

    kernel: Kernel
    places: Integers  # their positions among the active rows (d_c,)
    x: Doubles  # their stretched inputs (d_c, p)
    precision: Doubles  # their site precisions (d_c,)
    factor: Doubles  # L, with L L^T their covariance plus 1 / precision on the diagonal

    def shares(self, x: Doubles) -> Doubles:
        """Return the fraction of the prior variance that remains at stretched rows x (n, p).

        That is 1 - |w|^2 / k(x, x), (n,), with w = L^-1 k(X_c, x).
        """
        prior = np.asarray(self.kernel.diag(x), np.float64)
        w = solve_lower(self.factor, np.asarray(self.kernel(self.x, x), np.float64))
        return _share(prior - np.square(w).sum(axis=0), prior)

    def left_out_shares(self) -> Doubles:
        """Return the same fraction at the rows themselves, (d_c,), each given only the others.

        Without site i the variance is 1 / [(L L^T)^-1]_ii - 1 / precision_i (Rasmussen & Williams
        2006, eq. 5.12).
        """
        inverse = np.square(solve_lower(self.factor, np.eye(len(self.x)))).sum(axis=0)
        prior = np.asarray(self.kernel.diag(self.x), np.float64)
        return _share(1.0 / inverse - 1.0 / self.precision, prior)


def spans_of(active: ActiveRows, n_classes: int) -> list[Span]:
    """Return the span of each class, or a single one for a regression (`n_classes` = 0)."""
    spans = []
    for code in range(max(n_classes, 1)):
        c = code if len(active.kernels) > 1 else 0
        kernel, is_own = active.kernels[c], (active.target == code) | (n_classes == 0)
        places = np.flatnonzero((active.precision[:, c] > 0.0) & is_own)
        x, precision = _stretched(active.x[places]), active.precision[places, c]
        covariance = np.asarray(kernel(x, x), np.float64) + np.diag(1.0 / precision)
        factor = lower_cholesky(covariance, "the covariance of the active rows of a class")
        spans.append(Span(kernel, places, x, precision, factor))
    return spans


def prior_shares(spans: Sequence[Span], x: Doubles, codes: Integers) -> Doubles:
    """Return the remaining fractions at scaled rows x (n, p), given their class codes (n,)."""
    shares, x = np.ones(len(x)), _stretched(x)
    for code, span in enumerate(spans):
        rows = np.flatnonzero(codes == code)
        if len(rows) and len(span.x):
            shares[rows] = span.shares(x[rows])
    return shares


def _stretched(x: Floats) -> Doubles:
    return np.asarray(x, np.float64) / STRETCH


def _share(left: Doubles, prior: Doubles) -> Doubles:
    """Return the fraction left of the prior, rounded so that all of it is 1 on any machine."""
    return np.divide(left, prior, out=np.ones_like(left), where=prior > 0.0).round(12)


def mass_of_more_probable(probabilities: Doubles) -> Doubles:
    """Return for each class the total probability of the more probable classes, (n, K)."""
    above = np.empty_like(probabilities)
    for k, own in enumerate(probabilities.T):
        larger = probabilities > own[:, np.newaxis]
        above[:, k] = np.where(larger, probabilities, 0.0).sum(axis=1)
    return above


def conformal_scores(
    log_probabilities: Doubles, codes: Integers, weights: Doubles | float
) -> Quantiles:
    """Return quantiles of conformal scores, from log probabilities (n, K) and true codes (n,)."""
    above = mass_of_more_probable(np.exp(log_probabilities))
    return Quantiles.of(np.take_along_axis(above, codes[:, np.newaxis], axis=1)[:, 0], weights)


def prediction_sets(probabilities: Doubles, scores: Quantiles | None, coverage: float) -> Booleans:
    """Return a mask (n, K) of sets that contain the true class with probability `coverage`.

    Raises
    ------
    SettingsError
        If there are no scores or too few, or the coverage is not between 0 and 1.
    """
    coverage = COVERAGE.checked(coverage)
    if scores is None:
        raise SettingsError(
            "prediction sets need validation rows, and the model had none, or is of an older "
            "version; train again with posterior=all and calibration"
        )
    rank = math.ceil((scores.n + 1) * coverage - 1e-9)
    if rank > scores.n:
        raise SettingsError(
            f"prediction sets of coverage {coverage} need "
            f"{math.ceil(coverage / (1 - coverage))} validation rows, the model had {scores.n}; "
            f"ask for at most {scores.n / (scores.n + 1):.4g}, or train on more rows"
        )
    return np.asarray(mass_of_more_probable(probabilities) <= scores.at(rank))
