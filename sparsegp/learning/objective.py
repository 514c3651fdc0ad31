"""Marginal likelihood and hyperprior as a function of all learnt parameters.

These are the parameters of each process's kernel in turn, then those of the likelihood, all
unconstrained.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.learning.evidence import Members, SumRows, evidence
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.sites import RULES
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Objective:
    """Function to minimise: phi(parameters, sites) - log P(parameters), in nats.

    For Gaussian noise the sites are functions of the noise variance: `evaluate` then ignores the
    given sites, computes them, and returns the full gradient.
    """

    kernels: Sequence[Kernel]  # initial kernels, one for each latent value
    likelihood: Likelihood  # initial likelihood; both define the parameters
    members: Members  # the active rows; for a single process in the order of inclusion
    sum_rows: SumRows  # computes the sums over all other rows that count
    hyperprior: Hyperprior = field(default_factory=Hyperprior)

    @property
    def start(self) -> Doubles:
        """Initial parameters of kernels and likelihood, (q,)."""
        own = [kernel.parameters() for kernel in self.kernels]
        return np.concatenate([*own, self.likelihood.parameters()])

    def evaluate(self, parameters: Doubles, sites: Doubles) -> tuple[float, Doubles]:
        """Return the criterion and its gradient, (q,), for sites (2, d).

        Raises
        ------
        NumericalError, SettingsError
            If the parameters are too large or too small for the kernels or the likelihood.
        """
        kernels, likelihood = with_parameters(self.kernels, self.likelihood, parameters)
        members = self.members
        if isinstance(likelihood, Gaussian):
            sites = noise_sites(likelihood, members.target, members.weight)
        found = evidence(kernels, likelihood, members, sites, self.sum_rows)
        by_likelihood = found.likelihood
        if isinstance(likelihood, Gaussian):
            by_likelihood = by_likelihood - np.vdot(found.sites, sites)
        value, gradient = self.hyperprior(parameters)
        return found.phi + value, np.concatenate([found.kernels, by_likelihood]) + gradient

    def recompute_sites(self, parameters: Doubles) -> Doubles:
        """Recompute the sites of a single process, (2, d), in the order of inclusion."""
        (kernel,), likelihood = with_parameters(self.kernels, self.likelihood, parameters)
        if isinstance(likelihood, Gaussian):
            return noise_sites(likelihood, self.members.target, self.members.weight)
        return sites_in_order(kernel, likelihood, self.members.x, self.members.target)


def sites_in_order(kernel: Kernel, likelihood: Likelihood, x: Floats, target: Any) -> Doubles:
    """Return the precisions and shifts of the sites of active rows, by moment matching, (2, d).

    These are the site updates of the selection (assumed-density filtering, SLH algorithm 1 and
    appendix C.1), for the given rows only: O(d^3) for d rows. The sites thus become a function of
    the parameters, but gradients treat them as constants (SLH 3.3). A row at which log Z has no
    curvature has the site zero.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood
        With one latent value.
    x : Floats (d, p)
        Scaled inputs in the order of inclusion.
    target : array (d,)
    """
    wide, labels = np.asarray(x, np.float64), np.asarray(target)
    covariance = np.asarray(kernel(wide, wide), np.float64)
    d = len(wide)
    stub, sites = np.zeros((d, d)), np.zeros((2, d))
    mean, variance = np.zeros((d, 1)), np.diagonal(covariance).copy()[:, np.newaxis]
    for j in range(d):
        one, rest = slice(j, j + 1), slice(j, d)
        site = RULES["moments"](likelihood, mean[one], variance[one], labels[one])
        sites[:, j] = site.precision[0, 0], site.precision[0, 0] * site.mean[0, 0]
        column = covariance[rest, j] - stub[:j, j] @ stub[:j, rest]
        column /= site.length[0, 0]
        stub[j, rest] = column
        mean[rest, 0] += column * site.step[0, 0]
        variance[rest, 0] -= np.square(column)
    return sites


def noise_sites(likelihood: Gaussian, target: Doubles, weight: Doubles | None = None) -> Doubles:
    """Return the sites of Gaussian noise, (2, d); these are also minus their slopes in log sigma^2.

    They are 1 / sigma^2 and y / sigma^2, times the row weight, in any order of inclusion.
    """
    sites = np.stack([np.ones_like(target), target]) / likelihood.noise_variance
    return sites if weight is None else weight * sites


def with_parameters(
    kernels: Sequence[Kernel], likelihood: Likelihood, parameters: Doubles
) -> tuple[list[Kernel], Likelihood]:
    """Return the kernels and the likelihood with other parameters, (q,)."""
    ends = np.cumsum([len(kernel.parameters()) for kernel in kernels])
    *own, others = np.split(parameters, ends)
    changed = [kernel.with_parameters(some) for kernel, some in zip(kernels, own, strict=True)]
    return changed, likelihood.with_parameters(others)


def parameter_names(kernels: Sequence[Kernel], likelihood: Likelihood) -> tuple[str, ...]:
    """Return parameter names for `hyperpriors.parse`, such as "1:rbf.length_scale" for kernel 1.

    A single kernel's number is left out.
    """
    several = len(kernels) > 1
    own = [
        f"{c}:{name}" if several else name
        for c, kernel in enumerate(kernels)
        for name in kernel.parameter_names
    ]
    return (*own, *(f"{likelihood.name}.{name}" for name in likelihood.parameter_names))
