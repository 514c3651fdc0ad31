"""Importance sampling of length scales within variational inference (Girolami & Rogers 2006; GR).

An inverse length scale is phi = 1 / (2 l^2), with an exponential prior of rate psi, and psi has a
gamma prior (GR section 3). An iteration draws phi from the exponential with the current mean of
psi, weights the draws by how well they explain the latent values, and takes their weighted mean,
which then gives the mean of psi (eq. 4.5, 4.7, 4.8). If each class has its own kernel, each has its
own draws and weights. Other kernel parameters are fixed.

In eq. 4.5 the weight of a draw is N(m~ | 0, K_phi), which depends on the jitter if K_phi is
numerically singular. Here the weight is that of the authors' programs (VBGP for MATLAB; vbmp for R,
Lama & Girolami),

    exp(-m~' (I + K_phi)^-1 m~ / 2)

without a determinant. With N(y~ | 0, I + K_phi) iterations would increase the bound on the
evidence. But this bound is loose for short length scales, so length scales would become too long
and predictions worse.
"""

import numpy as np

from sparsegp.dense.base import Problem, RunTasks
from sparsegp.dense.precisions import NAME
from sparsegp.errors import SettingsError
from sparsegp.math.linalg import lower_cholesky, solve_lower
from sparsegp.types import Doubles

KEY = 17
CHUNK = 32
"""Number of draws weighted in one task."""


class LengthScales:
    """Positions of the length scales among the parameters of a problem.

    `index` (q,) holds their indices in `Problem.parameters`, `owner` (q,) those of their kernels.
    Raises a SettingsError if there are none.
    """

    def __init__(self, problem: Problem) -> None:
        kernels, ends = enumerate(problem.kernels), (".length_scale", ".length_scales")
        every = [(c, name) for c, kernel in kernels for name in kernel.parameter_names]
        found = [(i, c) for i, (c, name) in enumerate(every) if name.endswith(ends)]
        if not found:
            raise SettingsError(
                f"importance sampling needs a kernel with length scales, got "
                f"'{problem.kernels[0]}'; use rbf or ard, or leave importance at 0"
            )
        self.index, self.owner = np.array(found).T

    def inverse(self, logs: Doubles) -> Doubles:
        """Return phi, (..., q), from log parameters (..., all)."""
        return np.asarray(0.5 * np.exp(-2.0 * logs[..., self.index]))

    def put(self, logs: Doubles, phi: Doubles) -> Doubles:
        """Return the log parameters with phi (..., q) inserted, (..., all)."""
        out = np.broadcast_to(logs, (*phi.shape[:-1], len(logs))).copy()
        out[..., self.index] = -0.5 * np.log(2.0 * phi)
        return out

    def mean(
        self, problem: Problem, latent: Doubles, phi: Doubles, run_tasks: RunTasks
    ) -> tuple[Doubles, float]:
        """Return the posterior mean of phi, (q,), and the effective number of draws.

        Parameters
        ----------
        problem : Problem
        latent : Doubles (n, R)
            Latent means m~.
        phi : Doubles (S, q)
            Draws.
        run_tasks : RunTasks
        """
        logs = self.put(problem.parameters(), phi)
        parts = np.split(logs, range(CHUNK, len(logs), CHUNK))
        log_weight = np.concatenate(run_tasks(log_weights, (problem, latent, False), parts))
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight /= weight.sum(axis=0)
        effective = 1.0 / np.square(weight).sum(axis=0)
        return (weight[:, self.owner] * phi).sum(axis=0), float(effective.min())


def log_weights(shared: tuple[Problem, Doubles, bool], logs: Doubles) -> Doubles:
    """Return the log weight of each draw of parameters for each kernel, (S, C), up to a constant.

    Parameters
    ----------
    shared : (Problem, Doubles (n, R), bool)
        The problem; the values m~ or y whose density under N(0, I + K) is the weight; and whether
        to include the determinant of I + K.
    logs : Doubles (S, all)
        Draws of the log parameters.
    """
    problem, explained, determinant = shared
    out = np.empty((len(logs), len(problem.kernels)))
    for row, some in zip(out, logs, strict=True):
        for c, covariance in enumerate(problem.with_parameters(some).covariances()):
            own = explained if len(row) == 1 else explained[:, c : c + 1]
            covariance[np.diag_indices_from(covariance)] += 1.0
            factor = lower_cholesky(covariance, NAME)
            row[c] = -0.5 * float(np.square(solve_lower(factor, own)).sum())
            if determinant:
                row[c] -= own.shape[1] * float(np.log(np.diag(factor)).sum())
    return out
