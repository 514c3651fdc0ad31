"""The variational bound of probit models with unit noise, and its maximum (Girolami & Rogers 2006).

Each latent value m has a noisy copy y ~ N(m, 1), and the label says which of the y of a row is the
largest (of two classes: the sign of y). With Q(Y) Q(M) in place of the posterior, and y~ the mean
of Y, Q(M) is that of regression on y~: covariances K (I + K)^-1 and means m = K (I + K)^-1 y~
(eq. 4.1). The bound on the log marginal likelihood (appendix C) then is

    L = sum_n log Z_n(m_n) - sum_k [m_k' K_k^-1 m_k + log |I + K_k|] / 2

once the traces are added up. The constant (1 - K) N log(2 pi) / 2 of the paper's last formula is
too much: the last term of its (C.8) lacks a factor K.

In m the bound is concave. Its maximum is the fixed point m <- K (I + K)^-1 (m + p(m)) of eq. 4.6
and 4.9, p = d log Z / dm. Here that iteration is the metric of a quasi-Newton ascent, which ends at
the same point in far fewer rounds. With v = K^(-1/2) m the bound is -|v|^2 / 2 plus a concave
function, so that where its gradient is g no more than |g|^2 / 2 nats are left to gain: this ends
the ascent.
"""

from collections.abc import Callable

import numpy as np

from sparsegp.dense.base import Problem
from sparsegp.dense.spectrum import Spectrum
from sparsegp.errors import NumericalError
from sparsegp.likelihoods.base import Moments
from sparsegp.math.lbfgs import Ascent
from sparsegp.types import Doubles

STALLED = 1e-4
"""Nats that may be left to gain where rounding ends the ascent."""


class Bound:
    """The bound as a function of v, (n, R), with m = U l^(1/2) v where K = U diag(l) U'."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.spectrum = Spectrum(problem.covariances(), problem.n_latent)
        self.root = np.sqrt(self.spectrum.values)

    def __call__(self, v: Doubles) -> tuple[float, Doubles]:
        """Return value and gradient."""
        moments = self.moments(self.mean(v))
        value = float(moments.log_z.sum() - 0.5 * np.vdot(v, v)) - 0.5 * self.spectrum.log_det
        return value, self.root * self.spectrum.turn(moments.slope) - v

    def mean(self, v: Doubles) -> Doubles:
        """Return m."""
        return self.spectrum.back(self.root * v)

    def site(self, v: Doubles) -> Doubles:
        """Return y~ = m + p (GR eq. 4.3, 4.4)."""
        mean = self.mean(v)
        return mean + self.moments(mean).slope

    def regressed(self, site: Doubles) -> Doubles:
        """Return the v of m = K (I + K)^-1 y~ (GR eq. 4.6)."""
        return self.root / (1.0 + self.spectrum.values) * self.spectrum.turn(site)

    def solve(self, right: Doubles) -> Doubles:
        """Return (I + diag(l))^-1 R: I + diag(l) is minus the Hessian, where p rises fastest."""
        return right / (1.0 + self.spectrum.values)

    def moments(self, mean: Doubles) -> Moments:
        """Return log Z_n, p and the curvature of log Z at m."""
        likelihood, target = self.problem.likelihood, self.problem.target
        return likelihood.moments(mean, np.zeros_like(mean), target)


def left(ascent: Ascent) -> float:
    """Return how many nats below its maximum the bound is, at most."""
    return 0.5 * float(np.vdot(ascent.gradient, ascent.gradient))


def ascend(
    bound: Bound,
    ascent: Ascent,
    tolerance: float,
    steps: int,
    tell: Callable[[Ascent], None] = lambda ascent: None,
) -> Ascent:
    """Climb to the maximum of the bound.

    Parameters
    ----------
    bound : Bound
    ascent : Ascent
        Where to start; it is changed.
    tolerance : float
        Nats that may be left to gain.
    steps : int
        At most.
    tell : callable
        Told of every step.

    Raises
    ------
    NumericalError
        If the steps do not lead there.
    """
    for _ in range(steps):
        if left(ascent) <= tolerance:
            return ascent
        if ascent.step(bound, bound.solve) == 0.0:
            break
        tell(ascent)
    if left(ascent) > max(tolerance, STALLED):
        raise NumericalError(
            f"the bound must come within tolerance={tolerance:g} nats of its maximum, found that "
            f"{left(ascent):.2g} may be left; raise steps={steps}, or use a kernel of smaller "
            "variance"
        )
    return ascent
