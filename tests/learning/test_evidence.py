"""The evidence criterion against dense formulas, its gradient against differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from sparsegp.errors import NumericalError
from sparsegp.kernels import ARD, RBF, Constant, Linear, Matern32, Matern52
from sparsegp.learning.adf import noise_sites
from sparsegp.learning.evidence import ActivePart
from sparsegp.likelihoods.gaussian import Gaussian
from sparsegp.likelihoods.probit import Probit

KERNELS = [
    RBF(1.2),
    2.0 * RBF(1.2),
    0.5 * Linear(0.7),
    1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear(),
    3.0 * Matern52(1.0) * (Matern32(2.0) + 0.2),
    Constant(2.0) + Matern32(0.7),
]
LIKELIHOODS = [Probit(0.3), Gaussian(0.2)]

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda x: x.name)


def some_sites(d: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([np.exp(rng.normal(size=d)), rng.normal(size=d)])


def dense(rows, kernel, likelihood, sites) -> float:
    """phi by its definition, -log of eq. 3, with inverses of full matrices."""
    active, (pi, b) = rows.active, sites
    K = kernel(rows.X, rows.X) + 1e-9 * np.eye(len(rows.X))
    Pi, shift = np.zeros(len(K)), np.zeros(len(K))
    Pi[active], shift[active] = pi, b
    A = np.linalg.inv(np.linalg.inv(K) + np.diag(Pi))
    h, a = A @ shift, np.diagonal(A)
    keep = rows.counts.copy()
    keep[active] = True
    cavity_a = a / (1 - Pi * a)
    cavity_h = h + cavity_a * (Pi * h - shift)
    log_z = likelihood.log_z(cavity_h[:, None], cavity_a[:, None], rows.target)
    log_z_site = 0.5 * (np.log(a / cavity_a) + h**2 / a - cavity_h**2 / cavity_a)
    normaliser = np.linalg.slogdet(A)[1] - np.linalg.slogdet(K)[1] + shift @ h
    return float(-(log_z - log_z_site)[keep].sum() - 0.5 * normaliser)


@every_kernel
@every_likelihood
def test_equals_its_definition_by_full_matrices(kernel, likelihood, make_rows):
    rows = make_rows(likelihood.numeric)
    sites = some_sites(len(rows.active))
    expected = dense(rows, kernel, likelihood, sites)
    assert rows.evidence(kernel, likelihood, sites).phi == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("noise", [1e-8, 0.2, 50.0])
def test_gaussian_noise_gives_the_marginal_likelihood_and_predictive_densities(noise, make_rows):
    rows, kernel, likelihood = make_rows(True), 2.0 * RBF(1.2), Gaussian(noise)
    X, y = rows.X[rows.active], rows.target[rows.active]
    covariance = kernel(X, X) + noise * np.eye(len(X))
    expected = -multivariate_normal(np.zeros(len(X)), covariance).logpdf(y)
    others = np.setdiff1d(np.flatnonzero(rows.counts), rows.active)
    cross = kernel(rows.X[others], X)
    weights = np.linalg.solve(covariance, cross.T)
    variance = kernel.diag(rows.X[others]) - (cross * weights.T).sum(axis=1) + noise
    expected -= norm(weights.T @ y, np.sqrt(variance)).logpdf(rows.target[others]).sum()
    sites, _ = noise_sites(likelihood, y)
    assert rows.evidence(kernel, likelihood, sites).phi == pytest.approx(expected, rel=1e-8)


@every_kernel
@every_likelihood
def test_gradient_with_sites_held(kernel, likelihood, make_rows, central):
    rows = make_rows(likelihood.numeric)
    sites = some_sites(len(rows.active))
    found = rows.evidence(kernel, likelihood, sites)

    by_kernel = central(
        lambda t: rows.evidence(kernel.with_parameters(t), likelihood, sites).phi,
        kernel.parameters(),
    )
    by_likelihood = central(
        lambda t: rows.evidence(kernel, likelihood.with_parameters(t), sites).phi,
        likelihood.parameters(),
    )
    np.testing.assert_allclose(found.kernels, by_kernel, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.likelihood, by_likelihood, rtol=1e-7, atol=1e-7)


@every_likelihood
def test_gradient_of_active_rows_alone_and_of_others_alone(likelihood, make_rows, central):
    kernel = 1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear()
    rows = make_rows(likelihood.numeric)
    sites = some_sites(len(rows.active))
    alone = replace(rows, counts=np.zeros_like(rows.counts))

    def others(t):
        with_parameters = kernel.with_parameters(t)
        both = (some.evidence(with_parameters, likelihood, sites).phi for some in (rows, alone))
        return next(both) - next(both)

    whole, own = (some.evidence(kernel, likelihood, sites).kernels for some in (rows, alone))
    at = kernel.parameters()
    by_own = central(lambda t: alone.evidence(kernel.with_parameters(t), likelihood, sites).phi, at)
    np.testing.assert_allclose(own, by_own, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(whole - own, central(others, at), rtol=1e-7, atol=1e-7)


@every_kernel
@every_likelihood
def test_gradient_by_sites(kernel, likelihood, make_rows, central):
    rows = make_rows(likelihood.numeric)
    sites = some_sites(len(rows.active))
    expected = central(lambda s: rows.evidence(kernel, likelihood, s).phi, sites)
    found = rows.evidence(kernel, likelihood, sites).sites
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_sites_do_not_matter_where_expectation_propagation_has_converged(make_rows, central):
    """The fixed point conditions (SLH 3.3); then the gradient at fixed sites is the whole one."""
    rows = make_rows(False)
    rows.counts[:] = False
    X, target = rows.X[rows.active], rows.target[rows.active]

    def converged(kernel):
        K, sites = kernel(X, X), np.zeros((2, len(X)))
        for _ in range(60):
            for i in range(len(X)):
                A = np.linalg.inv(np.linalg.inv(K) + np.diag(sites[0]))
                h, a = A[i] @ sites[1], A[i, i]
                a_c = a / (1 - sites[0, i] * a)
                h_c = h + a_c * (sites[0, i] * h - sites[1, i])
                found = Probit(0.3).moments(np.array([[h_c]]), np.array([[a_c]]), target[i : i + 1])
                alpha, nu = found.slope[0, 0], found.curvature[0, 0]
                sites[:, i] = np.array([nu, h_c * nu + alpha]) / (1 - a_c * nu)
        return sites

    kernel = 2.0 * RBF(1.2)
    found = rows.evidence(kernel, Probit(0.3), converged(kernel))
    np.testing.assert_allclose(found.sites, 0.0, atol=1e-9)

    def along(t):
        other = kernel.with_parameters(t)
        return rows.evidence(other, Probit(0.3), converged(other)).phi

    whole = central(along, kernel.parameters(), step=1e-4)
    np.testing.assert_allclose(found.kernels, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tiny", [0.0, 1e-310, 1e-200, 1e-30])
def test_a_site_of_no_precision_is_no_site(tiny, make_rows):
    """An active row whose site says nothing counts as a row outside the active set."""
    rows, kernel, likelihood = make_rows(False), 2.0 * RBF(1.2), Probit(0.3)
    sites = some_sites(len(rows.active))
    sites[:, 4] = tiny, 0.5 * tiny
    without = replace(rows, active=np.delete(rows.active, 4), counts=rows.counts.copy())
    without.counts[rows.active[4]] = True
    found = rows.evidence(kernel, likelihood, sites, by_sites=False)
    expected = without.evidence(kernel, likelihood, np.delete(sites, 4, axis=1))
    assert found.phi == pytest.approx(expected.phi, rel=1e-13)
    np.testing.assert_allclose(found.kernels, expected.kernels, rtol=1e-11)
    np.testing.assert_allclose(found.likelihood, expected.likelihood, rtol=1e-11)
    assert found.sites is None


def test_sharp_sites_keep_their_digits(make_rows):
    """Where all but 1 / pi of a variance cancels."""
    rows = make_rows(True)
    x = rows.X[rows.active]
    for precision in (1e-3, 1.0, 1e6, 1e14):
        sites = np.stack([np.full(len(x), precision), precision * rows.target[rows.active]])
        active = ActivePart.of(2.0 * RBF(0.1), x, sites)
        K = 2.0 * RBF(0.1)(x, x)
        expected = np.diagonal(K @ np.linalg.inv(np.eye(len(x)) + precision * K))
        np.testing.assert_allclose(active.variance, expected, rtol=1e-9)
        loo = 1.0 / np.diagonal(np.linalg.inv(K + np.eye(len(x)) / precision)) - 1.0 / precision
        np.testing.assert_allclose(active.cavity()[1], loo, rtol=1e-9)


@every_likelihood
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_the_same_bits_however_rows_are_dealt(likelihood, precision, make_rows):
    kernel = 1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear()
    rows = make_rows(likelihood.numeric, n=230)
    rows.X = (30.0 * rows.X).astype(precision)
    sites = some_sites(len(rows.active))
    first = rows.evidence(kernel, likelihood, sites)
    for cuts in ((1,), (3,), (1, 2, 3, 6), (1, 2, 3, 4, 5, 6, 7)):
        found = replace(rows, cuts=cuts).evidence(kernel, likelihood, sites)
        assert found.phi == first.phi
        for name in ("kernels", "likelihood", "sites"):
            np.testing.assert_array_equal(getattr(found, name), getattr(first, name))


@every_likelihood
def test_rows_that_do_not_count_do_not_count(likelihood, make_rows):
    kernel, rows = 2.0 * Matern32(1.2), make_rows(likelihood.numeric)
    sites = some_sites(len(rows.active))
    first = rows.evidence(kernel, likelihood, sites)
    out = np.setdiff1d(np.flatnonzero(~rows.counts), rows.active)
    assert len(out) > 10
    rows.X[out], rows.target[out] = np.nan, 1 - rows.target[out]
    found = rows.evidence(kernel, likelihood, sites)
    assert found.phi == first.phi
    np.testing.assert_array_equal(found.kernels, first.kernels)


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ((-1.0, 0.0), r"got precision -1.0 and shift 0.0 of active row 2; use a log-concave"),
        ((0.0, 0.1), r"got precision 0.0 and shift 0.1 of active row 2"),
        ((np.inf, 0.1), r"got precision inf"),
        ((1.0, np.nan), r"shift nan"),
    ],
)
def test_improper_sites_are_refused(site, message, make_rows):
    rows = make_rows(False)
    sites = some_sites(len(rows.active))
    sites[:, 2] = site
    with pytest.raises(NumericalError, match=message):
        rows.evidence(RBF(1.0), Probit(), sites)


def test_an_infinite_criterion_is_refused(make_rows):
    rows = make_rows(True)
    rows.target[np.setdiff1d(np.flatnonzero(rows.counts), rows.active)[0]] = 1e200
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(NumericalError, match=r"evidence must be finite, got inf with kernel 'rbf"),
    ):
        rows.evidence(RBF(1.0), Gaussian(), some_sites(len(rows.active)))
