"""Posteriors given by Gaussian sites of unit precision on the active rows, a function each.

Each takes the active rows and the site means at inclusion, and returns the site means to predict
with. Both are Gaussian process regression on those sites (GR section 4.5).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sparsegp.kernels import Kernel
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Floats, Integers

logger = logging.getLogger(__name__)

TOLERANCE = 1e-8
MAX_ROUNDS = 5000


@dataclass(frozen=True)
class ActiveRows:
    """What a selection leaves behind.

    Attributes
    ----------
    kernels : sequence of Kernel
        One for all classes, or one a class.
    likelihood : MultinomialProbit
    x : Floats (d, p)
        Scaled inputs.
    target : Integers (d,)
        Class codes.
    site : Doubles (d, K)
        Site means at inclusion.
    """

    kernels: Sequence[Kernel]
    likelihood: MultinomialProbit
    x: Floats
    target: Integers
    site: Doubles

    def columns(self) -> list[slice]:
        """Return the classes that each kernel serves."""
        if len(self.kernels) == 1:
            return [slice(0, self.site.shape[1])]
        return [slice(k, k + 1) for k in range(len(self.kernels))]


SitePosterior: TypeAlias = Callable[[ActiveRows], Doubles]

POSTERIORS: Registry[SitePosterior] = Registry("posterior")


@POSTERIORS.register("adf")
def adf(active: ActiveRows) -> Doubles:
    """Return the sites as they were set at inclusion (GR section 5, SLH algorithm 1)."""
    return active.site


@POSTERIORS.register("active")
def active_only(active: ActiveRows) -> Doubles:
    """Return the sites iterated to convergence on the active rows (GR eq. 4.6).

    m <- C (I + C)^-1 (m + p(m)), with Nesterov's momentum, which is dropped whenever it points
    against the last step; stops when no mean moves by more than `TOLERANCE` times the largest.
    """
    x = np.asarray(active.x, dtype=np.float64)
    smoothers = [_smoother(kernel, x) for kernel in active.kernels]
    zero = np.zeros((len(x), 1))
    mean = np.zeros_like(active.site)
    ahead, momentum = mean, 0
    site = active.site
    for round_ in range(MAX_ROUNDS):
        site = ahead + active.likelihood.gradient(ahead, zero, active.target)[1]
        new = np.concatenate(
            [s @ site[:, k] for s, k in zip(smoothers, active.columns(), strict=True)], axis=1
        )
        step = new - mean
        momentum = 0 if np.vdot(ahead - new, step) > 0.0 else momentum + 1
        mean, ahead = new, new + momentum / (momentum + 3.0) * step
        if np.abs(step).max() <= TOLERANCE * max(1.0, np.abs(new).max()):
            logger.info("posterior active: converged after %d rounds", round_ + 1)
            return mean + active.likelihood.gradient(mean, zero, active.target)[1]
    logger.warning(
        "posterior active: stopped after %d rounds; means still move by %.1e",
        MAX_ROUNDS,
        np.abs(step).max(),
    )
    return site


def _smoother(kernel: Kernel, x: Doubles) -> Doubles:
    """Return C (I + C)^-1 = I - (I + C)^-1, (d, d)."""
    eye = np.eye(len(x))
    factor = lower_cholesky(kernel(x, x) + eye, "the covariance of the active rows")
    half = solve_lower(factor, eye)
    return eye - half.T @ half
