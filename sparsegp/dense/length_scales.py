"""Importance sampling of length scales within variational inference (Girolami & Rogers 2006; GR).

An inverse length scale is phi = 1 / (2 l^2), with an exponential prior of rate psi, and psi has a
gamma prior (GR section 3). A round draws phi from its exponential at the present mean of psi,
weighs the draws by how well they explain the latent values, and takes their mean; then the mean of
psi follows (eq. 4.5, 4.7, 4.8). Where classes have kernels of their own, each has draws and weights
of its own. Other parameters of a kernel stay.

The paper weighs by N(m~ | 0, K_phi), the density of the latent means, for Q(Y) Q(M) Q(phi). Here it
is N(y~ | 0, I + K_phi), that of the means of their noisy copies, for Q(Y) Q(M, phi): one
independence less, and with it a better bound. It is well conditioned where K_phi is singular to
rounding and the density of m~ a matter of jitter; and it finds the two relevant inputs of the toy
problem of GR section 6.1, where the other one, with jitters from 1e-8 to 0.1, kept one or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparsegp.dense.base import Problem, Watch
from sparsegp.dense.precisions import NAME
from sparsegp.errors import SettingsError
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.types import Doubles, Integers

KEY = 17
CHUNK = 32
"""Draws that are weighed in one task."""


@dataclass(frozen=True)
class Hyperprior:
    """The gamma prior of the rates psi: vague as both numbers go to zero.

    Parameters
    ----------
    shape, rate : float
        sigma and tau of GR.
    """

    shape: float
    rate: float

    def rates(self, phi: Doubles) -> Doubles:
        """Return the posterior means of psi (GR eq. 4.8)."""
        return (self.shape + 1.0) / (self.rate + phi)


@dataclass(frozen=True)
class LengthScales:
    """Where the length scales are among the parameters of a problem.

    Attributes
    ----------
    index : Integers (q,)
        In `Problem.parameters`.
    owner : Integers (q,)
        Number of the kernel.
    """

    index: Integers
    owner: Integers

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Find them.

        Raises
        ------
        SettingsError
            If there are none.
        """
        names = [
            (name, number)
            for number, kernel in enumerate(problem.kernels)
            for name in kernel.parameter_names
        ]
        found = [
            (i, number)
            for i, (name, number) in enumerate(names)
            if name.endswith((".length_scale", ".length_scales"))
        ]
        if not found:
            raise SettingsError(
                f"importance sampling needs a kernel with length scales, got "
                f"'{problem.kernels[0]}'; use rbf or ard, or leave importance at 0"
            )
        index, owner = np.array(found, np.int64).T
        return cls(index, owner)

    def inverse(self, logs: Doubles) -> Doubles:
        """Return phi, (..., q), of parameters (..., all)."""
        return np.asarray(0.5 * np.exp(-2.0 * logs[..., self.index]))

    def put(self, logs: Doubles, phi: Doubles) -> Doubles:
        """Return parameters (..., all) with other phi (..., q)."""
        out = np.broadcast_to(logs, (*phi.shape[:-1], len(logs))).copy()
        out[..., self.index] = -0.5 * np.log(2.0 * phi)
        return out

    def mean(
        self, problem: Problem, site: Doubles, rates: Doubles, draws: int, step: int, watch: Watch
    ) -> tuple[Doubles, float]:
        """Return the posterior mean of phi, (q,), and the effective number of draws.

        Parameters
        ----------
        problem : Problem
        site : Doubles (n, R)
            y~.
        rates : Doubles (q,)
            Means of psi.
        draws, step : int
            The draws are keyed by the seed of the problem and the step.
        watch : Watch
        """
        rng = np.random.default_rng([problem.seed, KEY, step])
        phi = rng.standard_exponential((draws, len(rates))) / rates
        logs = self.put(problem.parameters(), phi)
        parts = np.split(logs, range(CHUNK, draws, CHUNK))
        found = dict(watch.map(log_weights, (problem, site), parts))
        log_weight = np.concatenate([found[number] for number in range(len(parts))])  # (S, C)
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight /= weight.sum(axis=0)
        effective = 1.0 / np.square(weight).sum(axis=0)
        return (weight[:, self.owner] * phi).sum(axis=0), float(effective.min())


def log_weights(shared: tuple[Problem, Doubles], logs: Doubles) -> Doubles:
    """Return log N(y~ | 0, I + K) for each kernel, up to a constant, (S, C).

    Parameters
    ----------
    shared : (Problem, Doubles (n, R))
        The problem and y~.
    logs : Doubles (S, all)
        Parameters of its kernels.
    """
    problem, site = shared
    return np.array([_each(problem.with_parameters(some), site) for some in logs])


def _each(problem: Problem, site: Doubles) -> Sequence[Any]:
    out = []
    for number, kernel in enumerate(problem.kernels):
        own = site if len(problem.kernels) == 1 else site[:, number : number + 1]
        covariance = np.asarray(kernel(problem.x, problem.x), np.float64)
        covariance[np.diag_indices_from(covariance)] += 1.0
        factor = lower_cholesky(covariance, NAME)
        log_det = np.log(np.diag(factor)).sum()
        out.append(-0.5 * np.square(solve_lower(factor, own)).sum() - own.shape[1] * log_det)
    return out
