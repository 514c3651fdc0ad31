"""Laplace's approximation against optimisers, finite differences and quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.differentiate import hessian
from scipy.linalg import block_diag
from scipy.optimize import minimize

from sparsegp.dense import Laplace, Mixture, Problem
from sparsegp.dense.mixture import covariances
from sparsegp.kernels import RBF
from sparsegp.likelihoods import LIKELIHOODS, Logistic, MultinomialProbit, Probit, Softmax
from tests.dense import references
from tests.runs import peak_memory

BIASED = {
    "logistic": Logistic(0.3),
    "probit": Probit(-0.4),
    "softmax": Softmax(biases=(0.2, -0.5, 0.4)),
    "multinomial_probit": MultinomialProbit(30, (0.2, -0.5, 0.4)),
}


def problem(name, n=20, n_kernels=1):
    kernels = [(5.0 + 2 * c) * RBF(0.8 + 0.3 * c) for c in range(n_kernels)]
    return references.problem(BIASED[name], n, kernels, max(2, BIASED[name].n_latent(3)))


@pytest.mark.parametrize(
    ("name", "n_kernels"),
    [*((name, 1) for name in BIASED), ("softmax", 3), ("multinomial_probit", 3)],
)
def test_definition_with_full_matrices(name, n_kernels):
    some = problem(name, n=3, n_kernels=n_kernels)
    every = [some.kernels[r % n_kernels] for r in range(some.n_latent)]
    prior = block_diag(*(kernel(some.x, some.x) for kernel in every))
    root = np.linalg.cholesky(prior)

    def log_p(u):  # of latent values (R n,), and of many of them at once
        each = np.moveaxis(u.reshape(some.n_latent, len(some.x), *u.shape[1:]), (0, 1), (-1, -2))
        return some.likelihood.log_density(each, some.target).sum(-1)

    def minus_height(whitened):
        return 0.5 * float(whitened @ whitened) - float(log_p(root @ whitened))

    best = minimize(minus_height, np.zeros(len(prior)), method="BFGS", options={"gtol": 1e-8})
    mode = root @ best.x
    p = -hessian(log_p, mode).ddf
    log_det = np.linalg.slogdet(np.eye(len(prior)) + prior @ p)[1]

    found = Laplace().fit(some)
    assert found.log_evidence == pytest.approx(-best.fun - 0.5 * log_det, abs=3e-5)
    component = found.components[0]
    assert_allclose(np.linalg.solve(prior, mode), component.coefficients[0].T.ravel(), atol=2e-5)
    mean = Mixture(found.components, some.x).latent(some.x)[0]
    assert_allclose(mean.T.ravel(), mode, atol=2e-4)

    new = some.x + 0.3
    cross, own = (block_diag(*(kernel(x, new) for kernel in every)) for x in (some.x, new))
    covariance = own - cross.T @ p @ np.linalg.solve(np.eye(len(p)) + prior @ p, cross)
    expected = np.einsum("rmsm->mrs", covariance.reshape(2 * (some.n_latent, 3)))
    variances = np.stack([kernel.diag(new) for kernel in some.kernels])
    between = covariances(some.kernels, some.x, new)
    found = component.sites(some.x).covariance(between, variances)
    assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_means_alone_are_averages_of_nothing():
    some = problem("probit")
    mixture = Mixture(Laplace().fit(some).components, some.x, averaged=False)
    mean = mixture.latent(some.x)[0]
    expected = some.likelihood.log_density(mean, np.ones(20, np.int64))
    assert_allclose(mixture.log_probabilities(some.x, 2)[:, 1], expected, atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "probit", "softmax"])
def test_huge_variances_need_shorter_steps(name):
    """Where latent values of thousands are free, whole Newton steps lead astray."""
    rng = np.random.default_rng(6)
    count = 3 if name == "softmax" else 2
    x, target = rng.normal(size=(40, 2)), rng.integers(0, count, 40)
    likelihood = LIKELIHOODS[name].start(count)
    some = Problem(x, target, [1e8 * RBF(0.7)], likelihood, likelihood.n_latent(count))
    found = Laplace().fit(some)
    latent = Mixture(found.components, x).latent(x)[0]
    assert np.isfinite(found.log_evidence)
    slope = likelihood.gradient(latent, target)[1]
    assert_allclose(slope, found.components[0].coefficients[0], atol=2e-5)


@pytest.mark.parametrize(
    ("name", "n_kernels"), [("probit", 1), ("softmax", 3), ("multinomial_probit", 1)]
)
def test_memory_is_what_it_says(name, n_kernels):
    some = problem(name, n=200, n_kernels=n_kernels)
    said = Laplace().matrices(n_kernels, some.n_latent, name)
    with peak_memory() as held:
        Laplace().evidence(some)
        matrices = held() / (8 * 200 * 200)
    assert 0.6 * said < matrices <= said
