"""Posteriors as mixtures of Gaussians over latent values, and their predictions for new rows.

Several components, with equal weights, represent samples: of latent values (Gibbs), of kernel
parameters (hybrid Monte Carlo), or of both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsegp.dense.precisions import FORMS, Precisions, broadcast_kernels
from sparsegp.errors import DataError
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.likelihoods.expectation import log_probabilities
from sparsegp.math.quadrature import log_sum_exp
from sparsegp.types import Doubles

TILE = 32
"""Rows predicted at a time."""


@dataclass(frozen=True)
class Component:
    """A Gaussian posterior, or S of them that share their covariance."""

    kernels: Sequence[Kernel]  # C kernels: one for all latent values, or one each
    likelihood: Likelihood
    coefficients: Doubles  # (S, n, R); the latent mean at x is k(x, X) times these
    form: str  # name in `FORMS`: how the site precisions are stored
    precision: Doubles  # site precisions, which determine the latent covariance

    def __post_init__(self) -> None:
        samples, n, n_latent = self.coefficients.shape
        ends = {
            "independent": (len(self.kernels),),
            "simplex": (n_latent,),
            "full": (n_latent, n_latent),
            "projected": (n_latent + 1, n_latent),
        }
        fits = samples and len(self.kernels) in {1, n_latent}
        if not fits or self.precision.shape != (n, *ends[self.form]):
            raise DataError("kernels, coefficients and precisions of a posterior must fit")

    def sites(self, x: Doubles) -> Precisions:
        """Return the factored site precisions for the training rows x (n, p)."""
        n_latent = self.coefficients.shape[2]
        return FORMS[self.form](self.precision, covariances(self.kernels, x, x), n_latent)


def covariances(kernels: Sequence[Kernel], x: Doubles, z: Doubles) -> Doubles:
    """Return the prior covariances of rows x (n, p) and z (m, p) under C kernels, (C, n, m)."""
    return np.stack([np.asarray(kernel(x, z), np.float64) for kernel in kernels])


@dataclass(frozen=True)
class Mixture:
    """Components of equal weight over the same rows, ready to predict."""

    components: Sequence[Component]
    x: Doubles  # scaled inputs of the training rows, (n, p)
    # whether probabilities are averaged over the latent posterior, or taken at its mean ("MAP"
    # predictions, RW section 3.4.2)
    averaged: bool = True

    def __post_init__(self) -> None:
        if any(each.coefficients.shape[1] != len(self.x) for each in self.components):
            raise DataError("the coefficients of a mixture must be those of its rows")

    @cached_property
    def _sites(self) -> list[Precisions]:
        return [component.sites(self.x) for component in self.components]

    def latent(self, X: Doubles) -> tuple[Doubles, Doubles]:
        """Return means (m, R) and variances (m, R) of the latent values of new rows (m, p).

        The variances are those of the mixture and include the variance of the component means.
        """
        means, variances = [], []
        for _, each_mean, covariance in self._each(X):
            variance = np.einsum("mrr->mr", covariance) if covariance.ndim == 3 else covariance
            means += list(each_mean)
            variances += [variance] * len(each_mean)
        mean, spread = np.mean(means, axis=0), np.var(means, axis=0)
        return mean, np.mean(variances, axis=0) + spread

    def log_probabilities(self, X: Doubles, n_classes: int) -> Doubles:
        """Return log class probabilities (m, K) for new rows (m, p), averaged over the mixture."""
        terms = []
        for likelihood, means, covariance in self._each(X):
            spread = covariance if self.averaged else np.zeros((len(X), means.shape[-1]))
            terms += [log_probabilities(likelihood, mean, spread, n_classes) for mean in means]
        return np.asarray(log_sum_exp(np.array(terms)) - np.log(len(terms)))

    def _each(self, X: Doubles) -> Iterator[tuple[Likelihood, Doubles, Doubles]]:
        """Yield each component's likelihood, means (S, m, R), covariances (m, R) or (m, R, R)."""
        for component, sites in zip(self.components, self._sites, strict=True):
            kernels = component.kernels
            cross = covariances(kernels, self.x, X)
            prior = np.stack([np.asarray(kernel.diag(X), np.float64) for kernel in kernels])
            every = broadcast_kernels(cross, component.coefficients.shape[2])
            means = np.einsum("rnm,snr->smr", every, component.coefficients, optimize=True)
            yield component.likelihood, np.asarray(means), sites.covariance(cross, prior)
