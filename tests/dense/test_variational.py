"""Variational inference against integrals, its own iteration, and the sparse posterior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.special import softmax
from scipy.stats import norm

from sparsegp.data import toy
from sparsegp.dense import Mixture, Problem, Variational
from sparsegp.dense.length_scales import KEY
from sparsegp.errors import NumericalError, SettingsError
from sparsegp.kernels import ARD, RBF, Linear
from sparsegp.likelihoods import MultinomialProbit, Probit
from tests.dense import references
from tests.dense.references import integrated


def problem(n, per_class=False, binary=False, variance=3.0):
    kernels = [variance * RBF(1.0)]
    if per_class:
        kernels = [v * RBF(w) for v, w in ((variance, 1.0), (0.5, 2.0), (1.5, 0.7))]
    likelihood = Probit() if binary else MultinomialProbit(24)
    return references.problem(likelihood, n, kernels, 2 if binary else 3, seed=n)


CASES = [(False, False), (True, False), (False, True)]


def fixed_point(some):
    """Latent means by GR eq. 4.6 and 4.9, the covariances, and K (K + I)^-1 of these."""
    n = len(some.x)
    every = np.broadcast_to(some.covariances(), (some.n_latent, n, n))
    smooth, mean = np.linalg.solve(every + np.eye(n), every), np.zeros((n, some.n_latent))
    for _ in range(600):
        site = mean + some.likelihood.moments(mean, np.zeros_like(mean), some.target).slope
        mean = np.einsum("rij,jr->ir", smooth, site)
    return mean, every, smooth


@pytest.mark.parametrize(("per_class", "binary"), CASES)
@pytest.mark.parametrize("n", [1, 3])
def test_bound_is_below_the_log_marginal_likelihood(n, per_class, binary):
    some = problem(n, per_class, binary)
    new = np.array([[0.3, -0.2]])
    exact, probabilities = integrated(some, new, 2 if binary else 3)
    found = Variational().fit(some)
    assert exact - 5.0 < found.log_evidence < exact - 1e-2
    log_p = Mixture(found.components, some.x).log_probabilities(new, probabilities.shape[1])
    assert_allclose(np.exp(log_p), probabilities, atol=0.05)


def test_bound_of_one_row_by_hand():
    some = Problem(np.zeros((1, 1)), np.array([1]), [3.0 * RBF(1.0)], Probit(), 1)
    found = Variational(tolerance=1e-14).fit(some)
    m, variance = 0.0, 0.75  # of Q(m) = N(m, 3 / 4)
    for _ in range(200):  # GR eq. 4.9
        m = 0.75 * (m + norm.pdf(m) / norm.cdf(m))
    # E[log p(t, y, m) - log Q(y) - log Q(m)] with Q(y) = N(m, 1) where y > 0
    y = np.linspace(0.0, m + 12.0, 100_001)
    density = norm.pdf(y, m) / norm.cdf(m)
    log_joint = norm.logpdf(y, m) - 0.5 * variance
    expected = trapezoid(density * (log_joint - np.log(density)), y)
    expected += -0.5 * np.log(2.0 * np.pi * 3.0) - (m * m + variance) / 6.0
    expected += 0.5 * np.log(2.0 * np.pi * np.e * variance)
    assert found.log_evidence == pytest.approx(expected, abs=1e-7)
    assert found.components[0].coefficients[0, 0, 0] == pytest.approx(m / 3.0, rel=1e-6)


@pytest.mark.parametrize(("per_class", "binary"), CASES)
def test_bound_never_falls(per_class, binary):
    some = problem(60, per_class, binary, variance=30.0)
    found = Variational().fit(some)
    bounds = [step["log_evidence"] for step in found.trace]
    assert len(bounds) > 5
    assert (np.diff(bounds) >= 0.0).all()
    assert found.report["bound_within"] <= 1e-8
    loose = Variational(tolerance=1e-2).fit(some)
    assert len(loose.trace) < len(bounds)
    assert 0.0 <= found.log_evidence - loose.log_evidence <= loose.report["bound_within"] + 1e-8


@pytest.mark.parametrize(("per_class", "binary"), CASES)
def test_it_is_the_fixed_point(per_class, binary):
    some = problem(25, per_class, binary, variance=1.0)
    found = Variational(tolerance=1e-15).fit(some)
    mean, every, smooth = fixed_point(some)
    latent, variance = Mixture(found.components, some.x).latent(some.x)
    assert_allclose(latent, mean, atol=1e-6)
    assert_allclose(variance, np.einsum("rii->ir", every - every @ smooth), atol=1e-9)


def test_too_few_steps():
    with pytest.raises(NumericalError, match="raise steps=2"):
        Variational(steps=2).fit(problem(60, variance=30.0))


def test_a_round_by_hand():
    some = problem(20)
    latent, _, _ = fixed_point(some)
    rate = (1e-3 + 1.0) / (1e-3 + 0.5)  # GR eq. 4.8, of the length scale of one
    draws = np.random.default_rng([some.seed, KEY, 1]).standard_exponential((40, 1)) / rate
    kernels = (3.0 * RBF(np.sqrt(0.5 / phi)) for phi in draws[:, 0])
    every = np.eye(20) + [kernel(some.x, some.x) for kernel in kernels]
    share = softmax(-0.5 * (latent * np.linalg.solve(every, latent)).sum(axis=(1, 2)))
    found = Variational(importance=40, rounds=1, tolerance=1e-14)
    trace = found.fit(some).trace
    assert trace[1]["phi_0"] == pytest.approx(float(share @ draws[:, 0]), rel=1e-5)
    assert trace[1]["effective_draws"] == pytest.approx(1.0 / np.square(share).sum(), rel=1e-4)


@pytest.mark.slow
def test_many_updates_come_to_the_maximum():
    rounds = []
    for updates in (0, 400):
        chosen = Variational(importance=16, updates=updates, rounds=2, rise=-1.0, tolerance=1e-12)
        rounds.append(chosen.fit(problem(20)).trace[2])
    assert rounds[1]["phi_0"] == pytest.approx(rounds[0]["phi_0"], rel=1e-4)
    assert rounds[1]["log_evidence"] == pytest.approx(rounds[0]["log_evidence"], abs=1e-6)


def test_length_scales_of_the_relevant_inputs():
    X, y = toy(80, 3)
    some = Problem(X[:, :4], y - 1, [ARD((0.7,) * 4)], MultinomialProbit(), 3, seed=1)
    found = Variational(importance=48, rounds=6, rise=-1.0).fit(some)
    phi = 0.5 * np.exp(-2.0 * found.components[0].kernels[0].parameters())
    assert (phi[:2] > 1.0).all()
    assert (phi[2:] < 0.1).all()
    assert found.log_evidence > Variational().fit(some).log_evidence + 20.0
    assert found.trace[0]["phi_0"] == pytest.approx(0.5 / 0.7**2)


def test_rounds_end_when_the_bound_has_settled():
    X, y = toy(40, 5)
    some = Problem(X[:, :2], y - 1, [RBF(0.7)], MultinomialProbit(), 3)
    found = Variational(importance=16).fit(some)
    assert sum("phi_0" in step for step in found.trace) == 5


def test_a_kernel_without_length_scales():
    some = problem(6)
    other = Problem(some.x, some.target, [Linear()], some.likelihood, 3)
    with pytest.raises(SettingsError, match="leave importance at 0"):
        Variational(importance=8).fit(other)
