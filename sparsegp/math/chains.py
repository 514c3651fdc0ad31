"""Convergence of Markov chains: split R-hat and effective sample size.

Every chain is split into two halves, so that drift within a chain is detected as well as
differences between chains (Gelman et al. 2013, section 11.4). Draws are (chains, S, ...); the
remaining axes index quantities, each of which gets its own value, or nan if it never changes.
"""

import numpy as np
from scipy.fft import irfft, rfft

from sparsegp.types import Doubles


def r_hat(draws: Doubles) -> Doubles:
    """Return the potential scale reduction factor, (...); near 1 for chains that have mixed."""
    _, within, total = _halves(draws)
    with np.errstate(invalid="ignore", divide="ignore"):  # quantities that never change
        return np.asarray(np.sqrt(total / within))


def effective_sample_size(draws: Doubles) -> Doubles:
    """Return the effective sample size for the mean, (...).

    Autocorrelations are summed in pairs up to the first pair that is not positive, and the pairs
    are made non-increasing (Geyer 1992).
    """
    centred, within, total = _halves(draws)
    chains, n = centred.shape[:2]
    covariance = irfft(np.abs(rfft(centred, 2 * n, axis=1)) ** 2, axis=1)[:, :n].mean(axis=0) / n
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, *total.shape).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0.0)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0))
    count = chains * n
    # the lower bound keeps the result for antithetic chains from becoming arbitrarily large
    length = np.maximum(2.0 * falling.sum(axis=0) - 1.0, 1.0 / np.log10(count))
    return np.asarray(np.where(total > 0.0, count / length, np.nan))


def _halves(draws: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Return the centred halves (2 chains, S // 2, ...), and the variances (...) W and V.

    W is the variance within halves, V that of all draws; V exceeds W until the chains have mixed.
    """
    n = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :n], draws[:, draws.shape[1] - n :]])
    mean = halves.mean(axis=1)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    total = within * (n - 1.0) / n + mean.var(axis=0, ddof=1)
    return halves - mean[:, np.newaxis], within, total
