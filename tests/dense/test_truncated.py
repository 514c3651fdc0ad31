"""Draws of truncated Gaussians against their moments, also far in the tail."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.dense.truncated import below, cone, labelled, signed
from sparsegp.likelihoods import MultinomialProbit, Probit
from sparsegp.math.normal import hazard

DRAWS = 40_000


def check(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
    """Compare with moments, five standard errors about them; draws are (S, ...)."""
    error = np.sqrt(variance / DRAWS)
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * error).all()
    assert_allclose(draws.var(axis=0), variance, rtol=0.06)


@pytest.mark.parametrize("bound", [-30.0, -10.0, -1.0, 0.0, 2.0, 40.0])
def test_below(bound: float) -> None:
    z = below(np.full(DRAWS, bound), np.random.default_rng(1))
    assert (z <= bound).all()
    h = float(hazard(np.array(bound)))
    variance = 1.0 - bound * h - h * h
    if bound < -20.0:  # that is a difference of large numbers: 1 / b^2 - 6 / b^4
        variance = bound**-2 - 6.0 * bound**-4
    check(z, np.array(-h), np.array(variance))


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("mean", [-10.0, 0.3, 10.0])
def test_signed(side: float, mean: float) -> None:
    every = np.full((DRAWS, 1), mean)
    y = signed(every, np.full_like(every, 2.0), np.full_like(every, side), np.random.default_rng(2))
    assert (y * side >= 0.0).all()
    z = np.array(side * mean / 2.0)
    h = float(hazard(z))
    check(y[:, 0], np.array(mean + 2.0 * side * h), np.array(4.0 * (1.0 - h * (h + z))))


@pytest.mark.parametrize(
    "mean",
    [[0.0, 0.0, 0.0], [3.0, -1.0, 0.5], [0.0, 10.0, 3.0], [-10.0, 0.0, 0.2], [0.0, 1.0, 2.0, 9.0]],
)
@pytest.mark.parametrize("equal", [True, False])
def test_cone(mean: list[float], equal: bool) -> None:
    scale = np.ones(len(mean)) if equal else np.linspace(1.2, 3.0, len(mean))
    target = np.zeros(DRAWS, np.int64)
    shape = (DRAWS, len(mean))
    y = cone(
        np.broadcast_to(mean, shape),
        np.broadcast_to(scale, shape),
        target,
        np.random.default_rng(3),
    )
    assert (y.argmax(axis=1) == 0).all()
    moments = MultinomialProbit(24).moments(
        np.array([mean]), np.square(scale)[np.newaxis] - 1.0, np.array([0])
    )
    square = np.square(scale)
    wanted = np.array(mean) + square * moments.slope[0]
    check(y, wanted, square * (1.0 - square * moments.curvature[0]))


def test_correlations_in_a_cone() -> None:
    mean = np.array([[0.2, 0.5, -0.3]])
    y = cone(
        np.repeat(mean, DRAWS, axis=0),
        np.ones((DRAWS, 3)),
        np.full(DRAWS, 1),
        np.random.default_rng(4),
    )
    wanted = np.eye(3) - MultinomialProbit(24).curvature(mean, np.array([1]))[0]
    assert_allclose(np.cov(y.T), wanted, atol=0.02)


def test_biases_shift_the_cone() -> None:
    rng = np.random.default_rng(5)
    target = rng.integers(0, 3, size=500)
    likelihood = MultinomialProbit(12, (0.0, 3.0, -2.0))
    y = labelled(likelihood, np.zeros((500, 3)), np.ones((500, 3)), target, rng)
    assert (np.add(y, likelihood.biases).argmax(axis=1) == target).all()
    y = labelled(Probit(1.5), np.zeros((500, 1)), np.ones((500, 1)), target % 2, rng)
    assert ((y[:, 0] + 1.5 > 0.0) == (target % 2 == 1)).all()
