"""The evidence, and its hyperprior, as a function of all parameters that are learnt.

The parameters are those of the kernel, then those of the likelihood, all of them free numbers.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsegp.ivm.evidence_rows import Representation, RowSums, pieces
from sparsegp.kernels import Kernel
from sparsegp.learning.adf import noise_sites, sites_in_order
from sparsegp.learning.evidence import ActivePart, SumRows, evidence
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.learning.through_sites import through_sites
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Objective:
    """What is minimised: phi(parameters, sites) - log P(parameters), in nats.

    For Gaussian noise the sites are known functions of its variance. There, unless `sites_held`,
    the criterion is that of these sites, whichever are given, with its whole gradient.

    Parameters
    ----------
    kernel : Kernel
    likelihood : Likelihood
        Of one latent value. The two say where to start, and what the parameters are.
    x : Floats (d, p)
        Scaled inputs of the active rows in the order of inclusion.
    target : array (d,)
    sum_rows : callable
        The sums over all other rows that count; see `asking`.
    hyperprior : Hyperprior, optional
    sites_held : bool
    """

    kernel: Kernel
    likelihood: Likelihood
    x: Floats
    target: Any
    sum_rows: SumRows
    hyperprior: Hyperprior = field(default_factory=Hyperprior)
    sites_held: bool = False

    @property
    def start(self) -> Doubles:
        """The parameters of kernel and likelihood, (q,)."""
        return np.concatenate([self.kernel.parameters(), self.likelihood.parameters()])

    def model(self, parameters: Doubles) -> tuple[Kernel, Likelihood]:
        """Return kernel and likelihood with parameters (q,)."""
        own, others = np.split(parameters, [len(self.kernel.parameters())])
        return self.kernel.with_parameters(own), self.likelihood.with_parameters(others)

    def evaluate(self, parameters: Doubles, sites: Doubles) -> tuple[float, Doubles]:
        """Return the criterion and its gradient, (q,), for sites (2, d).

        Raises
        ------
        NumericalError, SettingsError
            If the parameters are out of all range.
        """
        kernel, likelihood = self.model(parameters)
        follow: Doubles | None = None
        if isinstance(likelihood, Gaussian) and not self.sites_held:
            sites, follow = noise_sites(likelihood, np.asarray(self.target, np.float64))
        found = evidence(
            kernel, likelihood, self.x, self.target, sites, self.sum_rows, follow is not None
        )
        by_likelihood = found.likelihood
        if follow is not None and found.sites is not None:
            by_likelihood = by_likelihood + np.vdot(found.sites, follow)
        value, gradient = self.hyperprior(parameters)
        return found.phi + value, np.concatenate([found.kernel, by_likelihood]) + gradient

    def follow(self, parameters: Doubles) -> tuple[float, Doubles]:
        """Return the criterion with sites set anew, and its whole gradient, (q,).

        Raises
        ------
        NumericalError, SettingsError
            If the parameters are out of all range.
        """
        kernel, likelihood = self.model(parameters)
        if isinstance(likelihood, Gaussian):
            return replace(self, sites_held=False).evaluate(parameters, np.empty(0))
        sites = sites_in_order(kernel, likelihood, self.x, self.target)
        found = evidence(kernel, likelihood, self.x, self.target, sites, self.sum_rows, True)
        assert found.sites is not None
        active = ActivePart.of(kernel, likelihood, self.x, sites)
        by_kernel, by_likelihood = through_sites(active, self.target, found.sites)
        value, gradient = self.hyperprior(parameters)
        gradient += np.concatenate([found.kernel + by_kernel, found.likelihood + by_likelihood])
        return found.phi + value, gradient

    def resite(self, parameters: Doubles) -> Doubles:
        """Return the sites set anew in the order of inclusion, (2, d)."""
        kernel, likelihood = self.model(parameters)
        if isinstance(likelihood, Gaussian):
            return noise_sites(likelihood, np.asarray(self.target, np.float64))[0]
        return sites_in_order(kernel, likelihood, self.x, self.target)


def parameter_names(kernel: Kernel, likelihood: Likelihood) -> tuple[str, ...]:
    """Return what the parameters are, for `hyperpriors.parse`."""
    return (
        *kernel.parameter_names,
        *(f"{likelihood.name}.{name}" for name in likelihood.parameter_names),
    )


def asking(map_blocks: Any, n_rows: int, tile: int, unit: int) -> SumRows:
    """Return a function that asks all blocks for their sums.

    Parameters
    ----------
    map_blocks : callable
        From a method's name and arguments to the answers of the blocks, in order of their rows;
        None of blocks whose rows do not count.
    n_rows : int
        Training rows.
    tile, unit : int
        Rows in a tile, tiles in a group.
    """
    spare = pieces(n_rows, tile, unit).bit_length()

    def sum_rows(representation: Representation) -> list[RowSums]:
        answers = map_blocks("evidence", representation, spare)
        return [answer for answer in answers if answer is not None]

    return sum_rows
