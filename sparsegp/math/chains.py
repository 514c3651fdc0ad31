"""How well chains of draws have mixed: split R-hat and the effective number of draws.

Both are of the ranks of the draws, made normal (Vehtari, Gelman, Simpson, Carpenter & Buerkner
2021), with every chain cut in two halves, so that a drift within a chain shows as well as a
difference between chains. Draws are (chains, S, ...), and each quantity behind the first two axes
has a figure of its own; it is nan for a quantity that never changes.
"""

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from sparsegp.types import Doubles


def r_hat(draws: Doubles) -> Doubles:
    """Return the potential scale reduction, (...): that of the draws or of their spread.

    The larger one; near 1 for chains that have mixed, and 1.01 is a common bound.
    """
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_reduction(_normal_ranks(halves)), _reduction(_normal_ranks(folded)))


def effective_draws(draws: Doubles) -> Doubles:
    """Return how many independent draws would determine the mean as well, (...).

    The autocorrelations are summed in pairs as long as these are positive, and are made to fall
    (Geyer 1992).
    """
    z = _normal_ranks(_halves(draws))
    chains, n = z.shape[:2]
    centred = z - z.mean(axis=1, keepdims=True)
    size = next_fast_len(2 * n, real=True)
    spectrum = np.abs(rfft(centred, size, axis=1)) ** 2
    covariance = irfft(spectrum, size, axis=1)[:, :n].mean(axis=0) / n
    within, total = _variances(z)
    with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never change
        correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, *z.shape[2:]).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0.0)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0))
    length = 2.0 * falling.sum(axis=0) - 1.0
    count = chains * n
    # no fewer than 1 / log10(count): chains of alternating signs do not make draws without end
    found = count / np.maximum(length, 1.0 / np.log10(count))
    return np.asarray(np.where(total > 0.0, found, np.nan))


def _halves(draws: Doubles) -> Doubles:
    """Return the chains in halves, (2 chains, S // 2, ...)."""
    n = draws.shape[1] // 2
    return np.concatenate([draws[:, :n], draws[:, draws.shape[1] - n :]])


def _normal_ranks(draws: Doubles) -> Doubles:
    from scipy.stats import rankdata  # noqa: PLC0415 - slow to import

    flat = draws.reshape(-1, *draws.shape[2:])
    ranks = rankdata(flat, axis=0)
    return np.asarray(ndtri((ranks - 0.375) / (len(flat) + 0.25))).reshape(draws.shape)


def _variances(z: Doubles) -> tuple[Doubles, Doubles]:
    """Return the variance within chains, and that of all draws, which is larger before mixing."""
    n = z.shape[1]
    within = z.var(axis=1, ddof=1).mean(axis=0)
    return within, within * (n - 1.0) / n + z.mean(axis=1).var(axis=0, ddof=1)


def _reduction(z: Doubles) -> Doubles:
    within, total = _variances(z)
    with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never change
        return np.asarray(np.sqrt(total / within))
