"""Logistic likelihood: the second of two classes has the odds exp(u + beta).

Expectations are one-dimensional integrals by the trapezoid rule. The logarithm of the logistic
function bends over a length of about 3, that of the Gaussian with variance s^2 over s. If s is
small, or the tilted density lies far from the bend, nodes are equally spaced in units of s about
the mode. Otherwise they are equally spaced in t = asinh(u / 3) + u / s: dense about zero, where the
bend is, and as sparse as the Gaussian allows elsewhere. So their number hardly depends on s.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit

from sparsegp.likelihoods.base import Moments
from sparsegp.likelihoods.binary import Binary
from sparsegp.math.quadrature import HALF_LOG_TWO_PI, log_sum_exp, ordered_sum, pieces
from sparsegp.types import Doubles, Floats

SMALL = (1.0, 2.0)
"""Scales up to which nodes are equally spaced, with steps of `STEPS` times the scale."""
STEPS = (0.6, 0.35)
REACH = 8.6
"""Half the range of the nodes, in units of the scale, over which the tilted density falls to e^-37
of its maximum."""
STRAIGHT = 30.0
"""Beyond this |u| the logistic function is 1 or an exponential, and its logarithm is linear."""
LENGTH = 3.0
"""Nodes are dense for |u| up to this: the function has poles at +-i pi."""
STRETCHED_STEP = 0.4
NEWTON_STEPS = 6
CHUNK = 512  # rows computed at a time, so that temporaries stay in cache


@dataclass(frozen=True)
class Logistic(Binary, name="logistic"):
    """p(y|u) = 1 / (1 + exp(-y (u + beta))), y = -1 or +1; log Z has an error of 1e-9."""

    curvature_bound: ClassVar[float] = 0.25
    metric_curvature: ClassVar[float] = 0.25

    def _log_link(self, margin: Doubles) -> Doubles:
        return np.asarray(log_expit(margin))

    def _link_derivatives(self, margin: Doubles) -> tuple[Doubles, Doubles, Doubles]:
        p, q = expit(margin), expit(-margin)
        return q, p * q, -p * q * np.tanh(0.5 * margin)

    def _link_moments(self, margin: Doubles, variance: Doubles) -> Moments:
        mean, scale = margin[:, 0], np.sqrt(variance[:, 0])
        out = np.empty((3, len(mean)))
        bent = scale * REACH + STRAIGHT >= np.abs(_nearest_to_zero(mean, scale))
        plain = (scale <= SMALL[-1]) | ~bent
        octave = np.floor(2.0 * np.log2(np.maximum(scale / SMALL[-1], 1.0))).astype(np.int64)
        kind = np.where(plain, np.searchsorted(SMALL[:-1], scale), len(STEPS) + octave)
        for some in np.unique(kind).tolist():
            rows = np.flatnonzero(kind == some)
            for piece in pieces(len(rows), CHUNK):
                m, s = mean[rows[piece]], scale[rows[piece]]
                if some < len(STEPS):
                    found = _by_equal_steps(m, s, STEPS[some])
                else:  # nodes shared by all scales of a half octave
                    u, log_f, q = _stretched(some - len(STEPS))
                    found = _sums((u - m) / s, log_f - np.log(s), q, s)
                out[:, rows[piece]] = found
        return Moments(out[0], out[1][:, np.newaxis], out[2][:, np.newaxis])


def _nearest_to_zero(mean: Doubles, scale: Doubles) -> Doubles:
    """Return the point closest to zero at which the tilted density can have its mode.

    The mode is mean + s^2 q with q in (0, 1) the probability of the other class. Far from the bend,
    where q is 0 or 1, this point is the mode.
    """
    return np.maximum(mean, np.minimum(mean + scale * scale, 0.0))


def _by_equal_steps(mean: Doubles, scale: Doubles, step: float) -> tuple[Floats, ...]:
    """Return log Z, slope and curvature, (n,) each, with equally spaced nodes about the mode."""
    variance = scale * scale
    u = _nearest_to_zero(mean, scale)
    for _ in range(NEWTON_STEPS):
        q = expit(-u)
        u = u - (u - mean - variance * q) / (1.0 + variance * q * (1.0 - q))
    half = int(np.ceil(REACH / step))
    x = scale * expit(-u) + step * np.arange(-half, half + 1)[:, np.newaxis]
    u = mean + scale * x
    return _sums(x, log_expit(u) + np.log(step), expit(-u), scale)


@cache
def _stretched(octave: int) -> tuple[Doubles, Doubles, Doubles]:
    """Return nodes u, the log of weight times logistic function, and 1 - logistic, (q, 1) each.

    With v = asinh(u / 3), t = v + (3 / s) sinh v is convex for v > 0, so Newton's method started
    above its root decreases towards it.
    """
    scale = SMALL[-1] * 2.0 ** (octave / 2)
    ratio = LENGTH / scale
    end = 2.0 * np.sqrt(2.0) * REACH * scale + STRAIGHT + LENGTH
    half = np.ceil((np.arcsinh(end / LENGTH) + end / scale) / STRETCHED_STEP)
    t = STRETCHED_STEP * np.arange(half + 1)
    v = np.minimum(t, np.arcsinh(t / ratio))
    for _ in range(2 * NEWTON_STEPS):
        v = v - (v + ratio * np.sinh(v) - t) / (1.0 + ratio * np.cosh(v))
    v = np.concatenate([-v[:0:-1], v])[:, np.newaxis]
    u = LENGTH * np.sinh(v)
    log_weight = np.log(STRETCHED_STEP * LENGTH * np.cosh(v) / (1.0 + ratio * np.cosh(v)))
    found = u, log_weight + log_expit(u), expit(-u)
    for values in found:
        values.flags.writeable = False
    return found


def _sums(x: Doubles, log_f: Doubles, q: Doubles, scale: Doubles) -> tuple[Floats, ...]:
    """Return log Z, slope and curvature from standardised nodes x (q, n).

    With w the weights of the nodes and q the derivative of the log likelihood, integration by parts
    shows that 1 - Var_w[x] = c with c = -s Cov_w(x, q). As q decreases with u, c is positive for
    any weights, and it does not lose digits if the variance is almost one. c + Var_w[x] is one up
    to quadrature error; dividing by it keeps the curvature below 1 / s^2.
    """
    terms = log_f - 0.5 * x * x - HALF_LOG_TWO_PI
    log_z = log_sum_exp(terms)
    weight = np.exp(terms - log_z)
    slope = ordered_sum(weight * q)
    weighted = weight * (x - ordered_sum(weight * x))
    # rounding may make the covariance negative if q is the same at all nodes
    cross = np.maximum(-ordered_sum(weighted * (q - slope)), 0.0)
    spread = ordered_sum(weighted * x)
    with np.errstate(divide="ignore", invalid="ignore"):  # no curvature at zero variance
        curvature = cross / scale / (scale * cross + spread)
    return log_z, slope, curvature
