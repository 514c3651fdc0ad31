"""Lazy evaluation of scores: only those that can matter.

With x = m / sqrt(1 + t s), where t is the precision of the noise in the likelihood, log Z(x) is
concave and its Hessian is at least -b I. So an evaluation (x0, log Z0, g0) bounds all later values
from below:

    log Z(x) >= log Z0 + g0.(x - x0) - b |x - x0|^2 / 2  =  c + w.x - b |x|^2 / 2
    w = g0 + b x0,    c = log Z0 - g0.x0 - b |x0|^2 / 2

Rows that cannot win according to this bound need no evaluation. (For the multinomial probit b is
one: log Z is the log Gaussian measure of a shifted convex cone, and its Hessian is -I plus the
covariance of a truncated Gaussian.)
"""

from typing import Any

import numpy as np

from sparsegp.ivm.criteria import Criterion, Marginals
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.types import Booleans, Doubles, Integers

ROUNDING_UNIT = 2.0**-14
"""Unit in which scores are compared: coarser than the rounding of float32 products, so that rows
that tie in exact arithmetic also tie here, and the smaller row number wins."""

ROUNDING = 8.0
"""Rounding error of a latent variance, in units of machine epsilon times the prior variance. A row
is left out unless its latent variance plus the variance of its site, which is small if the row has
a large weight, exceeds this."""

SLACK = 2.0**-16
"""Margin added to bounds for quadrature and rounding errors."""


def rounding_error(prior: Any) -> Doubles:
    """Return the rounding error of latent variances, given the prior ones in their precision."""
    return np.asarray(prior, np.float64) * (ROUNDING * float(np.finfo(prior.dtype).eps))


def are_lost(rule: SiteRule, marginals: Marginals, rounding: Doubles) -> Booleans:
    """Return a mask of the rows that rounding has left no latent variance for a site, (n,).

    `rounding` (n, C) is their `rounding_error`.
    """
    lost = np.asarray((marginals.variance < rounding).any(axis=1))
    if lost.any():
        some = np.flatnonzero(lost)
        sites = marginals.take(some).sites(rule)
        excess = sites.precision * (rounding[some] - marginals.variance[some])
        lost[some] = (excess >= 1.0).any(axis=1) | rule.is_silent(sites)
    return lost


def quantise(scores: Doubles) -> Doubles:
    """Return scores in units of `ROUNDING_UNIT`, as whole numbers."""
    return np.asarray(np.rint(scores / ROUNDING_UNIT))


class Scores:
    """Scores of a fixed set of rows whose marginals change.

    Parameters
    ----------
    criterion : Criterion
    rule : SiteRule
    target : array (n,)
        Class codes, or targets in a regression.
    n_latent : int
    rounding : Doubles (n, C)
        See `rounding_error`. Rows that are lost to it score -inf.
    lazy : bool
        Whether to use the bounds, if criterion and likelihood have them; otherwise all rows are
        evaluated every time. Requires that the classes share the variance.
    """

    def __init__(
        self,
        criterion: Criterion,
        rule: SiteRule,
        target: Any,
        n_latent: int,
        rounding: Doubles,
        lazy: bool,
    ) -> None:
        self.criterion, self.rule, self.likelihood = criterion, rule, rule.likelihood
        self.rounding = rounding
        self.lazy = lazy and criterion.concave and rule.likelihood.has_score_bounds
        if self.lazy:  # bounds from evaluations at means of zero
            zero = np.zeros((n_latent, n_latent))
            log_z, gradient = self.likelihood.gradient(zero, np.arange(n_latent))
            self.slope, self.offset = gradient[target], log_z[target]

    def take(self, index: Integers) -> None:
        """Restrict the scores to the rows with these indices, which may repeat."""
        self.rounding = self.rounding[index]
        if self.lazy:
            self.slope, self.offset = self.slope[index], self.offset[index]

    def upper_bounds(self, marginals: Marginals) -> Doubles:
        """Return an upper bound of each row's score, (n,); infinite if not lazy."""
        if not self.lazy:
            return np.full(len(marginals.rows), np.inf)
        linear = np.einsum("nk,nk->n", marginals.mean, self.slope)
        square = np.einsum("nk,nk->n", marginals.mean, marginals.mean)
        # rounding can make variances negative; such rows are left out once they are evaluated
        variance = np.maximum(marginals.variance[:, 0], 0.0)
        return marginals.weighted(self.bounds(self.offset, linear, square, variance))

    def bounds(
        self, offset: Doubles, linear: Doubles, square: Doubles, variance: Doubles
    ) -> Doubles:
        """Return upper bounds of -log Z from c, w.m, |m|^2 and s."""
        shrink = 1.0 / (1.0 + self.likelihood.noise_precision * variance)
        half = 0.5 * self.likelihood.curvature_bound
        return np.asarray(SLACK - offset - linear * np.sqrt(shrink) + half * square * shrink)

    def evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the exact scores of rows `index` at these marginals, and renew their bounds."""
        if self.lazy:
            scores = self._renewed(index, marginals)
        else:
            scores = self.criterion.scores(self.rule, marginals)
        lost = are_lost(self.rule, marginals, self.rounding[index])
        return np.where(lost, -np.inf, scores) if lost.any() else scores

    def _renewed(self, index: Integers, marginals: Marginals) -> Doubles:
        spread = self.likelihood.noise_precision * np.maximum(marginals.variance, 0.0)
        x = marginals.mean / np.sqrt(1.0 + spread)
        log_z, gradient = self.likelihood.gradient(x, marginals.target)
        bent = self.likelihood.curvature_bound * x
        self.slope[index] = gradient + bent
        self.offset[index] = log_z - np.einsum("nk,nk->n", gradient + 0.5 * bent, x)
        return np.asarray(-marginals.weighted(log_z))

    def top(self, marginals: Marginals, open_: Booleans, count: int) -> tuple[Integers, Doubles]:
        """Return the `count` best rows and their scores in units of `ROUNDING_UNIT`, best first.

        Rows are evaluated in the order of their bounds until no bound reaches the `count`-th best
        score found; ties go to the smaller row number.

        Parameters
        ----------
        marginals : Marginals
            Marginals of all rows.
        open_ : Booleans (n,)
            Rows that may be returned.
        count : int

        Returns
        -------
        index : Integers (m,)
            m < count if fewer rows are open and may be included.
        scores : Doubles (m,)
        """
        remaining = np.flatnonzero(open_)
        if count == 0 or len(remaining) == 0:
            return np.empty(0, dtype=np.int64), np.empty(0)
        bounds = self.upper_bounds(marginals)[remaining]
        index, found = remaining[:0], np.empty(0)
        size = len(remaining) if not self.lazy else max(count, 16)
        following = max(count // 2, 16)
        while len(remaining):
            if size < len(remaining):
                order = np.argpartition(bounds, len(remaining) - size)[::-1]
                remaining, bounds = remaining[order], bounds[order]
            first, remaining, bounds = remaining[:size], remaining[size:], bounds[size:]
            index = np.concatenate([index, first])
            found = np.concatenate([found, self.evaluate(first, marginals.take(first))])
            if len(found) >= count:
                worst = np.partition(found, len(found) - count)[len(found) - count]
                keep = bounds >= worst - ROUNDING_UNIT
                remaining, bounds = remaining[keep], bounds[keep]
            size, following = following, 2 * following  # keeps steps and needless evaluations few
        scores = quantise(found)
        order = np.lexsort((marginals.rows[index], -scores))[:count]
        order = order[scores[order] != -np.inf]  # NaN is reported by the pool
        return index[order], scores[order]
