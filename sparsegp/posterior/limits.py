"""What a model knows of its limits: how new a row is, and which classes it cannot rule out.

Both compare a row with rows that the posterior did not learn from, of which quantiles are kept.

*Novelty* is a rank: that of the share of the prior variance which the active rows of the class that
is predicted leave at a row. Those of all classes together leave less at a row between classes than
at many a usual one. What tells usual rows from others varies less quickly than what tells the
classes apart: length scales are `STRETCH` times those of the kernel.

*Label sets* are those of split conformal prediction (Vovk, Gammerman & Shafer 2005, section 4.2)
with the score of adaptive prediction sets (Romano, Sesia & Candes 2020, "Classification with valid
and adaptive coverage", eq. 5-7) without its random part: the probability of all classes that are
more probable than the label. A set then always has the most probable class, and no other where that
class alone is right often enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.kernels import Kernel
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.base import ActiveRows
from sparsegp.types import Booleans, Doubles, Floats, Integers

STRETCH = 2.0
"""By which scaled inputs are divided. Factors from 2 to 4 were alike on nine training sets, in
telling a class that was left out, or values of other rows in an eighth of the columns; less was
worse."""


@dataclass(frozen=True)
class Span:
    """The active rows of one class, or all those of a regression.

    Their `places` among the active rows (d_c,), their stretched inputs `x` (d_c, p), the
    `precision` of their sites (d_c,), and the `factor` L of L L^T, their covariance with
    1 / precision on the diagonal.
    """

    kernel: Kernel
    places: Integers
    x: Doubles
    precision: Doubles
    factor: Doubles

    def shares(self, x: Doubles) -> Doubles:
        """Return the share of the prior variance that the sites leave at rows x (n, p), stretched.

        That is 1 - |w|^2 / k(x, x), (n,), with w = L^-1 k(X_c, x).
        """
        prior = np.asarray(self.kernel.diag(x), np.float64)
        w = solve_lower(self.factor, np.asarray(self.kernel(self.x, x), np.float64))
        return _share(prior - np.square(w).sum(axis=0), prior)

    def left_out_shares(self) -> Doubles:
        """Return the same at the rows themselves (d_c,), each by the others alone.

        What is left without site i is 1 / [(L L^T)^-1]_ii - 1 / precision_i (Rasmussen & Williams
        2006, eq. 5.12).
        """
        inverse = np.square(solve_lower(self.factor, np.eye(len(self.x)))).sum(axis=0)
        prior = np.asarray(self.kernel.diag(self.x), np.float64)
        return _share(1.0 / inverse - 1.0 / self.precision, prior)


def spans_of(active: ActiveRows, n_classes: int) -> list[Span]:
    """Return the span of every class, or the one of a regression, which has none."""
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
    """Return the shares left at scaled rows x (n, p) by the spans of their classes, codes (n,)."""
    shares, x = np.ones(len(x)), _stretched(x)
    for code, span in enumerate(spans):
        rows = np.flatnonzero(codes == code)
        if len(rows) and len(span.x):
            shares[rows] = span.shares(x[rows])
    return shares


def _stretched(x: Floats) -> Doubles:
    return np.asarray(x, np.float64) / STRETCH


def _share(left: Doubles, prior: Doubles) -> Doubles:
    return np.divide(left, prior, out=np.ones_like(left), where=prior > 0.0)


def masses_above(probabilities: Doubles) -> Doubles:
    """Return for each class the probability of all that are more probable, (n, K)."""
    above = np.empty_like(probabilities)
    for k, own in enumerate(probabilities.T):
        larger = probabilities > own[:, np.newaxis]
        above[:, k] = np.where(larger, probabilities, 0.0).sum(axis=1)
    return above


def conformal_scores(
    log_probabilities: Doubles, codes: Integers, weights: Doubles | float
) -> Quantiles:
    """Return quantiles of the scores of rows, by log probabilities (n, K) and true codes (n,)."""
    above = masses_above(np.exp(log_probabilities))
    return Quantiles.of(np.take_along_axis(above, codes[:, np.newaxis], axis=1)[:, 0], weights)


def label_sets(probabilities: Doubles, scores: Quantiles | None, coverage: float) -> Booleans:
    """Return which classes are in the sets that hold the true one with a probability, (n, K).

    Raises
    ------
    SettingsError
        If there are no scores, too few for this coverage, or it is no probability.
    """
    if not 0.0 < coverage < 1.0:
        raise SettingsError(f"the coverage of label sets must be between 0 and 1, got {coverage:g}")
    if scores is None:
        raise SettingsError(
            "label sets need validation rows, and the model had none, or is of an older version; "
            "train again with posterior=all and calibration"
        )
    rank = math.ceil((scores.n + 1) * coverage - 1e-9)
    if rank > scores.n:
        raise SettingsError(
            f"label sets of coverage {coverage:g} need {math.ceil(coverage / (1 - coverage))} "
            f"validation rows, the model had {scores.n}; ask for at most "
            f"{scores.n / (scores.n + 1):.4g}, or train on more rows"
        )
    return np.asarray(masses_above(probabilities) <= scores.at(rank))
