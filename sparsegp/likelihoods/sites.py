"""Gaussian sites that approximate likelihood terms, and the rules that set them.

A row with latent marginals N(h, a) is included with a site N(u | m, 1/pi). Whatever the rule, this
adds mu = (k - M^T M[:, i]) / length to the stub, and changes the latent means by mu step, with

    length = sqrt(1/pi + a)        step = (m - h) / length

In terms of alpha = d log Z / dh and nu = -d2 log Z / dh2, moment matching (SLH appendix B.1) gives
length = nu^(-1/2), step = alpha nu^(-1/2), m = h + alpha / nu and pi = nu / (1 - a nu).

A row of weight w has the term t(u)^w, which stands for w copies of the row, and its site is the
w-th power of the site of one copy, N(u | m, 1/(w pi)). Variational sites are Gaussian bounds: the
slope and the curvature bound of w log p(y|u) are w times those of log p(y|u), so its bound has the
same mean and w times the precision. For Gaussian noise the site is exact: noise of variance
sigma^2 / w. With moment matching it is the site that copies have at convergence of expectation
propagation; copies included one by one, each with those before in its cavity, would differ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sparsegp.likelihoods.base import Likelihood
from sparsegp.registry import Registry
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Sites:
    """Sites of n rows with R latent values and C kernels; C is R, or 1 if they share the kernel."""

    mean: Doubles  # (n, R)
    precision: Doubles  # (n, C)
    length: Doubles  # (n, C), sqrt(1 / precision + latent variance); infinite for zero precision
    step: Doubles  # (n, R), (site mean - latent mean) / length

    def power(self, weight: Doubles, variance: Doubles) -> "Sites":
        """Return the sites for row weights (n,), given the latent variances (n, C)."""
        precision = weight[:, np.newaxis] * self.precision
        with np.errstate(divide="ignore", invalid="ignore"):  # sites of zero precision
            length = np.sqrt(1.0 / precision + variance)
            step = np.where(precision > 0.0, self.step * (self.length / length), 0.0)
        return Sites(self.mean, precision, length, step)


Rule: TypeAlias = Callable[[Any, Doubles, Doubles, Any], Sites]
"""Maps a likelihood, latent means (n, R), variances (n, C) and targets (n,) to sites."""

RULES: Registry[Rule] = Registry("site rule")


@RULES.register("variational")
def variational(likelihood: Any, mean: Doubles, variance: Doubles, target: Any) -> Sites:
    """Return the sites N(h + p / b, 1 / b), with b the bound on the curvature of log p(y|u).

    p is the gradient of log p(y|u) at the means h. The site is a Gaussian lower bound on the term
    that touches it at h (Böhning & Lindsay 1988). For the multinomial probit b is one, the
    precision of its auxiliary variables, which gives the variational posterior of GR eq. 4.3 and
    4.4.
    """
    bound = likelihood.curvature_bound
    shift = likelihood.gradient(mean, target)[1] / bound
    with np.errstate(invalid="ignore"):  # the caller reports variances lost to rounding
        length = np.sqrt(1.0 / bound + variance)
    return Sites(mean + shift, np.full_like(variance, bound), length, shift / length)


@RULES.register("moments")
def moments(likelihood: Any, mean: Doubles, variance: Doubles, target: Any) -> Sites:
    """Return the sites that match the moments of the tilted marginals (SLH eq. 7, appendix B.1).

    A site has zero precision if log Z has no curvature, or rounding has left no latent variance.
    """
    found = likelihood.moments(mean, np.maximum(variance, 0.0), target)
    alpha, nu = found.slope, found.curvature
    with np.errstate(divide="ignore", invalid="ignore"):
        length = 1.0 / np.sqrt(nu)
        site = Sites(mean + alpha / nu, nu / (1.0 - variance * nu), length, alpha * length)
    silent = ~(nu > 0.0) | (variance <= 0.0)
    return Sites(
        np.where(silent, mean, site.mean),
        np.where(silent, 0.0, site.precision),
        np.where(silent, np.inf, site.length),
        np.where(silent, 0.0, site.step),
    )


@dataclass(frozen=True)
class SiteRule:
    """A likelihood, and the rule that turns its terms into sites.

    Rows are included if a precision of their site exceeds a threshold (epsilon of SLH
    algorithm 1).
    """

    likelihood: Likelihood
    name: str = "variational"  # in `RULES`
    threshold: float = 0.0

    def sites(
        self, mean: Doubles, variance: Doubles, target: Any, weight: Doubles | None = None
    ) -> Sites:
        """Return the sites of rows with latent means (n, R), variances (n, C) and weights (n,)."""
        found = RULES[self.name](self.likelihood, mean, variance, target)
        return found if weight is None else found.power(weight, variance)

    def is_silent(self, sites: Sites) -> Any:
        """Return a mask of the rows whose sites are not precise enough for inclusion, (n,)."""
        return ~(sites.precision > self.threshold).any(axis=1)
