"""The multinomial probit against scipy's quadrature, orthant probabilities and closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.math.quadrature import CHUNK_TERMS

PRECISE = MultinomialProbit(n_nodes=96)
DEFAULT = MultinomialProbit()


def density(u):
    return math.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)


def z_by_quad(mean, variance, i):
    """GR eq. 5.5 as it stands."""
    v = np.sqrt(1.0 + np.broadcast_to(variance, mean.shape))
    others = np.delete(np.arange(len(mean)), i)

    def integrand(u):
        return density(u) * float(np.prod(ndtr((u * v[i] + mean[i] - mean[others]) / v[others])))

    jumps = np.clip((mean[others] - mean[i]) / v[i], -11.0, 11.0)
    value, _ = quad(integrand, -12.0, 12.0, points=jumps, epsabs=0.0, epsrel=1e-9, limit=200)
    return value


def problem(n, n_classes, shared, spread=1.5, seed=0, largest=3.0):
    rng = np.random.default_rng([seed, n_classes])
    mean = rng.normal(size=(n, n_classes)) * spread
    variance = rng.uniform(0.0, largest, size=(n, 1 if shared else n_classes))
    return mean, variance, rng.integers(n_classes, size=n)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 5, 10, 26])
def test_log_z_against_adaptive_quadrature(n_classes, shared):
    mean, variance, target = problem(15, n_classes, shared)
    expected = np.log([z_by_quad(*row) for row in zip(mean, variance, target, strict=True)])
    np.testing.assert_allclose(PRECISE.log_z(mean, variance, target), expected, atol=1e-8)
    tolerance = 2e-5 if shared else 5e-3
    np.testing.assert_allclose(DEFAULT.log_z(mean, variance, target), expected, atol=tolerance)


@pytest.mark.parametrize("shared", [True, False])
def test_two_classes_have_a_closed_form(shared):
    mean, variance, target = problem(400, 2, shared, spread=8.0)
    mean[:4, 0] += np.array([30.0, 300.0, 1e3, 1e4])  # far in the tails, too
    total = np.broadcast_to(1.0 + variance, mean.shape).sum(axis=1)
    gap = np.where(target == 0, mean[:, 0] - mean[:, 1], mean[:, 1] - mean[:, 0])
    expected = log_ndtr(gap / np.sqrt(total))
    found = PRECISE.log_z(mean, variance, target)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-7)
    tolerance = 1e-6 if shared else 5e-3
    found = DEFAULT.log_z(mean, variance, target)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=tolerance)


def test_equal_means_share_the_probability():
    for n_classes in (2, 3, 10, 26):
        for variance in (0.0, 1.0, 100.0):
            got = DEFAULT.log_z(
                np.full((n_classes, n_classes), 3.7),
                np.full((n_classes, 1), variance),
                np.arange(n_classes),
            )
            np.testing.assert_allclose(got, -math.log(n_classes), atol=2e-5)


@pytest.mark.parametrize("likelihood", [DEFAULT, PRECISE])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_gradient_against_finite_differences(n_classes, shared, likelihood):
    mean, variance, target = problem(20, n_classes, shared, largest=1.0)
    log_z, gradient = likelihood.gradient(mean, variance, target)
    np.testing.assert_array_equal(log_z, likelihood.log_z(mean, variance, target))
    step = 1e-4
    numeric = np.empty_like(gradient)
    for k in range(n_classes):
        up, down = mean.copy(), mean.copy()
        up[:, k] += step
        down[:, k] -= step
        difference = PRECISE.log_z(up, variance, target) - PRECISE.log_z(down, variance, target)
        numeric[:, k] = difference / (2 * step)
    rough = 5e-5 if shared else 1e-3
    tolerance = 1e-6 if likelihood is PRECISE else rough
    np.testing.assert_allclose(gradient, numeric, atol=tolerance)


@pytest.mark.parametrize("likelihood", [DEFAULT, PRECISE])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_curvature_against_finite_differences(n_classes, likelihood):
    mean, _, target = problem(20, n_classes, True)
    zero, step = np.zeros((20, 1)), 1e-4
    numeric = np.empty((*mean.shape, n_classes))
    for k in range(n_classes):
        move = step * (np.arange(n_classes) == k)
        up, down = (PRECISE.gradient(mean + sign * move, zero, target)[1] for sign in (1, -1))
        numeric[:, :, k] = (down - up) / (2 * step)
    tolerance = 1e-7 if likelihood is PRECISE else 5e-4
    np.testing.assert_allclose(likelihood.curvature(mean, target), numeric, atol=tolerance)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_curvature_lies_between_zero_and_one(spread):
    mean, _, target = problem(CHUNK_TERMS // 12 // 7 + 50, 7, True, spread)
    curvature = DEFAULT.curvature(mean, target)
    np.testing.assert_allclose(curvature, curvature.transpose(0, 2, 1), atol=1e-15)
    np.testing.assert_allclose(curvature.sum(axis=2), 0.0, atol=1e-13)
    values = np.linalg.eigvalsh(curvature)
    assert values.min() > -1e-6
    assert values.max() < 1.0 + 1e-6


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_gradient_sums_to_zero_and_points_to_the_target(shared, spread):
    mean, variance, target = problem(200, 7, shared, spread)
    _, gradient = DEFAULT.gradient(mean, variance, target)
    size = np.abs(gradient).max(axis=1)
    np.testing.assert_array_less(np.abs(gradient.sum(axis=1)), 1e-14 * size + 1e-300)
    own = gradient[np.arange(200), target]
    assert (own >= 0).all()
    gradient[np.arange(200), target] = 0.0
    assert (gradient <= 0).all()


@pytest.mark.parametrize("n_classes", [2, 5])
def test_gradient_at_zero_variance_is_that_of_the_variational_posterior(n_classes):
    """GR eq. 4.3 and 4.4, every expectation by adaptive quadrature."""
    mean, _, target = problem(8, n_classes, True)
    _, p = DEFAULT.gradient(mean, np.zeros((8, 1)), target)
    for m, i, row in zip(mean, target, p, strict=True):
        expected = np.zeros(n_classes)
        for k in np.delete(np.arange(n_classes), i):
            rest = np.delete(np.arange(n_classes), [i, k])

            def product(u, m=m, i=i, rest=rest):
                return density(u) * float(np.prod(ndtr(u + m[i] - m[rest])))

            def above(u, m=m, i=i, k=k, product=product):
                return norm.pdf(u, m[k] - m[i], 1.0) * product(u)

            def below(u, m=m, i=i, k=k, product=product):
                return ndtr(u + m[i] - m[k]) * product(u)

            ratio = [quad(f, -12.0, 12.0, epsrel=1e-9)[0] for f in (above, below)]
            expected[k] = -ratio[0] / ratio[1]
        expected[i] = -expected.sum()
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_only_differences_of_means_matter_whatever_the_order_of_classes():
    mean, variance, target = problem(50, 6, False, 3.0)
    order = np.random.default_rng(1).permutation(6)
    moved = (mean + np.random.default_rng(2).normal(size=(50, 1)))[:, order]
    log_z, gradient = DEFAULT.gradient(mean, variance, target)
    other_z, other = DEFAULT.gradient(moved, variance[:, order], np.argsort(order)[target])
    np.testing.assert_allclose(other_z, log_z, rtol=1e-11)
    np.testing.assert_allclose(other, gradient[:, order], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_rows_do_not_influence_each_other(n_classes, shared, monkeypatch):
    n = 300
    mean, variance, target = problem(n, n_classes, shared)
    mean *= np.random.default_rng(0).choice([0.1, 1.0, 30.0, 1e3], size=(n, 1))
    log_z, gradient = DEFAULT.gradient(mean, variance, target)
    log_p = DEFAULT.log_probabilities(mean, variance)

    def same(rows, index):
        some_z, some = DEFAULT.gradient(mean[index], variance[index], target[index])
        assert np.array_equal(some_z, log_z[index]), rows
        assert np.array_equal(some, gradient[index]), rows
        assert np.array_equal(DEFAULT.log_z(mean[index], variance[index], target[index]), some_z)
        assert np.array_equal(DEFAULT.log_probabilities(mean[index], variance[index]), log_p[index])

    for row in (0, 1, 17, n - 1):
        same("alone", slice(row, row + 1))
    same("a few", slice(100, 107))
    same("every other, backwards", slice(None, None, -2))
    same("any order", np.random.default_rng(3).permutation(n))
    for terms in (1, 1000, 12345, CHUNK_TERMS * 16):
        monkeypatch.setattr("sparsegp.math.quadrature.CHUNK_TERMS", terms)
        monkeypatch.setattr("sparsegp.likelihoods.multinomial_probit.CHUNK_VALUES", terms)
        same(f"{terms} terms at a time", slice(None))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("distance", [30.0, 1e3, 1e4])
def test_extreme_means_stay_finite(n_classes, distance):
    mean = np.zeros((4, n_classes))
    mean[0, 0], mean[1, 0], mean[2, -1], mean[3] = distance, -distance, distance, -distance
    target = np.array([0, 0, 0, 1])
    variance = np.array([[0.0], [1.0], [10.0], [0.0]])
    log_z, gradient = DEFAULT.gradient(mean, variance, target)
    assert np.isfinite(log_z).all()
    assert np.isfinite(gradient).all()
    assert np.isfinite(DEFAULT.log_probabilities(mean, variance)).all()
    assert log_z[0] == pytest.approx(0.0, abs=1e-11)
    assert np.abs(gradient[0]).max() < 1e-90
    # with s = 10 one other class is far ahead; all that counts is the two of them
    leading = log_ndtr(-distance / math.sqrt(2.0 * 11.0))
    assert log_z[2] == pytest.approx(leading, rel=2e-3 if distance > 100 else 0.2)
    assert log_z[3] == pytest.approx(-math.log(n_classes), abs=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n_classes", "atol", "gradient_atol"), [(2, 4e-6, 2e-5), (10, 2e-4, 5e-4), (26, 1e-3, 4e-3)]
)
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_mean_gradient_of_many_rows_is_as_accurate_as_it_says(
    dtype, n_classes, atol, gradient_atol, spread
):
    rng = np.random.default_rng(7)
    target = rng.integers(n_classes, size=600)
    mean = (spread * rng.normal(size=(600, n_classes))).astype(dtype)
    mean[np.arange(600), target] += dtype(2.0 * spread)
    log_z, gradient = MultinomialProbit().mean_gradient(mean, target)
    expected, slope = MultinomialProbit(80).gradient(mean.astype(np.float64), None, target)
    np.testing.assert_allclose(log_z, expected, atol=atol)
    np.testing.assert_allclose(gradient, slope, atol=gradient_atol)
    some = rng.permutation(600)[:37]
    alone = MultinomialProbit().mean_gradient(mean[some], target[some])
    np.testing.assert_array_equal(alone[0], log_z[some])
    np.testing.assert_array_equal(alone[1], gradient[some])
