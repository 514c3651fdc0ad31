"""Figures of convergence against chains of which they are known."""

import numpy as np
import pytest

from sparsegp.math.chains import effective_draws, r_hat


def autoregressive(rho: float, chains: int, n: int, count: int) -> np.ndarray:
    """Return stationary chains (chains, n, count) with correlations rho^t."""
    rng = np.random.default_rng(7)
    out = np.empty((chains, n, count))
    out[:, 0] = rng.normal(size=(chains, count))
    for t in range(1, n):
        noise = rng.normal(size=(chains, count))
        out[:, t] = rho * out[:, t - 1] + np.sqrt(1.0 - rho * rho) * noise
    return out


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_draws_of_autoregressive_chains(rho: float) -> None:
    draws = autoregressive(rho, 4, 2000, 20)
    wanted = 8000.0 * (1.0 - rho) / (1.0 + rho)
    assert effective_draws(draws).mean() == pytest.approx(wanted, rel=0.06)


def test_chains_that_swing_to_and_fro_tell_more_than_independent_draws() -> None:
    draws = autoregressive(-0.5, 4, 2000, 10)
    found = effective_draws(draws)
    assert (found > 12_000).all()
    assert (found <= 8000 * np.log10(8000) + 1e-6).all()


def test_r_hat() -> None:
    draws = autoregressive(0.0, 4, 500, 5)
    assert (r_hat(draws) < 1.01).all()
    apart = draws.copy()
    apart[0, :, 1] += 1.0
    apart[0, :, 2] *= 4.0
    apart[:, 250:, 3] += 1.0  # a drift within every chain
    found = r_hat(apart)
    assert (found[[0, 4]] < 1.01).all()
    assert (found[1:4] > 1.05).all()
    expected = np.exp(3.0 * apart)  # ranks stay
    np.testing.assert_allclose(r_hat(expected)[[1, 3]], found[[1, 3]], rtol=2e-2)
    np.testing.assert_allclose(effective_draws(expected), effective_draws(apart), rtol=1e-12)


def test_what_never_changes_has_no_figures() -> None:
    draws = np.ones((2, 10, 1))
    assert np.isnan(r_hat(draws)).all()
    assert np.isnan(effective_draws(draws)).all()


def test_odd_numbers_of_draws() -> None:
    draws = autoregressive(0.3, 1, 401, 1)
    assert r_hat(draws)[0] < 1.02
    assert 100 < effective_draws(draws)[0] < 400
