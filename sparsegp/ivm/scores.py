"""Scores that are evaluated only where they can matter.

With x = m / sqrt(1 + t s), where t is the precision of the noise in the likelihood, log Z(x) is
concave and its Hessian no steeper than -b I, so an evaluation (x0, log Z0, g0) at any earlier time
bounds it at any later one:

    log Z(x) >= log Z0 + g0.(x - x0) - b |x - x0|^2 / 2  =  c + w.x - b |x|^2 / 2
    w = g0 + b x0,    c = log Z0 - g0.x0 - b |x0|^2 / 2

A row whose bound says that it cannot win needs no evaluation. (For the multinomial probit b is
one: log Z is the log of a Gaussian measure of a shifted convex cone, and its Hessian -I plus the
covariance of a truncated Gaussian.)
"""

from typing import Any, cast

import numpy as np

from sparsegp.ivm.criteria import Criterion, Marginals
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.types import Booleans, Doubles, Integers

ROUNDING_UNIT = 2.0**-14
"""Scores are compared in these units: coarser than the rounding of float32 products, so that rows
that tie in exact arithmetic tie here, and the smaller row number decides."""

SLACK = 2.0**-16
"""What bounds may be wrong by, for the sake of quadrature and rounding."""


def quantise(scores: Doubles) -> Doubles:
    """Return scores in whole units of `ROUNDING_UNIT`."""
    return np.asarray(np.rint(scores / ROUNDING_UNIT))


class Scores:
    """The scores of a fixed set of rows whose marginals change.

    Parameters
    ----------
    criterion : Criterion
    rule : SiteRule
    target : array (n,)
        Class codes, or numbers.
    n_latent : int
    lazy : bool
        Use the bounds, where criterion and likelihood have them and the classes share the variance;
        otherwise all rows are evaluated every time.
    """

    def __init__(
        self, criterion: Criterion, rule: SiteRule, target: Any, n_latent: int, lazy: bool
    ) -> None:
        self.criterion, self.rule = criterion, rule
        self.likelihood = cast("Any", rule.likelihood)
        self.lazy = lazy and criterion.concave and rule.likelihood.bounded
        if self.lazy:  # the bounds of evaluations at means of zero
            zero = np.zeros((n_latent, n_latent))
            log_z, gradient = self.likelihood.gradient(zero, None, np.arange(n_latent))
            self.slope, self.offset = gradient[target], log_z[target]

    def take(self, index: Integers) -> None:
        """Go on with some of the rows alone, some of them more than once."""
        if self.lazy:
            self.slope, self.offset = self.slope[index], self.offset[index]

    def upper_bounds(self, marginals: Marginals) -> Doubles:
        """Return what each row's score cannot exceed, (n,); infinite without bounds."""
        if not self.lazy:
            return np.full(len(marginals.rows), np.inf)
        linear = np.einsum("nk,nk->n", marginals.mean, self.slope)
        square = np.einsum("nk,nk->n", marginals.mean, marginals.mean)
        return marginals.weighted(
            self.bounds(self.offset, linear, square, marginals.variance[:, 0])
        )

    def bounds(
        self, offset: Doubles, linear: Doubles, square: Doubles, variance: Doubles
    ) -> Doubles:
        """Return upper bounds of -log Z for c, w.m, |m|^2 and s."""
        shrink = 1.0 / (1.0 + self.likelihood.noise_precision * variance)
        half = 0.5 * self.likelihood.curvature_bound
        return np.asarray(SLACK - offset - linear * np.sqrt(shrink) + half * square * shrink)

    def evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the exact scores of rows `index`, whose marginals are given, (len(index),)."""
        if not self.lazy:
            return self.criterion.scores(self.rule, marginals)
        x = marginals.mean / np.sqrt(1.0 + self.likelihood.noise_precision * marginals.variance)
        log_z, gradient = self.likelihood.gradient(x, None, marginals.target)
        bent = self.likelihood.curvature_bound * x
        self.slope[index] = gradient + bent
        self.offset[index] = log_z - np.einsum("nk,nk->n", gradient + 0.5 * bent, x)
        return np.asarray(-marginals.weighted(log_z))

    def top(self, marginals: Marginals, open_: Booleans, count: int) -> tuple[Integers, Doubles]:
        """Return the best rows and their scores in units of `ROUNDING_UNIT`, best first.

        Rows are evaluated in the order of their bounds until no bound reaches the `count`-th best
        score found; ties go to the smaller row.

        Parameters
        ----------
        marginals : Marginals
            Of all rows.
        open_ : Booleans (n,)
            Rows that may be returned.
        count : int

        Returns
        -------
        index : Integers (m,)
            m <= count: fewer if fewer rows are open and may be included.
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
            size, following = following, 2 * following  # few steps, few evaluations in vain
        scores = quantise(found)
        order = np.lexsort((marginals.rows[index], -scores))[:count]
        order = order[scores[order] != -np.inf]  # not a number is found out by the pool
        return index[order], scores[order]
