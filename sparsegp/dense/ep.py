"""Expectation propagation, and sites that match moments.

Rasmussen & Williams 2006, section 3.6, algorithms 3.5 and 3.6 (RW); for the softmax Cseke & Csato
2005 (CC). The sites are Gaussian factors exp(h' z - z' P z / 2) in linear combinations z = B' u of
the latent values of a row: a single latent value, or the differences of several. Each is computed
from its cavity (the posterior without it) so that replacing the site by the row's likelihood leaves
the mean and covariance of the posterior unchanged.

A sequential sweep makes the updates of RW in blocks of rows: the columns of a block are updated
after every site, all others in one product at the end of the block.

With moments="laplace" a tilted density is expanded about its mode (CC section 3.2). The sites are
then second-order expansions of the terms themselves, and the fixed point is the Laplace
approximation of the whole posterior: the mode, the curvature there, and its log evidence.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem, Status
from sparsegp.dense.precisions import SitePosterior
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.fields import setting
from sparsegp.likelihoods.softmax_sites import contrasts, match_moments
from sparsegp.types import Doubles

BLOCK = 32
MAX_POINTS = 20_000
"""Maximum number of points per row: enough for 7 nodes with up to 6 classes."""


class Matching(Method):
    """A method with sites that match moments."""

    @abstractmethod
    def match(
        self, problem: Problem, rows: slice, mean: Doubles, covariance: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Return log normalisers (m,) and sites (m, d, d + 1) that match terms under cavities.

        A site is P with h as an additional column. The cavities are Gaussian in z, with means
        (m, d) and covariances (m, d, d).
        """

    def tilted(
        self,
        problem: Problem,
        rows: slice,
        mean: Doubles,
        covariance: Doubles,
        sites: Doubles,
        extra: Doubles | float = 0.0,
    ) -> tuple[Doubles, Doubles, float]:
        """Replace the sites (m, d, d + 1) of rows by their terms (RW eqs. 3.56-3.59).

        Under the posterior z has means m (m, d) and covariances S (m, d, d). With g = P m - h the
        cavity has the covariance C = (I - S P)^-1 S and the mean m + C g, and its integral is that
        of the posterior times exp((m' (g - h) + g' C g) / 2) / |I - S P|^1/2. `extra` is the
        covariance of a part of z that enters the terms, but not the sites.

        Return the log normalisers with terms in place of sites, (m,); the sites that match their
        moments; and the largest difference between posterior and tilted moments, in units of the
        posterior scale.
        """
        column, P, h = mean[..., np.newaxis], sites[..., :-1], sites[..., -1:]
        unit = np.eye(mean.shape[1])
        share = unit - covariance @ P
        sign, log_share = np.linalg.slogdet(share)
        if not (sign > 0.0).all():
            raise NumericalError(
                "the posterior without a row must be a Gaussian, found a cavity of no positive "
                "variance; use a kernel of smaller variance"
            )
        g, cavity = P @ column - h, np.linalg.solve(share, covariance)
        cavity = 0.5 * (cavity + cavity.swapaxes(1, 2))
        rise = cavity @ g
        log_z, found = self.match(problem, rows, (column + rise)[..., 0], cavity + extra)
        log_z = log_z + 0.5 * ((column * (g - h) + g * rise).sum(axis=(1, 2)) - log_share)
        spread = np.linalg.solve(unit + cavity @ found[..., :-1], cavity)
        pull = found[..., -1:] - found[..., :-1] @ (column + rise)
        scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))[..., np.newaxis]
        by_mean = np.abs(rise + spread @ pull) / scale
        by_covariance = np.abs(spread - covariance) / (scale * scale.swapaxes(1, 2))
        return log_z, found, float(max(by_mean.max(), by_covariance.max()))


@dataclass(frozen=True)
class SitesState:
    """Sites (n, d, d + 1), and for each sweep its largest moment difference and the log evidence.

    Sequential sweeps give no log evidence.
    """

    sites: Doubles
    differences: tuple[float, ...] = ()
    log_evidences: tuple[float, ...] = ()


class Propagation(Matching):
    """Expectation propagation; subclasses declare the annotations as fields, in their own order."""

    State: ClassVar[type] = SitesState

    damping: float
    tolerance: float
    max_sweeps: int
    advice: ClassVar[str]
    """Advice in the message about non-convergence."""

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> SitesState:
        """Return zero sites, or those found for nearby parameters; see `Method`."""
        d = max(problem.n_latent - 1, 1)
        none = np.zeros((len(problem.x), d, d + 1))
        return SitesState(none if near is None or near.shape != none.shape else near)

    def posterior(self, problem: Problem, sites: Doubles) -> SitePosterior:
        """Return the Gaussian posterior, the prior times the sites."""
        R = problem.n_latent
        basis = np.ones((len(sites), 1, 1)) if R == 1 else contrasts(problem.target, R)
        return SitePosterior(problem.prior, sites, basis)

    def evaluate_sites(
        self, problem: Problem, sites: Doubles
    ) -> tuple[SitePosterior, float, Doubles, float]:
        """Return posterior, log evidence (RW eq. 3.65), matching sites and moment difference."""
        posterior = self.posterior(problem, sites)
        moments = posterior.mean, posterior.covariance
        log_z, found, difference = self.tilted(problem, slice(None), *moments, sites)
        return posterior, posterior.log_integral + float(log_z.sum()), found, difference

    def step(self, problem: Problem, state: SitesState, run_tasks: Any) -> SitesState:
        """Return the state after a sweep that updates all sites simultaneously.

        Raises
        ------
        NumericalError
            If the moments do not match after `max_sweeps` sweeps.
        """
        if len(state.differences) >= self.max_sweeps:
            raise NumericalError(
                f"{self} must agree with its tilted moments to {self.tolerance:g}, found a "
                f"difference of {state.differences[-1]:.2g} after {self.max_sweeps} sweeps; use "
                f"{self.advice}, a smaller damping, or a kernel of smaller variance"
            )
        _, log_evidence, found, difference = self.evaluate_sites(problem, state.sites)
        return SitesState(
            state.sites + self.damping * (found - state.sites),
            (*state.differences, difference),
            (*state.log_evidences, log_evidence),
        )

    def status(self, state: SitesState) -> Status:
        """Return the progress; it is finished when the moments match."""
        every = {"log_evidence": state.log_evidences, "difference": state.differences}
        latest = {name: values[-1] for name, values in every.items() if values}
        finished = latest.get("difference", np.inf) <= self.tolerance
        return Status(len(state.differences), 0, finished, latest)

    def gradient(self, problem: Problem, state: SitesState) -> LogEvidence:
        """Return the log marginal likelihood and its gradient; see `Method`.

        At the fixed point it is stationary in the sites, so only the explicit dependence on the
        prior covariance counts (RW eq. 5.27; Seeger 2005).
        """
        posterior, log_evidence, _, _ = self.evaluate_sites(problem, state.sites)
        return LogEvidence(log_evidence, problem.pull_back(posterior.pull_back()), state.sites)


@dataclass(frozen=True)
class EP(Propagation, name="ep"):
    """Expectation propagation for two classes.

    Parameters
    ----------
    schedule : str
        "sequential": the posterior is updated after every site; "parallel": all sites are updated
        simultaneously, which makes sweeps faster but needs more of them, or a smaller `damping`.
    damping : float
        Step of a site towards its new parameters, as a fraction, up to 1.
    tolerance : float
        Largest difference at the end between marginal and tilted distributions: of the means in
        standard deviations, and of the variances relative to the marginal ones.
    max_sweeps : int
    """

    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "logistic")
    advice: ClassVar[str] = "more max_sweeps"

    schedule: str = setting("sequential", choices=("sequential", "parallel"))
    damping: float = setting(1.0, above=0.0, most=1.0)
    tolerance: float = setting(1e-7, above=0.0)
    max_sweeps: int = setting(200, least=1)

    def match(
        self, problem: Problem, rows: slice, mean: Doubles, covariance: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Match the `moments` of a likelihood with one latent value; see `Matching`."""
        variance = covariance[:, 0]
        found = problem.likelihood.moments(mean, variance, problem.target[rows])
        site = [found.curvature, mean * found.curvature + found.slope]
        rest = 1.0 - variance * found.curvature
        return found.log_z, np.stack(site, axis=-1) / rest[..., np.newaxis]

    def step(self, problem: Problem, state: SitesState, run_tasks: Any) -> SitesState:
        """Return the state after a sequential or parallel sweep; see `Propagation`.

        In a sequential one, with s column i of the covariance and d_tau, d_nu the change of site i,

            S <- S - c s s'     m <- m + (d_nu - d_tau m_i) / (1 + d_tau S_ii) s     (RW eq. 3.70)

        where c = d_tau / (1 + d_tau S_ii). The largest difference of the sweep is recorded.
        """
        if self.schedule == "parallel" or len(state.differences) >= self.max_sweeps:
            return super().step(problem, state, run_tasks)
        posterior = self.posterior(problem, state.sites)
        half = posterior.full.half_solve(0, problem.prior[0])
        sites, mean, worst = state.sites.copy(), posterior.mean.copy(), 0.0
        whole = problem.prior[0] - half.T @ half  # RW eq. 3.68
        for start in range(0, len(mean), BLOCK):
            columns = whole[:, start : start + BLOCK].copy()
            count = columns.shape[1]
            scales = np.empty(count)
            for k in range(count):
                row = slice(start + k, start + k + 1)
                moments = mean[row], columns[row, k, np.newaxis, np.newaxis]
                _, found, difference = self.tilted(problem, row, *moments, sites[row])
                worst = max(worst, difference)
                change = self.damping * (found - sites[row])
                sites[row] += change
                (tau, nu), column = change[0, 0], columns[:, k]
                spread = 1.0 + tau * column[start + k]
                scales[k] = tau / spread
                mean[:, 0] += (nu - tau * mean[start + k, 0]) / spread * column
                own = column[start + k + 1 : start + count]
                columns[:, k + 1 :] -= scales[k] * np.outer(column, own)
            whole -= (columns * scales) @ columns.T
        return SitesState(sites, (*state.differences, worst))

    def finish(self, problem: Problem, state: SitesState, run_tasks: Any) -> Fit:
        """Return the posterior; see `Method`."""
        posterior, log_evidence, _, _ = self.evaluate_sites(problem, state.sites)
        coefficients, residuals = posterior.coefficients[np.newaxis], state.differences
        return Fit(
            [problem.posterior(coefficients, "independent", state.sites[:, :, 0])],
            log_evidence,
            [{"residual": residual} for residual in residuals],
            {"sweeps": len(residuals), "residual": residuals[-1]},
        )


@dataclass(frozen=True)
class SoftmaxMatching(Matching):
    """A method with sites that match moments of the softmax.

    Parameters
    ----------
    moments : str
        ``quadrature`` or ``laplace``: expansion of tilted densities about their modes.
    n_nodes : int
        Nodes of the product rule along each of the R - 1 dimensions.
    """

    likelihoods: ClassVar[tuple[str, ...]] = ("softmax",)

    moments: str = setting("quadrature", choices=("quadrature", "laplace"))
    n_nodes: int = setting(7, least=3)

    def points(self, n_latent: int) -> int:
        """Return the number of points per row; raise a SettingsError if there are too many."""
        points = 1 if self.moments == "laplace" else int(self.n_nodes ** (n_latent - 1))
        if points > MAX_POINTS:
            raise SettingsError(
                f"moments='quadrature' needs {self.n_nodes}^{n_latent - 1} = {points} points a row "
                f"for {n_latent} classes, more than {MAX_POINTS}; use moments='laplace' or fewer "
                "n_nodes"
            )
        return points

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return the peak number of (n, n) matrices; see `Method`."""
        return n_kernels + 5 * n_latent**2

    def match(
        self, problem: Problem, rows: slice, mean: Doubles, covariance: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Match moments by quadrature, or expand about the modes; see `Matching`."""
        n_nodes = 0 if self.moments == "laplace" else self.n_nodes
        return match_moments(mean, covariance, problem.target[rows], problem.biases, n_nodes)


@dataclass(frozen=True)
class SoftmaxEP(SoftmaxMatching, Propagation, name="softmax_ep"):
    """Expectation propagation for the softmax.

    Parameters
    ----------
    moments, n_nodes
        See `SoftmaxMatching`.
    damping : float
        Step of a site towards its new parameters in a sweep, as a fraction in (0, 1].
    tolerance : float
        Largest difference between posterior and tilted moments at the end, in units of the
        posterior scale of a row.
    max_sweeps : int
    """

    advice: ClassVar[str] = "more n_nodes"

    damping: float = setting(0.5, above=0.0, most=1.0)
    tolerance: float = setting(1e-5, above=0.0)
    max_sweeps: int = setting(300, least=1)

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> SitesState:
        """Return the state before the first step; see `Method`."""
        self.points(problem.n_latent)  # raises if there are too many
        return super().start(problem, near)

    def step(self, problem: Problem, state: SitesState, run_tasks: Any) -> SitesState:
        """Make a sweep, but keep the sites if their moments already match; see `Propagation`."""
        found = super().step(problem, state, run_tasks)
        return replace(found, sites=state.sites) if self.status(found).finished else found

    def finish(self, problem: Problem, state: SitesState, run_tasks: Any) -> Fit:
        """Return the posterior as one component of the form "full"; see `Method`."""
        posterior = self.posterior(problem, state.sites)
        full, coefficients = posterior.full, posterior.coefficients[np.newaxis]
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
        """True with moments="quadrature"; the Laplace evidence is not stationary in the sites."""
        return self.moments == "quadrature"
