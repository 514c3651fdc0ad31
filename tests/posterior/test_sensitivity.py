"""The posterior mode against a fixed point, and the gradient of J against finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.errors import NumericalError
from sparsegp.kernels import ARD, Kernel, Matern52, parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.posterior import sensitivity
from sparsegp.posterior.sensitivity import CrossFit, Features, System, find_mode
from sparsegp.types import Doubles, Integers

N, P, K, D = 120, 4, 3, 20
LIKELIHOOD = MultinomialProbit(n_nodes=32)


@pytest.fixture(scope="module")
def rows() -> tuple[Doubles, Integers]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, P))
    latent = np.sin(2.0 * X @ rng.normal(size=(P, K))) + 0.3 * rng.normal(size=(N, K))
    return X, latent.argmax(axis=1)


@pytest.fixture(scope="module")
def fit(rows: tuple[Doubles, Integers]) -> CrossFit:
    X, target = rows
    return CrossFit(X, target, K, np.arange(N) % 3, X[:D], LIKELIHOOD, 1e-13, 1e-11)


def test_mode_is_the_fixed_point_of_variational_inference(
    rows: tuple[Doubles, Integers],
) -> None:
    X, target = rows[0][:60], rows[1][:60]
    kernel = parse("5*rbf(1.5)")
    mode = find_mode(
        Features(kernel, X, X), np.arange(60), target, LIKELIHOOD, np.zeros((60, K)), 1e-12
    )
    covariance = kernel(X, X)
    smoother = np.linalg.solve(covariance + np.eye(60), covariance)
    mean, zero = np.zeros((60, K)), np.zeros((60, 1))
    for _ in range(4000):  # GR eq. 4.6
        mean = smoother @ (mean + LIKELIHOOD.gradient(mean, zero, target)[1])
    assert_allclose(mode.mean, mean, atol=1e-6)


def test_mode_does_not_depend_on_where_it_starts(rows: tuple[Doubles, Integers]) -> None:
    X, target = rows
    features, every = Features(parse("200*rbf(0.7)"), X, X[:D]), np.arange(N)
    first, second = (
        find_mode(features, every, target, LIKELIHOOD, start - start.mean(1, keepdims=True), 1e-12)
        for start in (np.zeros((D, K)), 5.0 * np.random.default_rng(0).normal(size=(D, K)))
    )
    assert_allclose(first.mean, second.mean, atol=1e-7)


@pytest.mark.parametrize("doubled", [False, True])
def test_system_is_solved(rows: tuple[Doubles, Integers], doubled: bool) -> None:
    X, target = rows
    U = np.concatenate([X[:D], X[:5]]) if doubled else X[:D]  # then H is singular
    features = Features(parse("100*ard(1.0, 2.0, 1.0, 3.0)"), X, U)
    mean = np.random.default_rng(1).normal(size=(N, K)) * 2.0
    curvature = LIKELIHOOD.curvature(mean, target)
    system = System.at(features.stub, curvature, features.penalty)
    slope = LIKELIHOOD.gradient(mean, np.zeros((N, 1)), target)[1]
    right = features.stub @ slope
    found = system.solve(right, 1e-10)
    dense = np.einsum("dn,njk,en->djek", features.stub, curvature, features.stub)
    dense += np.einsum("de,jk->djek", features.penalty, np.eye(K))
    size = right.size
    expected = np.linalg.lstsq(dense.reshape(size, size), right.ravel(), rcond=1e-12)[0]
    latent = features.stub.T @ expected.reshape(right.shape)
    assert_allclose(features.stub.T @ found, latent, atol=1e-7 * np.abs(latent).max())


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [
        ("MOST_PRODUCTS", 1, "must be solved to 1e-03, but were not after 1 "),
        ("MOST_NEWTON_STEPS", 2, "found to 1e-09 nats, but the last of 2 steps promi"),
    ],
)
def test_a_mode_that_is_not_found_is_refused(
    rows: tuple[Doubles, Integers],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    most: int,
    message: str,
) -> None:
    monkeypatch.setattr(sensitivity, limit, most)
    X, target = rows
    features = Features(parse("100*rbf(1)"), X, X[:D])
    with pytest.raises(NumericalError, match=message):
        find_mode(features, np.arange(N), target, LIKELIHOOD, np.zeros((D, K)), 1e-9)


def test_default_accuracy_is_enough_to_climb(fit: CrossFit) -> None:
    kernel = parse("100*ard(1.0, 2.0, 1.5, 3.0)")
    exact = fit.judge(kernel, 1.2, fit.start())
    plain = CrossFit(fit.X, fit.target, K, fit.fold, fit.U, LIKELIHOOD)
    quick = plain.judge(kernel, 1.2, plain.start())
    assert_allclose(quick.value, exact.value, atol=1e-4)
    assert_allclose(quick.gradient, exact.gradient, atol=1e-4 * np.abs(exact.gradient).max())


@pytest.mark.parametrize(
    ("kernel", "temperature"),
    [
        (30 * ARD((1.0, 2.0, 1.5, 3.0)), 1.0),
        (20 * Matern52(2.0) * (ARD((1.0, 1.0, 2.0, 2.0)) + 0.5), 1.4),
    ],
    ids=str,
)
def test_gradient_against_finite_differences(
    fit: CrossFit, kernel: Kernel, temperature: float
) -> None:
    at = fit.judge(kernel, temperature, fit.start())
    logs, step = kernel.parameters(), 1e-3
    for direction in np.random.default_rng(1).normal(size=(3, len(logs))):
        values = [
            fit.judge(
                kernel.with_parameters(logs + k * step * direction), temperature, at.coefficients
            ).value
            for k in (2, 1, -1, -2)
        ]
        expected = np.dot([-1.0, 8.0, -8.0, 1.0], values) / (12.0 * step)
        assert abs(expected) > 0.1
        assert_allclose(at.gradient @ direction, expected, rtol=1e-5, atol=1e-6)


def test_each_fold_is_judged_by_the_others(fit: CrossFit) -> None:
    kernel, zero = parse("10*rbf(1.5)"), np.zeros((D, K))
    features, total = Features(kernel, fit.X, fit.U), 0.0
    for number in range(3):
        out = fit.fold == number
        mode = find_mode(
            features, np.flatnonzero(~out), fit.target, LIKELIHOOD, zero, fit.precision
        )
        a = np.linalg.solve(features.factor.T, mode.coefficients)
        mean = kernel(fit.X[out], fit.U) @ a / 1.3
        total += LIKELIHOOD.log_z(mean, np.zeros((out.sum(), 1)), fit.target[out]).sum()
    assert_allclose(fit.judge(kernel, 1.3, fit.start()).value, total, rtol=1e-9)
