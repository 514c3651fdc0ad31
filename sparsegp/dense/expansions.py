"""Second-order expansions of log p(y|u) in the latent values, for Laplace's approximation.

A likelihood that has one here can be used by `laplace`. The second derivatives come in a form of
`precisions.FORMS`; of the third only a contraction is needed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from scipy.special import expit

from sparsegp.likelihoods import Logistic, MultinomialProbit, Probit, Softmax
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.binary import Binary, sign
from sparsegp.likelihoods.probit import hazard_rate
from sparsegp.math.normal import hazard
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers

L = TypeVar("L", bound=Likelihood)
B = TypeVar("B", bound=Binary)


@dataclass(frozen=True)
class Expansion(ABC, Generic[L]):
    """Derivatives of log p(y|u) of n rows.

    Parameters
    ----------
    likelihood : Likelihood
    target : Integers (n,)
        Class codes.
    """

    likelihood: L
    target: Integers

    form: ClassVar[str]
    """That of `precision`, in `FORMS`."""

    def log_density(self, latent: Doubles) -> float:
        """Return the sum over the rows, for latent values (n, R)."""
        return float(self.likelihood.log_density(latent, self.target).sum())

    @abstractmethod
    def slope(self, latent: Doubles) -> Doubles:
        """Return the first derivatives, (n, R)."""

    @abstractmethod
    def precision(self, latent: Doubles) -> Doubles:
        """Return minus the second derivatives P_i, in their form."""

    @abstractmethod
    def bend(self, latent: Doubles, weights: Doubles) -> Doubles:
        """Return the gradient of tr(W_i P_i) in the latent values of row i, (n, R).

        Parameters
        ----------
        latent : Doubles (n, R)
        weights : Doubles (n, R, R)
            Symmetric W_i.
        """


EXPANSIONS: Registry[type[Expansion[Any]]] = Registry("expansion of a likelihood")
"""By the name of the likelihood."""


class BinaryExpansion(Expansion[B]):
    """That of a function of the margin z = y (u + bias), y = -1 or +1."""

    form = "independent"

    def margin(self, latent: Doubles) -> Doubles:
        """Return z, (n, 1)."""
        return np.asarray(self.y * (latent + self.likelihood.bias))

    @property
    def y(self) -> Doubles:
        """Signs, (n, 1)."""
        return sign(self.target)[:, np.newaxis]


@EXPANSIONS.register("logistic")
class LogisticExpansion(BinaryExpansion[Logistic]):
    """With q the probability of the other class: q, q (1 - q) and -q (1 - q) (1 - 2 q)."""

    def slope(self, latent: Doubles) -> Doubles:
        """Return the first derivatives, (n, 1)."""
        return np.asarray(self.y * expit(-self.margin(latent)))

    def precision(self, latent: Doubles) -> Doubles:
        """Return minus the second derivatives, (n, 1)."""
        z = self.margin(latent)
        return np.asarray(expit(z) * expit(-z))

    def bend(self, latent: Doubles, weights: Doubles) -> Doubles:
        """Return W dP/du, (n, 1)."""
        z = self.margin(latent)
        return np.asarray(-weights[:, 0] * self.y * expit(z) * expit(-z) * np.tanh(0.5 * z))


@EXPANSIONS.register("probit")
class ProbitExpansion(BinaryExpansion[Probit]):
    """With H the hazard: H, P = H (z + H) and dP/dz = H (1 - P) - P (z + H)."""

    def slope(self, latent: Doubles) -> Doubles:
        """Return the first derivatives, (n, 1)."""
        return np.asarray(self.y * hazard(self.margin(latent)))

    def precision(self, latent: Doubles) -> Doubles:
        """Return minus the second derivatives, (n, 1)."""
        return hazard_rate(self.margin(latent))

    def bend(self, latent: Doubles, weights: Doubles) -> Doubles:
        """Return W dP/du, (n, 1)."""
        z = self.margin(latent)
        h, p = hazard(z), hazard_rate(z)
        return np.asarray(weights[:, 0] * self.y * (h * (1.0 - p) - p * (z + h)))


@EXPANSIONS.register("softmax")
class SoftmaxExpansion(Expansion[Softmax]):
    """With p the probabilities: e_y - p and diag(p) - p p' (RW eqs. 3.33-3.39)."""

    form = "simplex"

    def slope(self, latent: Doubles) -> Doubles:
        """Return the first derivatives, (n, K)."""
        log_p, rows = self._log_p(latent), np.arange(len(latent))
        out = -np.exp(log_p)
        out[rows, self.target] = -np.expm1(log_p[rows, self.target])
        return np.asarray(out)

    def precision(self, latent: Doubles) -> Doubles:
        """Return the probabilities p, (n, K)."""
        return np.asarray(np.exp(self._log_p(latent)))

    def bend(self, latent: Doubles, weights: Doubles) -> Doubles:
        """Return p_s (t_s - p't), (n, K), with t = d(sum_r W_rr p_r - p' W p) / dp."""
        p = np.exp(self._log_p(latent))
        t = np.einsum("irr->ir", weights) - 2.0 * np.einsum("irs,is->ir", weights, p)
        return np.asarray(p * (t - (p * t).sum(axis=1, keepdims=True)))

    def _log_p(self, latent: Doubles) -> Doubles:
        """Return the log probability of every class, (n, K)."""
        shape = latent.shape[0]
        each = [
            self.likelihood.log_density(latent, np.full(shape, code))
            for code in range(latent.shape[1])
        ]
        return np.array(each).T


@EXPANSIONS.register("multinomial_probit")
class MultinomialProbitExpansion(Expansion[MultinomialProbit]):
    """By quadrature, see the likelihood (GR appendix E)."""

    form = "full"

    def slope(self, latent: Doubles) -> Doubles:
        """Return the first derivatives, (n, K)."""
        return self.likelihood.gradient(latent, None, self.target)[1]

    def precision(self, latent: Doubles) -> Doubles:
        """Return minus the second derivatives, (n, K, K)."""
        return self.likelihood.curvature(latent, self.target)

    def bend(self, latent: Doubles, weights: Doubles) -> Doubles:
        """Return the gradient of tr(W P), (n, K)."""
        return self.likelihood.curvature_gradient(latent, self.target, weights)
