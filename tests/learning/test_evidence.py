"""The evidence criterion of one process and of several: dense formulas, differences, bits.

And what is minimised: sites that follow the parameters, and weights of rows.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from sparsegp.errors import NumericalError
from sparsegp.ivm.criteria import CRITERIA
from sparsegp.ivm.evidence_rows import pieces, row_sums
from sparsegp.kernels import ARD, RBF, Linear, Matern32, Matern52
from sparsegp.learning import hyperpriors
from sparsegp.learning.evidence import ActivePart, Members, evidence
from sparsegp.learning.hyperpriors import Hyperprior
from sparsegp.learning.objective import Objective, noise_sites, parameter_names, sites_in_order
from sparsegp.likelihoods import Gaussian, MultinomialProbit, Probit, SiteRule
from sparsegp.likelihoods.softmax import Softmax
from sparsegp.math.products import TILE
from tests.differences import central
from tests.ivm import problems

KERNELS = [
    2.0 * RBF(1.2),
    1.5 * ARD((1.0, 2.0, 0.5)) + 0.1 * Linear(),
    3.0 * Matern52(1.0) * (Matern32(2.0) + 0.2),
]
EACH = [KERNELS[0], KERNELS[1], 3.0 * Matern52(1.0)]
PLACES = [np.array(own) for own in ([4, 0, 2, 1, 3, 5], [9, 3, 4, 5, 6, 7], [5, 8, 7, 10, 11])]
"""Row 5 is active for three classes, 3, 4 and 7 are for two, the others for one."""
EMPTY = [PLACES[0], np.empty(0, dtype=np.int64), np.arange(4, 12)]
PROBITS, SOFTMAX = MultinomialProbit(12, (0.4, -0.3, 0.1)), Softmax(12, (0.4, -0.3, 0.1))

CASES = {
    **{f"probit, {kernel}": (Probit(0.3), [kernel], None) for kernel in KERNELS},
    **{f"gaussian, {kernel}": (Gaussian(0.2), [kernel], None) for kernel in KERNELS},
    "three classes": (PROBITS, EACH, PLACES),
    "three classes, one empty": (PROBITS, EACH, EMPTY),
    "softmax": (SOFTMAX, EACH, PLACES),
}


@dataclass
class Rows:
    """Training rows, of which some are active, for some classes, and some do not count."""

    X: np.ndarray
    target: np.ndarray
    active: np.ndarray
    counts: np.ndarray
    weights: np.ndarray | None = None
    places: list[np.ndarray] | None = None

    def sum_rows(self, processes, likelihood):
        counts, group = self.counts.copy(), 32
        counts[self.active] = False
        spare = pieces(len(self.X), group).bit_length()
        rows = self.X, self.target, counts, group
        return [row_sums(*rows, processes, likelihood, spare, self.weights)]

    @property
    def members(self):
        places = [np.arange(len(self.active))] if self.places is None else self.places
        own = None if self.weights is None else self.weights[self.active]
        return Members(self.X[self.active], self.target[self.active], places, own)

    def evidence(self, kernels, likelihood, sites):
        return evidence(kernels, likelihood, self.members, sites, self.sum_rows)

    def objective(self, kernels, likelihood, **options):
        return Objective(kernels, likelihood, self.members, self.sum_rows, **options)


def make_rows(numeric, n=100, d=9, p=3, seed=0):
    """Rows of a smooth function with noise; a fifth of them do not count."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    latent = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    target = latent if numeric else (latent > 0.2).astype(np.int64)
    active = rng.choice(n, d, replace=False)
    return Rows(X, target, active, rng.random(n) < 0.8)


def some_sites(count):
    rng = np.random.default_rng(1)
    return np.stack([np.exp(rng.normal(size=count)), rng.normal(size=count)])


def problem(case, **options):
    """Return rows, kernels with a likelihood, and sites."""
    likelihood, kernels, places = CASES[case]
    if places is None:
        rows = make_rows(likelihood.numeric, **options)
    else:
        rows = replace(make_rows(True, 40, 12), places=places)
        rows.target = np.digitize(rows.target, [-0.5, 0.7])
    return rows, (kernels, likelihood), some_sites(sum(map(len, rows.members.places)))


@pytest.mark.parametrize("case", CASES)
def test_equals_its_definition_by_full_matrices(case):
    """phi is -log of eq. 3."""
    rows, (kernels, likelihood), sites = problem(case)
    members, n, count = rows.members, len(rows.X), len(kernels)
    mean, variance, own = np.empty((n, count)), np.empty((n, count)), 0.0
    for c, (kernel, (pi, b)) in enumerate(zip(kernels, members.split(sites), strict=True)):
        K = kernel(rows.X, rows.X) + 1e-9 * np.eye(n)
        Pi, shift, active = np.zeros(n), np.zeros(n), rows.active[members.places[c]]
        Pi[active], shift[active] = pi, b
        A = np.linalg.inv(np.linalg.inv(K) + np.diag(Pi))
        h, a = A @ shift, np.diagonal(A)
        variance[:, c] = a / (1 - Pi * a)
        mean[:, c] = h + variance[:, c] * (Pi * h - shift)
        log_z_site = np.log(a / variance[:, c]) + h**2 / a - mean[:, c] ** 2 / variance[:, c]
        counted = np.union1d(np.flatnonzero(rows.counts), rows.active)
        own += 0.5 * log_z_site[counted].sum()
        own -= 0.5 * (np.linalg.slogdet(A)[1] - np.linalg.slogdet(K)[1] + shift @ h)
    expected = own - likelihood.log_z(mean, variance, rows.target)[counted].sum()
    assert rows.evidence(kernels, likelihood, sites).phi == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("noise", [1e-8, 0.2, 50.0])
def test_gaussian_noise_gives_the_marginal_likelihood_and_predictive_densities(noise):
    rows, kernel, likelihood = make_rows(True), 2.0 * RBF(1.2), Gaussian(noise)
    X, y = rows.X[rows.active], rows.target[rows.active]
    covariance = kernel(X, X) + noise * np.eye(len(X))
    expected = -multivariate_normal(np.zeros(len(X)), covariance).logpdf(y)
    others = np.setdiff1d(np.flatnonzero(rows.counts), rows.active)
    cross = kernel(rows.X[others], X)
    weights = np.linalg.solve(covariance, cross.T)
    variance = kernel.diag(rows.X[others]) - (cross * weights.T).sum(axis=1) + noise
    expected -= norm(weights.T @ y, np.sqrt(variance)).logpdf(rows.target[others]).sum()
    sites = noise_sites(likelihood, y)
    assert rows.evidence([kernel], likelihood, sites).phi == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("case", "options"), [*((case, {}) for case in CASES), (f"probit, {KERNELS[1]}", {"d": 1})]
)
def test_gradients_against_differences(case, options):
    """By all parameters while the sites stay, and by the sites, in a few directions."""
    rows, model, sites = problem(case, **options)
    prior = hyperpriors.parse("v: lognormal(-1, 1)", parameter_names(*model), 3)
    objective = rows.objective(*model, hyperprior=prior)
    at, name = objective.start + 0.1, model[1].name
    # a product rule is not the integral, and its derivatives are not quite those of the rule
    tolerance = {"softmax": 3e-5, "multinomial_probit": 1e-6}.get(name, 1e-7)
    value, gradient = objective.evaluate(at, sites)
    expected = central(lambda t: objective.evaluate(t, sites)[0], at)
    np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)
    if model[1] is SOFTMAX:  # whose rule is slow
        return
    without, _ = replace(objective, hyperprior=Hyperprior()).evaluate(at, sites)
    assert value - without == pytest.approx(prior(at)[0], rel=1e-9)
    ways = np.random.default_rng(2).normal(size=(4, *sites.shape))

    def along(t):
        return rows.evidence(*model, sites + np.tensordot(t, ways, 1)).phi

    found, expected = rows.evidence(*model, sites), central(along, np.zeros(4))
    np.testing.assert_allclose(np.tensordot(ways, found.sites, 2), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tiny", [0.0, 1e-310, 1e-30])
def test_a_site_of_no_precision_is_no_site(tiny):
    """An active row whose site says nothing counts as a row outside the active set."""
    rows, kernel, likelihood = make_rows(False), 2.0 * RBF(1.2), Probit(0.3)
    sites = some_sites(len(rows.active))
    sites[:, 4] = tiny, 0.5 * tiny
    without = replace(rows, active=np.delete(rows.active, 4), counts=rows.counts.copy())
    without.counts[rows.active[4]] = True
    found = rows.evidence([kernel], likelihood, sites)
    expected = without.evidence([kernel], likelihood, np.delete(sites, 4, axis=1))
    assert found.phi == pytest.approx(expected.phi, rel=1e-13)
    np.testing.assert_allclose(found.kernels, expected.kernels, rtol=1e-11)


def test_sharp_sites_keep_their_digits():
    """Where all but 1 / pi of a variance cancels."""
    rows = make_rows(True)
    x = rows.X[rows.active]
    for precision in (1e-3, 1e6, 1e14):
        sites = np.stack([np.full(len(x), precision), precision * rows.target[rows.active]])
        active = ActivePart(2.0 * RBF(0.1), x, sites, np.arange(len(x)))
        K = 2.0 * RBF(0.1)(x, x)
        expected = np.diagonal(K @ np.linalg.inv(np.eye(len(x)) + precision * K))
        np.testing.assert_allclose(active.variance, expected, rtol=1e-9)
        loo = 1.0 / np.diagonal(np.linalg.inv(K + np.eye(len(x)) / precision)) - 1.0 / precision
        np.testing.assert_allclose(active.cavity()[1], loo, rtol=1e-9)


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ((-1.0, 0.0), "precision -1.0 and shift 0.0 of active row 2"),
        ((0.0, 0.1), "precision 0.0 and shift 0.1 of active row 2"),
        ((np.inf, 0.1), "precision inf"),
        ((1.0, np.nan), "shift nan"),
    ],
)
def test_improper_sites_are_refused(site, message):
    rows = make_rows(False)
    sites = some_sites(len(rows.active))
    sites[:, 2] = site
    with pytest.raises(NumericalError, match=message):
        rows.evidence([RBF(1.0)], Probit(), sites)


def test_an_infinite_criterion_is_refused():
    rows = make_rows(True)
    rows.target[np.setdiff1d(np.flatnonzero(rows.counts), rows.active)[0]] = 1e200
    with np.errstate(all="ignore"), pytest.raises(NumericalError, match="finite"):
        rows.evidence([RBF(1.0)], Gaussian(), some_sites(len(rows.active)))


TEXTS = ["2*rbf(1.2)", "1.5*ard(1, 2, 0.5) + 0.1*linear", "3*matern52(1)"]
OF_BLOCKS = {
    "probit": (Probit(0.3), False, 20),
    "gaussian": (Gaussian(0.2), False, 20),
    "one set": (PROBITS, False, 12),
    "a set a class": (PROBITS, True, 60),
}
"""Likelihood, whether pairs of a row and a class are selected in row blocks, and how many."""
N = 700


@pytest.mark.parametrize("case", OF_BLOCKS)
def test_rows_that_are_not_active_count_and_no_others(case):
    likelihood, pairs, size = OF_BLOCKS[case]
    several = likelihood is PROBITS
    rows = make_rows(True, N, seed=2)
    if not likelihood.numeric:
        rows.target = np.digitize(rows.target, [-0.5, 0.7] if several else [0.2])
    how = {"criterion": CRITERIA["information"](), "rule": SiteRule(likelihood, "moments", 1e-8)}
    how |= {"n_blocks": 3, "pairs": pairs, "validation": ~rows.counts}
    run = problems.Problem(rows.X, rows.target, TEXTS if several else TEXTS[:1], size, **how)
    selection = run.finish()
    active = selection.active
    own = active.sites(run.settings.n_latent)
    members, sites = Members.of_sites(active.x, active.target, *own, None)
    spare = pieces(N, TILE).bit_length()

    def sum_rows(*model):
        answers = selection.blocks.map_blocks("evidence", size, *model, spare)
        return [answer for answer in answers if answer is not None]

    objective = Objective(run.kernels, likelihood, members, sum_rows)
    rows.active = active.rows
    expected = evidence(run.kernels, likelihood, members, sites, rows.sum_rows)
    value, gradient = objective.evaluate(objective.start, sites)
    assert value == pytest.approx(expected.phi, rel=1e-10)
    own = gradient[: len(expected.kernels)]
    np.testing.assert_allclose(own, expected.kernels, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("likelihood", [Probit(0.3), Gaussian(0.2)], ids=lambda x: x.name)
def test_sites_in_order_equal_dense_updates(likelihood):
    rows = make_rows(likelihood.numeric, d=12)
    x, target = rows.X[rows.active], rows.target[rows.active]
    K, expected = KERNELS[1](x, x), np.zeros((2, 12))
    for j in range(12):
        A = K @ np.linalg.inv(np.eye(12) + expected[0][:, None] * K)  # Pi has zeros so far
        h, a = A @ expected[1], np.diagonal(A)
        found = likelihood.moments(h[[j], None], a[[j], None], target[[j]])
        alpha, nu = found.slope[0, 0], found.curvature[0, 0]
        expected[:, j] = np.array([nu, h[j] * nu + alpha]) / (1.0 - a[j] * nu)
    sites = sites_in_order(KERNELS[1], likelihood, x, target)
    np.testing.assert_allclose(sites, expected, rtol=1e-9)
    if likelihood.numeric:
        np.testing.assert_allclose(noise_sites(likelihood, target), sites, rtol=1e-9)
        one = rows.objective([KERNELS[1]], likelihood).recompute_sites(np.zeros(7))  # sigma^2 = 1
        np.testing.assert_array_equal(one, np.stack([np.ones(12), target]))


def test_rows_that_say_nothing_keep_no_site():
    rows = make_rows(False)
    objective = rows.objective([2.0 * RBF(1.2)], Probit())
    at = objective.start + np.array([0.0, 0.0, 150.0])  # sure of one class
    sites = objective.recompute_sites(at)
    silent = rows.target[rows.active] == 1
    assert silent.any()
    assert (~silent).any()
    np.testing.assert_array_equal(sites[:, silent], 0.0)
    assert (sites[0, ~silent] > 0.5).all()
    value, gradient = objective.evaluate(at, sites)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


WEIGHT = np.random.default_rng(0).integers(1, 5, 24).astype(float)
ROWS = replace(make_rows(True, 24, p=2), counts=np.ones(24, bool), weights=WEIGHT)


def value(rows):
    problem = rows.objective(KERNELS[:1], Gaussian(0.3))
    return problem.evaluate(problem.start, np.empty(0))


def copies(active):
    """Every row as often as it weighs, the active ones too."""
    rows = np.repeat(np.arange(24), WEIGHT.astype(int))
    among = np.flatnonzero(np.isin(rows, active))
    return Rows(ROWS.X[rows], ROWS.target[rows], among, np.ones(len(rows), bool))


@pytest.mark.parametrize("active", [np.arange(24), np.flatnonzero(WEIGHT == 1.0)], ids=len)
def test_rows_count_as_often_as_they_weigh(active):
    """Copies of a row that is not active are not active either."""
    found, exact = value(replace(ROWS, active=active)), value(copies(active))
    assert found[0] == pytest.approx(exact[0], rel=1e-10)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-8, atol=1e-8)
