"""Draws of Gaussians in the cones of labels against their moments, also far in the tail."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.dense import Problem
from sparsegp.dense.orthant import labelled
from sparsegp.kernels import RBF
from sparsegp.likelihoods import MultinomialProbit, Probit
from sparsegp.math.normal import hazard

DRAWS = 40_000


def draw(mean: list[float], scale: list[float], label: int, key: int) -> np.ndarray:
    """Return draws (S, R) of one row, given its label."""
    several, shape = len(mean) > 1, (DRAWS, len(mean))
    likelihood = MultinomialProbit(24) if several else Probit()
    some = Problem(np.zeros((1, 1)), np.array([label]), [RBF(1.0)], likelihood, len(mean))
    rng = np.random.default_rng(key)
    centre, width = np.broadcast_to(mean, shape), np.broadcast_to(scale, shape)
    return labelled(some, centre, width, np.full(DRAWS, label), rng)


def check(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
    """Compare with moments, five standard errors about them; draws are (S, ...)."""
    error = np.sqrt(variance / DRAWS)
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * error).all()
    assert_allclose(draws.var(axis=0), variance, rtol=0.06)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("mean", [-60.0, -2.0, 0.3, 10.0])
def test_two_classes(mean: float, label: int) -> None:
    side = 2.0 * label - 1.0
    y = draw([mean], [2.0], label, 2)[:, 0]
    assert (y * side >= 0.0).all()
    z = np.array(side * mean / 2.0)
    h = float(hazard(z))
    variance = 4.0 * (1.0 - h * (h + z))
    if z < -20.0:  # that is a difference of large numbers: 1 / z^2 - 6 / z^4
        variance = 4.0 * (z**-2 - 6.0 * z**-4)
    check(y, np.array(mean + 2.0 * side * h), variance)


@pytest.mark.parametrize(
    "mean",
    [[0.0, 0.0, 0.0], [3.0, -1.0, 0.5], [0.0, 10.0, 3.0], [-10.0, 0.0, 0.2], [0.0, 1.0, 2.0, 9.0]],
)
@pytest.mark.parametrize("equal", [True, False])
def test_several_classes(mean: list[float], equal: bool) -> None:
    scale = np.ones(len(mean)) if equal else np.linspace(1.2, 3.0, len(mean))
    y = draw(mean, scale.tolist(), 0, 3)
    assert (y.argmax(axis=1) == 0).all()
    square = np.square(scale)
    moments = MultinomialProbit(24).moments(
        np.array([mean]), square[np.newaxis] - 1.0, np.array([0])
    )
    check(y, mean + square * moments.slope[0], square * (1.0 - square * moments.curvature[0]))
