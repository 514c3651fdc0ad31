"""Hybrid Monte Carlo, and figures of convergence, where the right answers are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.signal import lfilter

from sparsegp.math.chains import effective_sample_size, r_hat
from sparsegp.math.hmc import Chain, Point, advance, leapfrog
from tests.differences import central

PRECISION = np.linalg.inv([[1.0, 0.6, 0.0], [0.6, 2.0, 0.3], [0.0, 0.3, 0.25]])


def gaussian(position, hint):
    return Point(position, float(0.5 * position @ PRECISION @ position), PRECISION @ position)


def quartic(position, hint):
    """exp(-q^4 / 4 - q^2 / 2) in each dimension: not Gaussian, but smooth."""
    energy = float(np.sum(position**4 / 4 + position**2 / 2))
    return Point(position, energy, position**3 + position)


def walled(position, hint):
    """A Gaussian of positive numbers; elsewhere the density is zero."""
    if (position <= 0).any():
        return Point(position, np.inf, np.zeros_like(position))
    return Point(position, float(0.5 * position @ position), position)


def run(energy, start, burn_in, steps, key):
    """Return the positions after the burn-in, (S, q)."""
    chain = Chain.begin(energy(start, np.empty(0)))
    positions = []
    for _ in range(burn_in + steps):
        chain = advance(energy, chain, key, burn_in)
        positions.append(chain.point.position)
    return np.array(positions[burn_in:])


@pytest.mark.parametrize("energy", [gaussian, quartic])
def test_leapfrog_is_reversible_and_keeps_volume(energy):
    rng = np.random.default_rng(0)
    mass = np.array([0.5, 1.0, 3.0])
    q, p = rng.normal(size=3), rng.normal(size=3)

    def flow(state):
        end, momentum = leapfrog(energy, energy(state[:3], np.empty(0)), state[3:], mass, 0.2, 7)
        return np.concatenate([end.position, momentum])

    start = np.concatenate([q, p])
    end = flow(start)
    back = flow(np.concatenate([end[:3], -end[3:]]))
    assert_allclose(back, np.concatenate([q, -p]), atol=1e-12)
    assert abs(np.linalg.det(central(flow, start))) == pytest.approx(1.0, abs=1e-6)


def test_another_density_by_its_distribution_function():
    draws = run(quartic, np.zeros(1), 200, 4000, (3,))[::4, 0]
    grid = np.linspace(-5, 5, 4001)
    density = np.exp(-(grid**4) / 4 - grid**2 / 2)
    distribution = np.cumsum(density) / density.sum()
    found = stats.kstest(draws, lambda x: np.interp(x, grid, distribution))
    assert found.pvalue > 0.01
    assert not np.isin(run(quartic, np.zeros(1), 200, 9, (4,)), draws).any()  # of another key


@pytest.mark.slow
def test_zero_density_is_never_entered():
    draws = run(walled, np.ones(2), 200, 12_000, (5,))
    assert (draws > 0).all()
    assert_allclose(draws.mean(axis=0), np.sqrt(2 / np.pi), atol=0.06)


def test_adaptation_meets_the_acceptance_and_finds_the_scales():
    scales = np.array([0.2, 1.0, 4.0])

    def wide(position, hint):
        return Point(position, float(0.5 * np.sum((position / scales) ** 2)), position / scales**2)

    chain = Chain.begin(wide(scales, np.empty(0)), 0.01)
    moves = []
    for _ in range(1800):
        before, chain = chain, advance(wide, chain, (1,), 1200, leapfrogs=12)
        moves.append((chain.point is not before.point, chain.step_size))
    accepted, sizes = zip(*moves[1200:], strict=True)
    assert np.mean(accepted) == pytest.approx(0.8, abs=0.1)
    assert_allclose(np.log(chain.mass * scales**2), 0.0, atol=0.7)
    assert len(set(sizes)) == 1


def autoregressive(rho, chains, n, count):
    """Return stationary chains (chains, n, count) with correlations rho^t."""
    noise = np.random.default_rng(7).normal(size=(chains, n, count))
    noise[:, 1:] *= np.sqrt(1.0 - rho * rho)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_draws_of_autoregressive_chains(rho):
    draws = autoregressive(rho, 4, 2000, 20)
    wanted = 8000.0 * (1.0 - rho) / (1.0 + rho)
    assert effective_sample_size(draws).mean() == pytest.approx(wanted, rel=0.06)


@pytest.mark.parametrize("rho", [-0.5, 0.3, 0.9])
def test_figures_by_their_definitions(rho):
    draws = autoregressive(rho, 3, 91, 2)
    halves = np.concatenate([draws[:, :45, 1], draws[:, -45:, 1]])
    within, parts = halves.var(axis=1, ddof=1).mean(), halves - halves.mean(axis=1, keepdims=True)
    total = 44.0 / 45.0 * within + halves.mean(axis=1).var(ddof=1)
    assert r_hat(draws)[1] == pytest.approx(np.sqrt(total / within), rel=1e-12)

    def correlation(lag):
        covariance = (parts[:, : 45 - lag] * parts[:, lag:]).sum() / parts.size
        return float(1.0 - (within - covariance) / total) if lag else 1.0

    length, least, lag = -1.0, np.inf, 0
    while lag < 44 and (pair := correlation(lag) + correlation(lag + 1)) > 0.0:
        least = min(least, pair)
        length, lag = length + 2.0 * least, lag + 2
    expected = 270.0 / max(length, 1.0 / np.log10(270.0))
    assert effective_sample_size(draws)[1] == pytest.approx(expected, rel=1e-9)


def test_what_never_changes_has_no_figures():
    draws = np.ones((2, 10, 1))
    assert np.isnan(r_hat(draws)).all()
    assert np.isnan(effective_sample_size(draws)).all()
