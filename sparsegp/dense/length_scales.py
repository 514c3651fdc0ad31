"""Importance sampling of length scales within variational inference (Girolami & Rogers 2006; GR).

An inverse length scale is phi = 1 / (2 l^2), with an exponential prior of rate psi, and psi has a
gamma prior (GR section 3). A round draws phi from its exponential at the present mean of psi,
weighs the draws by how well they explain the latent values, and takes their mean; then the mean of
psi follows (eq. 4.5, 4.7, 4.8). Where classes have kernels of their own, each has draws and weights
of its own. Other parameters of a kernel stay.

By eq. 4.5 a draw weighs N(m~ | 0, K_phi), which is a matter of jitter where K_phi is singular to
rounding. The authors' programs (VBGP for MATLAB; vbmp for R, Lama & Girolami) have another weight,

    latent    exp(-m~' (I + K_phi)^-1 m~ / 2)

without a determinant. With one, and the means y~ of the noisy copies,

    site      N(y~ | 0, I + K_phi)

belongs to Q(Y) Q(M, phi), so that rounds climb the bound on the evidence. But that bound is loose
where length scales are short, and often highest where they are too long: `latent` ends at shorter
ones, where the bound is lower and predictions are better.
"""

from dataclasses import dataclass
from typing import Self

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
        self,
        problem: Problem,
        latent: Doubles,
        rates: Doubles,
        draws: int,
        step: int,
        watch: Watch,
        weights: str = "site",
    ) -> tuple[Doubles, float]:
        """Return the posterior mean of phi, (q,), and the effective number of draws.

        Parameters
        ----------
        problem : Problem
        latent : Doubles (n, R)
            What the draws explain: m~, or y~ for the weights "site".
        rates : Doubles (q,)
            Means of psi.
        draws, step : int
            The draws are keyed by the seed of the problem and the step.
        watch : Watch
        weights : str
            Name in `WEIGHTS`.
        """
        rng = np.random.default_rng([problem.seed, KEY, step])
        phi = rng.standard_exponential((draws, len(rates))) / rates
        logs = self.put(problem.parameters(), phi)
        parts = np.split(logs, range(CHUNK, draws, CHUNK))
        found = dict(watch.map(WEIGHTS[weights], (problem, latent), parts))
        log_weight = np.concatenate([found[number] for number in range(len(parts))])  # (S, C)
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight /= weight.sum(axis=0)
        effective = 1.0 / np.square(weight).sum(axis=0)
        return (weight[:, self.owner] * phi).sum(axis=0), float(effective.min())


def log_weights(shared: tuple[Problem, Doubles], logs: Doubles) -> Doubles:
    """Return log N(y | 0, I + K) for each kernel, up to a constant, (S, C).

    Parameters
    ----------
    shared : (Problem, Doubles (n, R))
        The problem and y.
    logs : Doubles (S, all)
        Parameters of its kernels.
    """
    exponent, log_det = _terms(shared, logs)
    return exponent - 0.5 * log_det


def exponents(shared: tuple[Problem, Doubles], logs: Doubles) -> Doubles:
    """Return -y' (I + K)^-1 y / 2 for each kernel, (S, C); see `log_weights`."""
    return _terms(shared, logs)[0]


WEIGHTS = {"latent": exponents, "site": log_weights}
"""Logarithms of the weights of draws."""


def _terms(shared: tuple[Problem, Doubles], logs: Doubles) -> tuple[Doubles, Doubles]:
    """Return -y' (I + K)^-1 y / 2, and log |I + K| times the columns of y, (S, C) each."""
    problem, latent = shared
    pairs = np.array([_each(problem.with_parameters(some), latent) for some in logs])
    return pairs[..., 0], pairs[..., 1]


def _each(problem: Problem, latent: Doubles) -> list[tuple[float, float]]:
    """Return both terms of `_terms` for each kernel."""
    out = []
    for number, kernel in enumerate(problem.kernels):
        own = latent if len(problem.kernels) == 1 else latent[:, number : number + 1]
        covariance = np.asarray(kernel(problem.x, problem.x), np.float64)
        covariance[np.diag_indices_from(covariance)] += 1.0
        factor = lower_cholesky(covariance, NAME)
        log_det = 2.0 * own.shape[1] * float(np.log(np.diag(factor)).sum())
        out.append((-0.5 * float(np.square(solve_lower(factor, own)).sum()), log_det))
    return out
