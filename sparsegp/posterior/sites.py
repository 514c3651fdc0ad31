"""Posteriors from Gaussian sites on the active rows, one function each.

Both are Gaussian process regression on the site means (GR section 4.5): coefficients L^-1 site.
"""

import logging

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.posterior.base import ActiveRows, PosteriorWeights, Rows
from sparsegp.posterior.calibration import with_calibration
from sparsegp.types import Doubles

logger = logging.getLogger(__name__)

TOLERANCE = 1e-8
MAX_ROUNDS = 5000


def adf(active: ActiveRows, rows: Rows) -> PosteriorWeights:
    """Return the posterior of the sites as set at inclusion (GR section 5, SLH algorithm 1).

    It is calibrated on the validation rows, if there are any: active rows are the hard ones, and
    if there are few of them the variance elsewhere is too large.
    """
    weights = regression(active, active.site)
    return with_calibration(active, rows, weights) if rows.calibrate else weights


def regression(active: ActiveRows, site: Doubles) -> PosteriorWeights:
    """Return the posterior of Gaussian process regression on site means (d, R)."""
    parts = zip(active.factors(), active.members(), active.columns(), strict=True)
    return PosteriorWeights(
        [solve_lower(factor, site[members, columns]) for factor, members, columns in parts]
    )


def active_only(active: ActiveRows, rows: Rows) -> PosteriorWeights:
    """Return the posterior of sites iterated to convergence on the active rows (GR eq. 4.6).

    Iterates m <- C (Pi^-1 + C)^-1 (m + p(m) / b), where b is the bound on the curvature and Pi
    holds the row weights times b, with Nesterov's momentum, which is reset when it points against
    the last step. Stops when no mean moves by more than `TOLERANCE` times max(1, largest |mean|).
    """
    x = np.asarray(active.x, dtype=np.float64)
    pairs = zip(active.kernels, active.precision.T, strict=True)
    smoothers = [_smoother(kernel, x, precision) for kernel, precision in pairs]
    mean = np.zeros_like(active.site)
    extrapolated, momentum = mean, 0
    site, likelihood = active.site, active.likelihood
    bound = likelihood.curvature_bound
    for round_ in range(MAX_ROUNDS):
        site = extrapolated + likelihood.gradient(extrapolated, active.target)[1] / bound
        new = np.concatenate(
            [s @ site[:, k] for s, k in zip(smoothers, active.columns(), strict=True)], axis=1
        )
        step = new - mean
        momentum = 0 if np.vdot(extrapolated - new, step) > 0.0 else momentum + 1
        mean, extrapolated = new, new + momentum / (momentum + 3.0) * step
        if np.abs(step).max() <= TOLERANCE * max(1.0, np.abs(new).max()):
            logger.info("posterior active: converged after %d rounds", round_ + 1)
            site = mean + likelihood.gradient(mean, active.target)[1] / bound
            return regression(active, site)
    logger.warning(
        "posterior active: stopped after %d rounds; means still move by %.1e",
        MAX_ROUNDS,
        np.abs(step).max(),
    )
    return regression(active, site)


def _smoother(kernel: Kernel, x: Doubles, precision: Doubles) -> Doubles:
    """Return C (Pi^-1 + C)^-1 = I - Pi^-1 (Pi^-1 + C)^-1, (d, d)."""
    noise = np.diag(1.0 / precision)
    factor = lower_cholesky(np.asarray(kernel(x, x) + noise), "the covariance of the active rows")
    half = solve_lower(factor, np.eye(len(x)))
    return np.eye(len(x)) - (half.T @ half) / precision[:, np.newaxis]
