"""Expectation propagation for the softmax, with correlated sites (Cseke & Csato 2005; CC below).

The site of a row is a Gaussian over all its latent values. In a sweep all sites are set anew, each
from its cavity (the posterior without it), towards the one that matches the tilted moments; the
step is damped. At the fixed point every cavity times its term has the moments of the posterior.

With moments="laplace" a tilted density is expanded about its mode (CC section 3.2). The sites are
then the expansions of the terms themselves, and the fixed point is the Laplace approximation of the
whole posterior: the mode, the curvature there, and its log evidence.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem
from sparsegp.dense.driver import Status
from sparsegp.dense.precisions import SitePosterior
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.fields import Checked, setting
from sparsegp.likelihoods.softmax_sites import contrasts, matched
from sparsegp.state import UNSAVED
from sparsegp.types import Doubles, Integers

MAX_POINTS = 20_000
"""Points a row that are taken to be bearable: 7 nodes for up to 6 classes."""


@dataclass(frozen=True)
class Matching(Checked):
    """How sites are found.

    Parameters
    ----------
    moments : str
        ``quadrature`` or ``laplace``: the expansion of a tilted density about its mode.
    n_nodes : int
        Of the product rule, along each of the R - 1 dimensions.
    """

    likelihoods: ClassVar[tuple[str, ...]] = ("softmax",)

    moments: str = setting("quadrature", choices=("quadrature", "laplace"))
    n_nodes: int = setting(7, least=3)

    def points(self, n_latent: int) -> int:
        """Return the points a row; raises a SettingsError if these are too many."""
        points = 1 if self.moments == "laplace" else int(self.n_nodes ** (n_latent - 1))
        if points > MAX_POINTS:
            raise SettingsError(
                f"moments='quadrature' needs {self.n_nodes}^{n_latent - 1} = {points} points a row "
                f"for {n_latent} classes, more than {MAX_POINTS}; use moments='laplace' or fewer "
                "n_nodes"
            )
        return points

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds; see `Method`."""
        return n_kernels + 5 * n_latent**2

    def _tilted(
        self,
        moments: tuple[Doubles, Doubles],
        sites: Doubles,
        target: Integers,
        biases: Doubles,
        extra: Doubles | float = 0.0,
    ) -> tuple[Doubles, Doubles, float]:
        """Put terms in place of the sites of rows whose z have posterior means and covariances.

        Return the log normalisers with terms and without sites, (n,); the sites that would have the
        same moments, (n, d, d + 1); and the largest difference of posterior and tilted moments, in
        units of the posterior scale. `extra` is the covariance of what the terms act on, but not
        the sites.
        """
        mean, covariance = moments
        precision = np.asarray(np.linalg.inv(covariance), np.float64)
        natural = np.einsum("nij,nj->ni", precision, mean)
        cavity_precision, cavity_natural = precision - sites[..., :-1], natural - sites[..., -1]
        cavity = np.asarray(np.linalg.inv(cavity_precision), np.float64)
        cavity = 0.5 * (cavity + cavity.swapaxes(1, 2))
        centre = np.einsum("nij,nj->ni", cavity, cavity_natural)
        n_nodes = 0 if self.moments == "laplace" else self.n_nodes
        log_z, found = matched(centre, cavity + extra, target, biases, n_nodes)
        log_z += _log_volume(cavity_precision, cavity_natural) - _log_volume(precision, natural)

        tilted = np.asarray(np.linalg.inv(cavity_precision + found[..., :-1]), np.float64)
        tilted_mean = np.einsum("nij,nj->ni", tilted, cavity_natural + found[..., -1])
        scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        by_mean = np.abs(tilted_mean - mean) / scale
        square = scale[:, :, np.newaxis] * scale[:, np.newaxis]
        by_covariance = np.abs(tilted - covariance) / square
        return log_z, found, float(max(by_mean.max(), by_covariance.max()))


@dataclass(frozen=True)
class SoftmaxEPState:
    """Sites (n, d, d + 1), log evidence and difference of moments by sweeps, posterior at the end.

    The sites are exp(h_i' z_i - z_i' P_i z_i / 2) in the differences z_i = B_i' u_i of a row, with
    P_i and, as a last column, h_i.
    """

    sites: Doubles
    log_evidences: tuple[float, ...] = ()
    differences: tuple[float, ...] = ()
    posterior: Any = field(default=None, metadata=UNSAVED)


@dataclass(frozen=True)
class SoftmaxEP(Matching, Method, name="softmax_ep"):
    """Expectation propagation for the softmax.

    Parameters
    ----------
    moments, n_nodes
        See `Matching`.
    damping : float
        Share of the way that a site goes in a sweep, in (0, 1].
    tolerance : float
        Largest difference of posterior and tilted moments at the end, in units of the posterior
        scale of a row.
    max_sweeps : int
    """

    State: ClassVar[type] = SoftmaxEPState

    damping: float = setting(0.5, above=0.0, most=1.0)
    tolerance: float = setting(1e-5, above=0.0)
    max_sweeps: int = setting(300, least=1)

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> SoftmaxEPState:
        """Return sites of zero, or those nearby; see `Method`."""
        self.points(problem.n_latent)  # refuses too many
        shape = len(problem.x), problem.n_latent - 1, problem.n_latent
        return SoftmaxEPState(np.zeros(shape) if near is None else near)

    def step(self, problem: Problem, state: SoftmaxEPState, run_tasks: Any) -> SoftmaxEPState:
        """Set all sites anew, or find that they match.

        Raises
        ------
        NumericalError
            If they should match by now.
        """
        basis = contrasts(problem.target, problem.n_latent)
        posterior = SitePosterior(problem.prior, state.sites, basis)
        moments = posterior.mean, posterior.covariance
        log_z, sites, difference = self._tilted(
            moments, state.sites, problem.target, problem.biases
        )
        log_evidences = (*state.log_evidences, posterior.log_integral + float(np.sum(log_z)))
        differences = (*state.differences, difference)
        if difference <= self.tolerance:
            return SoftmaxEPState(state.sites, log_evidences, differences, posterior)
        if len(differences) > self.max_sweeps:
            raise NumericalError(
                f"{self} must agree with its tilted moments to {self.tolerance:g}, found a "
                f"difference of {difference:.2g} after {self.max_sweeps} sweeps; use more "
                "n_nodes, a smaller damping, or a kernel of smaller variance"
            )
        sites = state.sites + self.damping * (sites - state.sites)
        return SoftmaxEPState(sites, log_evidences, differences)

    def status(self, state: SoftmaxEPState) -> Status:
        """Return the progress: the end is where the moments match."""
        figures = {"log_evidence": state.log_evidences, "difference": state.differences}
        latest = {name: values[-1] for name, values in figures.items() if values}
        return Status(len(state.differences), 0, state.posterior is not None, latest)

    def finish(self, problem: Problem, state: SoftmaxEPState, run_tasks: Any) -> Fit:
        """Return the posterior; see `Method`. One component of the form "full"."""
        full, coefficients = state.posterior.full, state.posterior.coefficients[np.newaxis]
        rows = enumerate(zip(state.log_evidences, state.differences, strict=True))
        report = {
            "moments": self.moments,
            "points": self.points(problem.n_latent),
            "sweeps": len(state.differences) - 1,
            "difference": state.differences[-1],
        }
        return Fit(
            [problem.posterior(coefficients, full.name, full.precision)],
            state.log_evidences[-1],
            [{"step": k, "log_evidence": value, "difference": by} for k, (value, by) in rows],
            report,
        )

    @property
    def has_evidence(self) -> bool:
        """True with moments="quadrature"; the Laplace fixed point is no maximum of its evidence."""
        return self.moments == "quadrature"

    def gradient(self, problem: Problem, state: SoftmaxEPState) -> LogEvidence:
        """Return log Z_EP and its gradient; see `Method`.

        At the fixed point log Z_EP does not change with the sites (Seeger 2005), so the gradient is
        that of the prior alone. The value has the error of the product rule, which the gradient
        does not see.
        """
        gradient = problem.pull_back(state.posterior.pull_back())
        return LogEvidence(state.log_evidences[-1], gradient, state.sites)


def _log_volume(precision: Doubles, natural: Doubles) -> Doubles:
    """Return the log integral of exp(h' z - z' P z / 2), (n,), up to powers of 2 pi."""
    mean = np.linalg.solve(precision, natural[..., np.newaxis])[..., 0]
    square = np.einsum("ni,ni->n", natural, mean)
    return np.asarray(0.5 * (square - np.linalg.slogdet(precision)[1]))
