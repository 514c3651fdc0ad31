"""The sparse online process against dense inference row by row, and against softmax EP."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

from sparsegp.dense import Mixture, Online, SoftmaxEP
from sparsegp.dense.online import OnlineState, Projected, choose_basis, marked, order_of, posterior
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Softmax
from sparsegp.likelihoods.softmax_sites import contrasts, match_moments
from tests.dense import references
from tests.dense.references import interleaved


def problem(n, each=False):
    kernels = [v * RBF(v) for v in (1.0, 2.0, 3.0)] if each else [4.0 * RBF(1.2)]
    return references.problem(Softmax(biases=(0.1, 0.0, -0.2)), n, kernels, seed=0)


def test_one_sweep_is_assumed_density_filtering():
    some = problem(14, each=True)
    covariance, mean = interleaved(some.covariances()), np.zeros(42)
    order = order_of(some)
    for i in order:
        rows, target = slice(3 * i, 3 * i + 3), some.target[i : i + 1]
        (basis,) = contrasts(target, 3)
        centre, spread = basis.T @ mean[rows], basis.T @ covariance[rows, rows] @ basis
        _, found = match_moments(centre[np.newaxis], spread[np.newaxis], target, some.biases, 7)
        site = np.zeros((42, 42))
        site[rows, rows] = basis @ found[0, :, :-1] @ basis.T
        shift = np.zeros(42)
        shift[rows] = basis @ found[0, :, -1]
        new = covariance @ np.linalg.inv(np.eye(42) + site @ covariance)
        mean, covariance = new @ (np.linalg.solve(covariance, mean) + shift), new

    everything = np.arange(14)
    state = Online().step(some, OnlineState(everything, np.zeros((14, 2, 3))), None)
    projected, weights = posterior(some, state)
    assert_allclose(np.einsum("rbi,rb->ir", projected.features, weights).ravel(), mean, atol=1e-7)
    variances = np.stack([kernel.diag(some.x) for kernel in some.kernels])
    found_covariance = projected.covariance(some.covariances(), variances)
    own = np.array([covariance[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] for i in range(14)])
    assert_allclose(found_covariance, own, atol=1e-7)


@pytest.mark.parametrize("moments", ["quadrature", "laplace"])
def test_sweeps_over_all_rows_end_at_expectation_propagation(moments):
    some = problem(20, each=True)
    new = np.random.default_rng(5).normal(size=(9, 2))
    dense = SoftmaxEP(moments=moments, tolerance=1e-8).fit(some)
    online = Online(novelty=1e-12, moments=moments, tolerance=1e-8, sweeps=40).fit(some)
    assert online.report["basis"] == 20
    assert online.report["sweeps"] < 20
    pairs = [Mixture(fit.components, some.x).latent(new) for fit in (online, dense)]
    assert_allclose(*pairs, atol=1e-5)


@pytest.mark.slow
def test_a_smaller_basis_costs_accuracy_little_by_little():
    some = problem(50)
    new = np.random.default_rng(6).normal(size=(30, 2))
    dense = SoftmaxEP(moments="laplace", damping=1.0).fit(some)
    exact = np.exp(Mixture(dense.components, some.x).log_probabilities(new, 3))
    errors, sizes = [], []
    for novelty in (1e-1, 1e-2, 1e-5):
        fit = Online(novelty=novelty, moments="laplace").fit(some)
        found = np.exp(Mixture(fit.components, some.x).log_probabilities(new, 3))
        errors.append(np.abs(found - exact).max())
        sizes.append(fit.report["basis"])
    assert sizes == sorted(set(sizes))
    assert sizes[-1] < 50
    assert errors[0] < 0.2
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 5e-4


def test_the_basis_is_what_the_rows_before_do_not_tell():
    some = problem(40, each=True)
    covariances, order = some.covariances(), np.random.default_rng(2).permutation(40)
    basis = set(choose_basis(covariances, order, 0.05).tolist())
    assert 3 < len(basis) < 40
    before = []
    for row in order.tolist():
        own, across = covariances[:, row, row], covariances[:, before, row]
        among = covariances[:, before][:, :, before]
        told = np.linalg.solve(among, across[..., np.newaxis])[..., 0]
        rest = own - (across * told).sum(axis=1)
        assert (row in basis) == (rest > 0.05 * own).any()
        before += [row] if row in basis else []


def test_a_row_may_be_new_under_one_kernel_and_a_copy_under_another():
    copies = np.full((6, 6), 3.0 + 1e-9)
    basis = choose_basis(np.stack([copies, np.eye(6)]), np.arange(6), 0.05)
    assert_allclose(basis, np.arange(6))


def test_projected_sites_by_full_matrices():
    some, rng = problem(9, each=True), np.random.default_rng(3)
    half = rng.normal(size=(9, 3, 3))
    blocks = half @ half.transpose(0, 2, 1)
    basis = np.array([1, 4, 5, 8])
    sites = Projected(marked(blocks, basis), some.covariances(), 3)
    own = [each[:, basis] for each in some.covariances()]
    q = interleaved([k @ np.linalg.solve(k[basis], k.T) for k in own])  # of projections
    p = block_diag(*blocks)
    v = p @ np.linalg.inv(np.eye(27) + q @ p)
    natural = rng.normal(size=(9, 3))
    coefficients = sites.coefficients(sites.mean(natural))
    assert not coefficients[[0, 2, 3, 6, 7]].any()
    latent = np.stack([k @ coefficients[:, r] for r, k in enumerate(some.covariances())], axis=1)
    expected = q @ np.linalg.solve(np.eye(27) + p @ q, natural.ravel())
    assert_allclose(latent.ravel(), expected, atol=1e-9)
    assert_allclose(sites.weigh(natural).ravel(), p @ natural.ravel(), atol=1e-12)
    # of the rows themselves: what the basis leaves, and the posterior of the projections
    variances = np.stack([kernel.diag(some.x) for kernel in some.kernels])
    posterior = (q - q @ v @ q).reshape(9, 3, 9, 3)
    rest = variances.T - np.diag(q).reshape(9, 3)
    for i, found in enumerate(sites.covariance(some.covariances(), variances)):
        assert_allclose(found, posterior[i, :, i] + np.diag(rest[i]), atol=1e-9)
