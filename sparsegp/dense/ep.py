"""Expectation propagation for one latent value a row.

Rasmussen & Williams 2006, section 3.6, algorithms 3.5 and 3.6 (RW). The sites are Gaussian factors
exp(nu_i u - tau_i u^2 / 2); each is set so that the posterior with the row's likelihood in its
place has the same mean and variance. Any likelihood will do, by its `moments`.

The updates of a sequential sweep are those of RW, in blocks of rows: the columns of a block are
kept up to date, all others follow at its end in one product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.base import Alone, Evidence, Fit, Method, Problem, Watch
from sparsegp.dense.component import Component
from sparsegp.dense.precisions import Independent
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.types import Doubles

SCHEDULES = ("sequential", "parallel")
BLOCK = 32


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

    likelihoods: ClassVar[tuple[str, ...]] = ("probit", "logistic")

    schedule: str = "sequential"
    damping: float = 1.0
    tolerance: float = 1e-7
    max_sweeps: int = 200

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise SettingsError(
                f"schedule of ep must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}"
            )
        if not 0.0 < self.damping <= 1.0:
            raise SettingsError(f"damping of ep must be above 0, up to 1, got {self.damping}")
        if not self.tolerance > 0.0:
            raise SettingsError(f"tolerance of ep must be positive, got {self.tolerance}")
        if self.max_sweeps < 1:
            raise SettingsError(f"max_sweeps of ep must be at least 1, got {self.max_sweeps}")

    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior; see `Method`."""
        covariance = problem.covariances()[0]
        found = self._converge(problem, covariance, None, watch)
        posterior = Posterior(covariance, found.sites)
        component = Component(
            problem.kernels,
            problem.likelihood,
            posterior.coefficients[np.newaxis, :, np.newaxis],
            Independent.name,
            found.sites[0][:, np.newaxis],
        )
        return Fit(
            [component],
            log_evidence(problem, posterior),
            [{"residual": residual} for residual in found.residuals],
            {"sweeps": len(found.residuals), "residual": found.residuals[-1]},
        )

    def evidence(self, problem: Problem, start: NDArray[Any] | None = None) -> Evidence:
        """Return the log marginal likelihood and its gradient; see `Method`.

        The sites make it stationary, so that only the prior covariance counts (RW eq. 5.27).
        """
        covariance = problem.covariances()[0]
        found = self._converge(problem, covariance, start, Alone())
        posterior = Posterior(covariance, found.sites)
        b = posterior.coefficients
        weights = 0.5 * (np.outer(b, b) - posterior.factored.block(0))
        value = log_evidence(problem, posterior)
        return Evidence(value, problem.pull_back([weights]), found.sites)

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices it holds; see `Method`."""
        return 8

    def _converge(
        self, problem: Problem, covariance: Doubles, start: NDArray[Any] | None, watch: Watch
    ) -> "Sweeps":
        if problem.n_latent != 1:
            raise SettingsError(
                f"method=ep is for one latent value a row, got {problem.n_latent} with "
                f"likelihood={problem.likelihood.name}; use laplace"
            )
        sweep = _sequential if self.schedule == "sequential" else _parallel
        state = Sweeps.begin(len(covariance), start, watch.former)
        while not state.residuals or state.residuals[-1] > self.tolerance:
            done = len(state.residuals)
            if done >= self.max_sweeps:
                other = ", or schedule='sequential'" if self.schedule == "parallel" else ""
                raise NumericalError(
                    f"ep must converge in max_sweeps={self.max_sweeps} sweeps, found marginals "
                    f"that differ by {state.residuals[-1]:g} from the tilted ones, more than "
                    f"tolerance={self.tolerance:g}; allow more sweeps, or use "
                    f"damping={self.damping / 2:g}{other}"
                )
            sites, residual = sweep(problem, covariance, state.sites, self.damping)
            state = Sweeps(sites, (*state.residuals, residual))
            watch.say(done + 1, 0, state.arrays, residual=residual)
        return state


@dataclass(frozen=True)
class Sweeps:
    """How far the sweeps are.

    Attributes
    ----------
    sites : Doubles (2, n)
        tau and nu.
    residuals : tuple of float
        What `EP.tolerance` bounds, of each sweep.
    """

    sites: Doubles
    residuals: tuple[float, ...] = ()

    @classmethod
    def begin(
        cls, n: int, start: NDArray[Any] | None, former: Mapping[str, NDArray[Any]]
    ) -> "Sweeps":
        """Return what was reached before, or sites that are given, or none."""
        if "ep_sites" in former:
            return cls(former["ep_sites"], tuple(former["ep_residuals"].tolist()))
        if start is not None and start.shape == (2, n):
            return cls(np.asarray(start, np.float64))
        return cls(np.zeros((2, n)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays."""
        return {"ep_sites": self.sites, "ep_residuals": np.array(self.residuals)}


class Posterior:
    """The Gaussian that sites (2, n) make of the prior.

    Attributes
    ----------
    factored : Independent
    coefficients, mean : Doubles (n,)
        b = (I - V K) nu and K b.
    """

    def __init__(self, covariance: Doubles, sites: Doubles) -> None:
        tau, nu = self.sites = sites
        self.prior = covariance
        self.factored = Independent(tau[:, np.newaxis], covariance[np.newaxis], 1)
        pull = self.factored.apply((covariance @ nu)[:, np.newaxis, np.newaxis])
        self.coefficients = nu - pull[:, 0, 0]
        self.mean = covariance @ self.coefficients

    def variance(self) -> Doubles:
        """Return the marginal variances, (n,)."""
        half = self.factored.halved(0, self.prior)
        return np.asarray(np.diag(self.prior) - np.square(half).sum(axis=0))

    def covariance(self) -> Doubles:
        """Return the covariance, (n, n) (RW eq. 3.68)."""
        half = self.factored.halved(0, self.prior)
        return np.asarray(self.prior - half.T @ half)


@dataclass(frozen=True)
class Tilted:
    """Rows' likelihoods in place of their sites.

    Attributes
    ----------
    log_z : Doubles (n,)
    sites : Doubles (2, n)
        Those that would have the same moments.
    residual : float
        Largest difference between marginal and tilted moments.
    """

    log_z: Doubles
    sites: Doubles
    residual: float

    @classmethod
    def of(
        cls, problem: Problem, rows: slice, mean: Doubles, variance: Doubles, sites: Doubles
    ) -> "Tilted":
        """Return those of some rows from their marginals and sites (RW eqs. 3.56-3.59).

        Raises
        ------
        NumericalError
            If a cavity variance is not positive.
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
        ahead = np.stack([curvature, h * curvature + slope]) / rest
        shift = np.abs(h + a * slope - mean) / np.sqrt(variance)
        stretch = np.abs(a * rest / variance - 1.0)
        return cls(found.log_z, ahead, float(max(shift.max(), stretch.max())))


def _parallel(
    problem: Problem, covariance: Doubles, sites: Doubles, damping: float
) -> tuple[Doubles, float]:
    """Return sites after all have been set at a time, and the residual before."""
    posterior = Posterior(covariance, sites)
    found = Tilted.of(problem, slice(None), posterior.mean, posterior.variance(), sites)
    return sites + damping * (found.sites - sites), found.residual


def _sequential(
    problem: Problem, covariance: Doubles, sites: Doubles, damping: float
) -> tuple[Doubles, float]:
    """Return sites after each has been set in turn, and the largest residual on the way.

    With s column i of the covariance and d_tau, d_nu the change of site i,

        S <- S - c s s'     m <- m + (d_nu - d_tau m_i) / (1 + d_tau S_ii) s     (RW eq. 3.70)

    where c = d_tau / (1 + d_tau S_ii).
    """
    posterior = Posterior(covariance, sites)
    sites, mean, whole = sites.copy(), posterior.mean.copy(), posterior.covariance()
    worst = 0.0
    for start in range(0, len(mean), BLOCK):
        columns = whole[:, start : start + BLOCK].copy()
        count = columns.shape[1]
        scales = np.empty(count)
        for k in range(count):
            rows = slice(start + k, start + k + 1)
            variance = columns[rows, k]
            found = Tilted.of(problem, rows, mean[rows], variance, sites[:, rows])
            worst = max(worst, found.residual)
            change = damping * (found.sites - sites[:, rows])[:, 0]
            sites[:, rows] += change[:, np.newaxis]
            spread = 1.0 + change[0] * variance[0]
            scales[k] = change[0] / spread
            column = columns[:, k]
            mean += (change[1] - change[0] * mean[start + k]) / spread * column
            own = column[start + k + 1 : start + count]
            columns[:, k + 1 :] -= scales[k] * np.outer(column, own)
        whole -= (columns * scales) @ columns.T
    return sites, worst


def log_evidence(problem: Problem, posterior: Posterior) -> float:
    """Return log Z_EP (RW eqs. 3.65, 3.73 and 3.74).

    With r, m the marginals, a, h the cavities and Z_i the normalisers of the rows,

        log Z = sum_i (log Z_i + h_i^2 / 2 a_i - m_i^2 / 2 r_i + log(a_i / r_i) / 2)
                + nu'm / 2 - log|I + K T| / 2                                        T = diag(tau)

    where h^2 / a - m^2 / r = (tau m^2 - 2 nu m + r nu^2) / (1 - tau r) and a / r = 1 / (1 - tau r).
    """
    (tau, nu), m, r = posterior.sites, posterior.mean, posterior.variance()
    found = Tilted.of(problem, slice(None), m, r, posterior.sites)
    share = 1.0 - tau * r
    terms = (tau * m * m - 2.0 * nu * m + r * nu * nu) / share - np.log(share) + nu * m
    total = found.log_z.sum() + 0.5 * terms.sum() - 0.5 * posterior.factored.log_det
    return float(total)
