"""Components of a posterior: Gaussians over latent values, from which new rows are predicted.

Several of them, with equal weights, stand for samples: of latent values (Gibbs), of kernel
parameters (hybrid Monte Carlo), or of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsegp.dense.expectation import log_probabilities
from sparsegp.dense.precisions import FORMS, Precisions
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.types import Doubles

TILE = 32
"""Rows predicted at a time."""


@dataclass(frozen=True)
class Component:
    """A Gaussian posterior, or S of them that share their covariance.

    Attributes
    ----------
    kernels : sequence of Kernel
        C of them: one for all latent values, or one each.
    likelihood : Likelihood
    coefficients : Doubles (S, n, R)
        The latent mean at x is k(x, X) times these.
    form : str
        Name in `FORMS`: how the site precisions are stored.
    precision : Doubles
        Of the sites, from which the latent covariance follows.
    """

    kernels: Sequence[Kernel]
    likelihood: Likelihood
    coefficients: Doubles
    form: str
    precision: Doubles

    def sites(self, x: Doubles) -> Precisions:
        """Return the sites under the prior of the rows x (n, p)."""
        covariances = np.stack([np.asarray(kernel(x, x), np.float64) for kernel in self.kernels])
        return FORMS[self.form](self.precision, covariances, self.coefficients.shape[2])


@dataclass(frozen=True)
class Mixture:
    """Components of equal weight over the same rows, ready to predict.

    Attributes
    ----------
    components : sequence of Component
    x : Doubles (n, p)
        Scaled inputs of the rows.
    averaged : bool
        Whether probabilities are averaged over the latent posterior, or taken at its mean (the
        "MAP" predictions of RW section 3.4.2).
    """

    components: Sequence[Component]
    x: Doubles
    averaged: bool = True

    @cached_property
    def _sites(self) -> list[Precisions]:
        return [component.sites(self.x) for component in self.components]

    def latent(self, X: Doubles) -> tuple[Doubles, Doubles]:
        """Return means (m, R) and variances (m, R) of the latent values of new rows (m, p).

        Those of the mixture: the variance of the component means is part of them.
        """
        means, variances = [], []
        for each_mean, covariance in self._each(X):
            variance = covariance
            if covariance.ndim == 3:
                variance = np.diagonal(covariance, axis1=1, axis2=2)
            means += list(each_mean)
            variances += [variance] * len(each_mean)
        mean, spread = np.mean(means, axis=0), np.var(means, axis=0)
        return mean, np.mean(variances, axis=0) + spread

    def log_probabilities(self, X: Doubles, n_classes: int) -> Doubles:
        """Return log class probabilities, (m, K), the mean over the mixture."""
        terms = []
        pairs = zip(self.components, self._each(X), strict=True)
        for component, (means, covariance) in pairs:
            spread = covariance if self.averaged else np.zeros((len(X), means.shape[-1]))
            terms += [
                log_probabilities(component.likelihood, mean, spread, n_classes) for mean in means
            ]
        return np.asarray(log_sum_exp(np.array(terms)) - np.log(len(terms)))

    def _each(self, X: Doubles) -> "list[tuple[Doubles, Doubles]]":
        """Return, of each component, means (S, m, R) and covariance (m, R) or (m, R, R)."""
        out = []
        for component, sites in zip(self.components, self._sites, strict=True):
            kernels = component.kernels
            cross = np.stack([np.asarray(kernel(self.x, X), np.float64) for kernel in kernels])
            prior = np.stack([np.asarray(kernel.diag(X), np.float64) for kernel in kernels])
            n_latent = component.coefficients.shape[2]
            every = np.broadcast_to(cross, (n_latent, *cross.shape[1:]))
            means = np.einsum("rnm,snr->smr", every, component.coefficients, optimize=True)
            out.append((np.asarray(means), sites.covariance(cross, prior)))
        return out
