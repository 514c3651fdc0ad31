"""Expectations of positive functions under Gaussians, from the logarithms of their values.

Given a function log f, these rules compute log E[f(u)] for u ~ N(m, diag(a)), and the mean and
variance of each x_r = (u_r - m_r) / a_r^(1/2) under the tilted distribution f(u) N(u) / E[f]
(Seeger, Lawrence & Herbrich 2006, appendix B.2), all in the log domain. The result for a row is
bit-identical whichever rows it is evaluated with: nodes are summed in a fixed order, and a row that
has converged is not updated again.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from sparsegp.math.quadrature import HALF_LOG_TWO_PI, log_sum_exp, ordered_sum, pieces
from sparsegp.types import Doubles, Integers

LogValues = Callable[[Doubles, Integers], Doubles]
"""Maps nodes, and the indices of the rows that they belong to, to logarithms of function values."""

DISTANCES = 2.0 ** np.arange(-60.0, 61.0)
"""Grid of distances, in standard deviations, on which the mode is sought (from the mean) and the
ends of the range (from the mode)."""
SECTIONS, NARROWINGS = 8, 24
"""Sections of the bracket around the mode, and number of narrowings, by 1e-14 in total."""
DROP = 40.0
"""Decrease of the log integrand from its mode to the ends of the range of the nodes."""
FIRST_NODES, LAST_NODES = 16, 1 << 15
CHANGE = 1e-8
"""Largest change on doubling the nodes that counts as convergence: each doubling squares the error
of the trapezoid rule for analytic functions."""
POINTS = 4096
"""Maximum number of points of a product rule, unless three nodes per dimension exceed it."""
CHUNK = 1 << 17


def line_moments(
    log_f: LogValues, mean: Doubles, variance: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Return log E[f(u)], and the mean and variance of x when tilted by f, (n,) each.

    For each row the mode of the tilted density is found, then the range over which it falls off,
    and the trapezoid rule over this range is refined until it converges. The only requirement is
    that the tilted density is unimodal; f may be very narrow or far from the mean.

    Parameters
    ----------
    log_f : callable
        Maps nodes u (q, k), and the indices (k,) of their rows, to log f (q, k).
    mean, variance : Doubles (n,)
    """
    scale = np.sqrt(variance)

    def log_tilted(x: Doubles, rows: Integers) -> Doubles:
        value = log_f(mean[rows] + scale[rows] * x, rows)
        return np.asarray(value - 0.5 * x * x - HALF_LOG_TWO_PI)

    mode = _mode(log_tilted, len(mean))
    peak = log_tilted(mode[np.newaxis], np.arange(len(mean)))[0]
    low, high = (mode + side * _fall(log_tilted, mode, peak, side) for side in (-1.0, 1.0))
    return _trapezoid(log_tilted, mode, peak, low, high)


def _mode(log_tilted: LogValues, n: int) -> Doubles:
    """Return the mode of each row, by narrowing a bracket found on a geometric grid."""
    rows = np.arange(n)
    points = np.concatenate([-DISTANCES[::-1], [0.0], DISTANCES])[:, np.newaxis].repeat(n, axis=1)
    for _ in range(NARROWINGS):
        best = log_tilted(points, rows).argmax(axis=0).clip(1, len(points) - 2)
        low, high = points[best - 1, rows], points[best + 1, rows]
        points = low + (high - low) * (np.arange(SECTIONS + 1) / SECTIONS)[:, np.newaxis]
    return np.asarray(points[log_tilted(points, rows).argmax(axis=0), rows])


def _fall(log_tilted: LogValues, mode: Doubles, peak: Doubles, side: float) -> Doubles:
    """Return a distance from the mode at which the log density has fallen by `DROP`, (n,)."""
    points = mode + side * DISTANCES[:, np.newaxis]
    fallen = log_tilted(points, np.arange(len(mode))) < peak - DROP
    fallen[-1] = True
    return np.asarray(DISTANCES[fallen.argmax(axis=0)])


def _trapezoid(
    log_tilted: LogValues, mode: Doubles, peak: Doubles, low: Doubles, high: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Return the log integral, mean and variance, doubling the nodes until all three converge."""
    log_z, mean, variance = np.empty((3, len(mode)))
    rows, sums, count = np.arange(len(mode)), np.zeros((3, len(mode))), FIRST_NODES
    former = np.full((3, len(mode)), np.nan)
    share = np.arange(count + 1) / count
    while rows.size:
        x = low[rows] + (high - low)[rows] * share[:, np.newaxis]
        from_mode = x - mode[rows]
        weight = np.exp(log_tilted(x, rows) - peak[rows])
        sums = sums + np.stack([ordered_sum(weight * from_mode**power) for power in range(3)])
        total, shift = sums[0] * (high - low)[rows] / count, sums[1] / sums[0]
        spread = sums[2] / sums[0] - shift * shift
        log_z[rows] = peak[rows] + np.log(total)
        mean[rows], variance[rows] = mode[rows] + shift, spread
        now = np.stack([np.log(total), shift / np.sqrt(spread), np.log(spread)])
        going = ~(np.abs(now - former) <= CHANGE).all(axis=0) & (count < LAST_NODES)
        rows, sums, former = rows[going], sums[:, going], now[:, going]
        share = (np.arange(count) + 0.5) / count
        count *= 2
    return log_z, mean, variance


def product_moments(
    log_f: LogValues, mean: Doubles, variance: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Return log E[f(u)] (n,), and means and variances (n, R) of x, by a product rule.

    Each dimension has as many Gauss-Hermite nodes as `POINTS` allows, between 3 and 32. They are
    placed about the mean in units of the standard deviation, so the rule suits functions that
    change little over that distance.

    Parameters
    ----------
    log_f : callable
        Maps nodes u (q, k, R), and the indices (k,) of their rows, to log f (q, k).
    mean, variance : Doubles (n, R)
    """
    n, dimension = mean.shape
    x, log_weight = product_rule(max(3, min(32, int(POINTS ** (1 / dimension)))), dimension)
    log_z, shift, spread = np.empty(n), np.empty_like(mean), np.empty_like(mean)
    for some in pieces(n, CHUNK // x.size, least=1):
        rows = np.arange(some.start, some.stop)
        nodes = mean[rows] + np.sqrt(variance[rows]) * x[:, np.newaxis]
        terms = log_f(nodes, rows) + log_weight[:, np.newaxis]
        log_z[rows] = log_sum_exp(terms)
        weight = np.exp(terms - log_z[rows])[..., np.newaxis]
        shift[rows] = ordered_sum(weight * x[:, np.newaxis])
        spread[rows] = ordered_sum(weight * (x[:, np.newaxis] - shift[rows]) ** 2)
    return log_z, shift, spread


@cache
def product_rule(count: int, dimension: int) -> tuple[Doubles, Doubles]:
    """Return points (count^dimension, dimension) and log weights for expectations under N(0, I).

    The rule is Gauss-Hermite along every dimension.
    """
    x, w = np.polynomial.hermite_e.hermegauss(count)
    index = np.indices((count,) * dimension).reshape(dimension, -1).T
    points, log_weights = x[index], np.log(w / w.sum())[index].sum(axis=1)
    points.flags.writeable = log_weights.flags.writeable = False
    return points, log_weights
