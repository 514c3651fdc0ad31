r"""Choice of active rows to remove: those whose removal changes the posterior least.

Latent means are :math:`k(x, X_u) \alpha` with :math:`\alpha = L^{-T} c`, and at a distance
:math:`\delta` from :math:`\alpha` the log posterior is lower by
:math:`\mathrm{tr}(\delta^T W \delta) / 2`, with :math:`W = L B L^T`. Without row i,
:math:`\alpha_i = 0`, and the maximum is lower by

.. math:: \tfrac{1}{2} |\alpha_i|^2 / [W^{-1}]_{ii}    \text{ nats}

at :math:`\alpha - W^{-1}_{:i} \alpha_i / [W^{-1}]_{ii}` (Hassibi & Stork 1993, "Second order
derivatives for network pruning", eq. 5). For the all-data posterior B is that of
posterior/all_data.py; for sites on the active rows, with features :math:`\Phi = L^{-1} C` there, it
is :math:`P + \Phi \Pi \Phi^T = L^T \Pi L - I`.
"""

import numpy as np

from sparsegp.math.linalg import inverse_lower, jittered_cholesky, solve_lower
from sparsegp.posterior.base import ActiveRows, PosteriorWeights
from sparsegp.types import Doubles, Integers


def rows_to_remove(active: ActiveRows, weights: PosteriorWeights, count: int) -> Integers:
    """Return the places of rows to remove, each the one that changes the posterior least.

    Parameters
    ----------
    active : ActiveRows
        All are active for every process.
    weights : PosteriorWeights
    count : int

    Returns
    -------
    Integers (count,)
        In order of removal; among ties the later inclusion goes first.
    """
    inverses, alphas = [], []
    factors = active.factors()
    for L, L_B, c in zip(
        factors, metrics(active, factors, weights), weights.coefficients, strict=True
    ):
        half = inverse_lower(L @ L_B)  # W = (L L_B) (L L_B)^T
        inverses.append(half.T @ half)
        alphas.append(solve_lower(L, c, transposed=True))
    kept, removed = np.ones(len(active.x), dtype=bool), []
    for _ in range(count):
        pairs = list(zip(alphas, inverses, strict=True))
        losses = sum(0.5 * np.square(a).sum(axis=1) / Q.diagonal() for a, Q in pairs)
        place = len(kept) - 1 - int(np.where(kept, losses, np.inf)[::-1].argmin())
        kept[place] = False
        removed.append(place)
        for alpha, Q in pairs:
            column = Q[:, place] / Q[place, place]
            np.subtract(alpha, np.outer(column, alpha[place]), out=alpha)
            np.subtract(Q, np.outer(column, Q[place]), out=Q)
            Q[place, place] = 1.0  # not used again
    return np.array(removed, dtype=np.int64)


def metrics(active: ActiveRows, factors: list[Doubles], weights: PosteriorWeights) -> list[Doubles]:
    """Return the lower factor of B of each kernel."""
    if weights.gain is not None:
        return list(weights.gain)
    return [
        jittered_cholesky((L.T * pi) @ L - np.eye(len(L)), "the precision of the posterior")[0]
        for L, pi in zip(factors, active.precision.T, strict=True)
    ]
