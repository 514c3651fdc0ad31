"""Which active rows could go, against what the posterior loses without them."""

import numpy as np
import pytest

from sparsegp.posterior import ActiveRows, PosteriorWeights
from sparsegp.posterior.removal import least_missed
from sparsegp.posterior.sites import regression
from tests.posterior.test_past import active_rows


def loss(active: ActiveRows, gone: list[int], gain: list[np.ndarray] | None) -> float:
    """By how much the posterior is lower where these rows have no weight, with the best others.

    It is a quadratic with the matrix W about alpha; the sites' is that of the sum of
    pi (site - C alpha)^2 / 2 and alpha^T C alpha / 2.
    """
    total, kept = 0.0, [i for i in range(len(active.x)) if i not in gone]
    for c, (kernel, columns) in enumerate(zip(active.kernels, active.columns(), strict=True)):
        C, pi = np.asarray(kernel(active.x, active.x)), active.precision[:, c]
        A = C + np.diag(1.0 / pi)
        alpha = np.linalg.solve(A, active.site[:, columns])
        W = C @ np.diag(pi) @ C + C
        if gain is not None:
            L = np.linalg.cholesky(A)
            W = L @ gain[c] @ gain[c].T @ L.T
        # best others: W_kk (a - alpha_k) = W_kg alpha_g
        best = np.zeros_like(alpha)
        best[kept] = alpha[kept] + np.linalg.solve(
            W[np.ix_(kept, kept)], W[np.ix_(kept, gone)] @ alpha[gone]
        )
        total += 0.5 * float(np.vdot(best - alpha, W @ (best - alpha)))
    return total


@pytest.mark.parametrize("n_kernels", [1, 3])
@pytest.mark.parametrize("of_all_rows", [False, True])
def test_rows_go_one_by_one_by_what_is_lost(n_kernels: int, of_all_rows: bool) -> None:
    rng = np.random.default_rng(0)
    active = active_rows(rng.normal(scale=2.0, size=(12, 2)), n_kernels)
    weights, gain = regression(active, active.site), None
    if of_all_rows:
        halves = rng.normal(size=(n_kernels, 12, 12))
        gain = [np.linalg.cholesky(half @ half.T + np.eye(12)) for half in halves]
        weights = PosteriorWeights(weights.coefficients, gain)
    expected: list[int] = []
    for _ in range(5):
        left = [i for i in range(12) if i not in expected]
        expected.append(min(left, key=lambda i: loss(active, [*expected, i], gain)))
    assert least_missed(active, weights, 5).tolist() == expected


def test_nothing_goes_unasked() -> None:
    active = active_rows(np.random.default_rng(1).normal(size=(8, 3)))
    assert least_missed(active, regression(active, active.site), 0).size == 0
