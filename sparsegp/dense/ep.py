"""Expectation propagation for one latent value a row.

Rasmussen & Williams 2006, section 3.6, algorithms 3.5 and 3.6 (RW). The sites are Gaussian factors
exp(nu_i u - tau_i u^2 / 2); each is set so that the posterior with the row's likelihood in its
place has the same mean and variance. Any likelihood will do, by its `moments`.

The updates of a sequential sweep are those of RW, in blocks of rows: the columns of a block are
kept up to date, all others follow at its end in one product.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Fit, LogEvidence, Method, Problem
from sparsegp.dense.driver import Status
from sparsegp.dense.precisions import SitePosterior
from sparsegp.errors import NumericalError
from sparsegp.fields import setting
from sparsegp.types import Doubles

BLOCK = 32


@dataclass(frozen=True)
class EPState:
    """Sites (2, n), tau and nu, and what `EP.tolerance` bounds, of each sweep so far."""

    sites: Doubles
    residuals: tuple[float, ...] = ()


@dataclass(frozen=True)
class EP(Method, name="ep"):
    """A Gaussian whose marginals agree with those of the rows' own tilted distributions.

    Parameters
    ----------
    schedule : str
        "sequential": the posterior follows every site; "parallel": all sites are set at a time,
        which is quicker for a sweep and needs more of them, or a smaller `damping`.
    damping : float
        Share of the way that a site goes towards its new parameters, up to 1.
    tolerance : float
        Largest difference of the means, in standard deviations, and of the variances, relative,
        between marginal and tilted distributions at the end.
    max_sweeps : int
    """

    State: ClassVar[type] = EPState
    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "logistic")

    schedule: str = setting("sequential", choices=("sequential", "parallel"))
    damping: float = setting(1.0, above=0.0, most=1.0)
    tolerance: float = setting(1e-7, above=0.0)
    max_sweeps: int = setting(200, least=1)

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> EPState:
        """Return sites of zero, or those nearby; see `Method`."""
        none = np.zeros((2, len(problem.x)))
        return EPState(none if near is None or near.shape != none.shape else near)

    def step(self, problem: Problem, state: EPState, run_tasks: Any) -> EPState:
        """Return sites after a sweep."""
        if len(state.residuals) >= self.max_sweeps:
            other = ", or schedule='sequential'" if self.schedule == "parallel" else ""
            raise NumericalError(
                f"ep must converge in max_sweeps={self.max_sweeps} sweeps, found marginals "
                f"that differ by {state.residuals[-1]:g} from the tilted ones, more than "
                f"tolerance={self.tolerance:g}; allow more sweeps, or use "
                f"damping={self.damping / 2:g}{other}"
            )
        sweep = _sequential if self.schedule == "sequential" else _parallel
        sites, residual = sweep(problem, state.sites, self.damping)
        return EPState(sites, (*state.residuals, residual))

    def status(self, state: EPState) -> Status:
        """Return the progress: the end is where the residual is small."""
        residual = state.residuals[-1] if state.residuals else np.inf
        finished = residual <= self.tolerance
        return Status(len(state.residuals), 0, finished, {"residual": residual})

    def finish(self, problem: Problem, state: EPState, run_tasks: Any) -> Fit:
        """Return the posterior; see `Method`."""
        posterior, residuals = posterior_of(problem, state.sites), state.residuals
        precision, coefficients = state.sites[0][:, np.newaxis], posterior.coefficients[np.newaxis]
        return Fit(
            [problem.posterior(coefficients, "independent", precision)],
            log_evidence(problem, posterior, state.sites),
            [{"residual": residual} for residual in residuals],
            {"sweeps": len(residuals), "residual": residuals[-1]},
        )

    def gradient(self, problem: Problem, state: EPState) -> LogEvidence:
        """Return the log marginal likelihood and its gradient; see `Method`.

        The sites make it stationary, so that only the prior covariance counts (RW eq. 5.27).
        """
        posterior = posterior_of(problem, state.sites)
        value = log_evidence(problem, posterior, state.sites)
        return LogEvidence(value, problem.pull_back(posterior.pull_back()), state.sites)


def posterior_of(problem: Problem, sites: Doubles) -> SitePosterior:
    """Return the Gaussian that sites (2, n) make of the prior."""
    return SitePosterior(problem.prior, sites.T[:, np.newaxis], np.ones((sites.shape[1], 1, 1)))


def log_evidence(problem: Problem, posterior: SitePosterior, sites: Doubles) -> float:
    """Return log Z_EP (RW eqs. 3.65, 3.73 and 3.74).

    With r, m the marginals, a, h the cavities and Z_i the normalisers of the rows,

        log Z = sum_i (log Z_i + h_i^2 / 2 a_i - m_i^2 / 2 r_i + log(a_i / r_i) / 2)
                + nu'm / 2 - log|I + K T| / 2                                        T = diag(tau)

    where h^2 / a - m^2 / r = (tau m^2 - 2 nu m + r nu^2) / (1 - tau r) and a / r = 1 / (1 - tau r).
    """
    (tau, nu), m, r = sites, posterior.mean[:, 0], posterior.covariance[:, 0, 0]
    log_z, _, _ = _tilted(problem, slice(None), m, r, sites)
    share = 1.0 - tau * r
    terms = (tau * m * m - 2.0 * nu * m + r * nu * nu) / share - np.log(share)
    return float(log_z.sum() + 0.5 * terms.sum() + posterior.log_integral)


def _tilted(
    problem: Problem, rows: slice, mean: Doubles, variance: Doubles, sites: Doubles
) -> tuple[Doubles, Doubles, float]:
    """Put likelihoods in place of sites (2, m), for rows of such marginals (RW eqs. 3.56-3.59).

    Return the log normalisers (m,), the sites that would have the same moments, and the largest
    difference between marginal and tilted moments.
    """
    tau, nu = sites
    share = 1.0 - tau * variance
    if not (share > 0.0).all():
        raise NumericalError(
            f"the cavity variances of ep must be positive, found a share {share.min():g} of "
            "the marginal precision left; use a kernel of smaller variance"
        )
    a, h = variance / share, (mean - variance * nu) / share
    found = problem.likelihood.moments(h[:, np.newaxis], a[:, np.newaxis], problem.target[rows])
    slope, curvature = found.slope[:, 0], found.curvature[:, 0]
    rest = 1.0 - a * curvature
    matching = np.stack([curvature, h * curvature + slope]) / rest
    shift = np.abs(h + a * slope - mean) / np.sqrt(variance)
    stretch = np.abs(a * rest / variance - 1.0)
    return found.log_z, matching, float(max(shift.max(), stretch.max()))


def _parallel(problem: Problem, sites: Doubles, damping: float) -> tuple[Doubles, float]:
    """Return sites (2, n) after all have been set at a time, and the residual before."""
    posterior = posterior_of(problem, sites)
    moments = posterior.mean[:, 0], posterior.covariance[:, 0, 0]
    _, found, residual = _tilted(problem, slice(None), *moments, sites)
    return sites + damping * (found - sites), residual


def _sequential(problem: Problem, sites: Doubles, damping: float) -> tuple[Doubles, float]:
    """Return sites (2, n) after each has been set in turn, and the largest residual on the way.

    With s column i of the covariance and d_tau, d_nu the change of site i,

        S <- S - c s s'     m <- m + (d_nu - d_tau m_i) / (1 + d_tau S_ii) s     (RW eq. 3.70)

    where c = d_tau / (1 + d_tau S_ii).
    """
    posterior = posterior_of(problem, sites)
    half = posterior.full.halved(0, problem.prior[0])
    sites, mean, worst = sites.copy(), posterior.mean[:, 0].copy(), 0.0
    whole = problem.prior[0] - half.T @ half  # RW eq. 3.68
    for start in range(0, len(mean), BLOCK):
        columns = whole[:, start : start + BLOCK].copy()
        count = columns.shape[1]
        scales = np.empty(count)
        for k in range(count):
            rows = slice(start + k, start + k + 1)
            variance = columns[rows, k]
            _, found, residual = _tilted(problem, rows, mean[rows], variance, sites[:, rows])
            worst = max(worst, residual)
            change = damping * (found - sites[:, rows])[:, 0]
            sites[:, rows] += change[:, np.newaxis]
            spread = 1.0 + change[0] * variance[0]
            scales[k] = change[0] / spread
            column = columns[:, k]
            mean += (change[1] - change[0] * mean[start + k]) / spread * column
            own = column[start + k + 1 : start + count]
            columns[:, k + 1 :] -= scales[k] * np.outer(column, own)
        whole -= (columns * scales) @ columns.T
    return sites, worst
