"""What a model knows of its limits: how new a row is, and which classes it cannot rule out.

Both compare a row with rows that the posterior did not learn from, of which quantiles are kept.

*Novelty* is a rank: that of the share of the prior variance that the active rows leave at a row.

*Label sets* are those of split conformal prediction (Vovk, Gammerman & Shafer 2005, section 4.2)
with the score of adaptive prediction sets (Romano, Sesia & Candes 2020, "Classification with valid
and adaptive coverage", eq. 5-7) without its random part: the probability of all classes that are
more probable than the label. A set then always has the most probable class, and no other where that
class alone is right often enough.
"""

import math

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.math.linalg import solve_lower
from sparsegp.math.quantiles import Quantiles
from sparsegp.posterior.base import ActiveRows
from sparsegp.types import Booleans, Doubles, Integers


def prior_shares(active: ActiveRows, factors: list[Doubles], x: Doubles) -> Doubles:
    """Return the share of the prior variance that the sites of the active rows leave, (n,).

    That is 1 - |w|^2 / k(x, x), the mean over kernels, with w = L^-1 k(X_active, x).

    Parameters
    ----------
    active : ActiveRows
    factors : list of Doubles (d_c, d_c)
        Its L, of each kernel.
    x : Doubles (n, p)
        Scaled inputs.
    """
    total = np.zeros(len(x))
    for kernel, factor, members in zip(active.kernels, factors, active.members(), strict=True):
        own = np.asarray(active.x[members], np.float64)
        w = solve_lower(factor, np.asarray(kernel(own, x), np.float64))
        prior = np.asarray(kernel.diag(x), np.float64)
        total += _share(prior - np.square(w).sum(axis=0), prior)
    return total / len(factors)


def left_out_shares(active: ActiveRows, factors: list[Doubles]) -> Doubles:
    """Return `prior_shares` of the active rows (d,), each by the others alone.

    The variance left without site i is 1 / [(Pi^-1 + C)^-1]_ii - 1 / pi_i (Rasmussen & Williams
    2006, eq. 5.12).
    """
    x, total = np.asarray(active.x, np.float64), np.zeros(len(active.x))
    for c, (kernel, factor, members) in enumerate(
        zip(active.kernels, factors, active.members(), strict=True)
    ):
        prior, own = np.asarray(kernel.diag(x), np.float64), x[members]
        left = prior - np.square(solve_lower(factor, np.asarray(kernel(own, x)))).sum(axis=0)
        precision = np.square(solve_lower(factor, np.eye(len(own)))).sum(axis=0)
        left[members] = 1.0 / precision - 1.0 / active.precision[members, c]
        total += _share(left, prior)
    return total / len(factors)


def _share(left: Doubles, prior: Doubles) -> Doubles:
    return np.divide(left, prior, out=np.ones_like(left), where=prior > 0.0)


def masses_above(probabilities: Doubles) -> Doubles:
    """Return for each class the probability of all that are more probable, (n, K)."""
    above = np.empty_like(probabilities)
    for k, own in enumerate(probabilities.T):
        larger = probabilities > own[:, np.newaxis]
        above[:, k] = np.where(larger, probabilities, 0.0).sum(axis=1)
    return above


def conformal_scores(log_probabilities: Doubles, codes: Integers) -> Quantiles:
    """Return quantiles of the scores of rows that the probabilities were not learnt from.

    Parameters
    ----------
    log_probabilities : Doubles (n, K)
    codes : Integers (n,)
    """
    above = masses_above(np.exp(log_probabilities))
    return Quantiles.of(np.take_along_axis(above, codes[:, np.newaxis], axis=1)[:, 0])


def label_sets(probabilities: Doubles, scores: Quantiles | None, coverage: float) -> Booleans:
    """Return which classes are in the sets that hold the true one with a probability, (n, K).

    Parameters
    ----------
    probabilities : Doubles (n, K)
    scores : Quantiles, optional
        `conformal_scores`.
    coverage : float

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
            "train anew with posterior=all and calibration"
        )
    rank = math.ceil((scores.n + 1) * coverage - 1e-9)
    if rank > scores.n:
        raise SettingsError(
            f"label sets of coverage {coverage:g} need {math.ceil(coverage / (1 - coverage))} "
            f"validation rows, the model had {scores.n}; ask for at most "
            f"{scores.n / (scores.n + 1):.4g}, or train on more rows"
        )
    return np.asarray(masses_above(probabilities) <= scores.at(rank))
