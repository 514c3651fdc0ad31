"""What every likelihood promises, over one list of instances with moments by other quadratures."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit, ndtr, softmax
from scipy.stats import norm

from sparsegp.errors import SettingsError
from sparsegp.likelihoods import (
    LIKELIHOODS,
    Gaussian,
    Likelihood,
    Logistic,
    MultinomialProbit,
    OrderedProbit,
    Probit,
    Softmax,
)
from sparsegp.likelihoods.parse import parse
from tests.differences import central

BIASES = (0.2, -0.5, 0.4)
THRESHOLDS = (-0.7, 0.2, 1.9)


def on_grid(density, n_latent=1):
    """Return a function of one row to (log Z, slope, curvature): the trapezoid rule for p(y|u).

    They follow from Z and two moments of the latent values.
    """
    x = np.linspace(-8.0, 8.0, 49) if n_latent > 1 else np.linspace(-10.0, 10.0, 4001)
    grid = np.stack(np.meshgrid(*[x] * n_latent)).reshape(n_latent, -1)
    weight = norm.pdf(grid).prod(axis=0) * (x[1] - x[0]) ** n_latent

    def moments(mean, variance, y):
        scale = np.sqrt(variance)
        tilted = weight * density(np.squeeze(mean[:, np.newaxis] + scale[:, np.newaxis] * grid), y)
        z = tilted.sum()
        shift = grid @ tilted / z
        spread = grid**2 @ tilted / z - shift**2
        return math.log(z), shift / scale, (1 - spread) / variance

    return moments


def ordered(u, y):
    edges = (-np.inf, *THRESHOLDS, np.inf)
    return ndtr(edges[y + 1] - u) - ndtr(edges[y] - u)


def largest(u, y):
    """Return the probability that u_y + t, with t standard normal, is above all other values."""
    u = u + np.array(BIASES)[:, np.newaxis]
    nodes, others = np.arange(-7.0, 7.5, 0.5), np.delete(u, y, axis=0)
    return sum(0.5 * norm.pdf(t) * ndtr(u[y] + t - others).prod(axis=0) for t in nodes)


def exponential(u, y):
    return softmax(u + np.array(BIASES)[:, np.newaxis], axis=0)[y]


@dataclass
class Case:
    """A likelihood and the errors of its moments beside others, for variances up to `largest`."""

    likelihood: Likelihood
    n_classes: int
    reference: Callable
    error: float
    largest: float

    @property
    def n_latent(self):
        return self.likelihood.n_latent(self.n_classes)

    def rows(self, n, seed=0, spread=2.0):
        rng = np.random.default_rng(seed)
        mean = spread * rng.normal(size=(n, self.n_latent))
        variance = self.largest * rng.uniform(0.02, 1.0, size=(n, self.n_latent))
        return mean, variance, self.targets(rng, n)

    def targets(self, rng, n):
        if self.likelihood.numeric:
            return 2.0 * rng.normal(size=n)
        return rng.integers(self.n_classes, size=n)


CASES = [
    Case(Probit(0.4), 2, on_grid(lambda u, y: ndtr((2 * y - 1) * (u + 0.4))), 1e-9, 20.0),
    Case(Logistic(-0.3), 2, on_grid(lambda u, y: expit((2 * y - 1) * (u - 0.3))), 1e-9, 100.0),
    Case(Gaussian(0.3), 0, on_grid(lambda u, y: norm.pdf(y, u, math.sqrt(0.3))), 1e-9, 5.0),
    Case(OrderedProbit(THRESHOLDS), 4, on_grid(ordered), 1e-9, 20.0),
    Case(MultinomialProbit(12, BIASES), 3, on_grid(largest, 3), 1e-6, 5.0),
    Case(Softmax(15, BIASES), 3, on_grid(exponential, 3), 1e-5, 2.0),
]

every_case = pytest.mark.parametrize("case", CASES, ids=[c.likelihood.name for c in CASES])
one_latent = pytest.mark.parametrize(
    "case", [c for c in CASES if c.n_latent == 1], ids=lambda c: c.likelihood.name
)
classes = pytest.mark.parametrize(
    "case", [c for c in CASES if not c.likelihood.numeric], ids=lambda c: c.likelihood.name
)


def test_no_likelihood_is_left_out():
    assert {case.likelihood.name for case in CASES} == set(LIKELIHOODS)


@every_case
def test_moments_against_other_quadratures(case):
    rows = case.rows(4)
    found = case.likelihood.moments(*rows)
    each = [case.reference(*row) for row in zip(*rows, strict=True)]
    log_z, slope, curvature = zip(*each, strict=True)
    np.testing.assert_allclose(found.log_z, log_z, atol=case.error)
    np.testing.assert_allclose(found.slope, slope, atol=case.error)
    np.testing.assert_allclose(found.curvature, curvature, atol=10 * case.error)


@every_case
def test_slope_and_curvature_are_derivatives_of_log_z(case):
    mean, variance, target = case.rows(30, seed=1)
    found = case.likelihood.moments(mean, variance, target)

    def log_z_and_slope(move):
        moved = case.likelihood.moments(mean + move, variance, target)
        return np.column_stack([moved.log_z, moved.slope])

    expected = central(log_z_and_slope, np.zeros(case.n_latent), 1e-4)
    np.testing.assert_allclose(found.slope, expected[:, :, 0].T, atol=1e-7 + 10 * case.error)
    curvature = -np.diagonal(expected[:, :, 1:], axis1=0, axis2=2)
    np.testing.assert_allclose(found.curvature, curvature, atol=1e-7 + 30 * case.error)


@every_case
def test_parameter_gradient_is_the_derivative_of_log_z(case, monkeypatch):
    likelihood, rows = case.likelihood, case.rows(30, seed=2)
    found = likelihood.parameter_gradient(*rows)
    given = likelihood.parameters()
    assert found.shape == (30, len(likelihood.parameter_names)) == (30, len(given))
    if not len(given):
        return
    slopes = central(lambda at: likelihood.with_parameters(at).log_z(*rows), given, 1e-4)
    np.testing.assert_allclose(found, slopes.T, atol=1e-7 + 10 * case.error)
    monkeypatch.setattr(type(likelihood), "has_biases", False)
    by_default = Likelihood.parameter_gradient(likelihood, *rows)
    np.testing.assert_allclose(found, by_default, atol=1e-7 + 10 * case.error)


@one_latent
def test_closed_forms_and_quadrature_of_the_density_agree(case):
    """The fallback knows the density alone; variances 1e-6 to 1e4, means up to 50."""
    rng = np.random.default_rng(3)
    mean = rng.uniform(-50.0, 50.0, size=(200, 1))
    variance = 10.0 ** rng.uniform(-6.0, 4.0, size=(200, 1))
    target = case.targets(rng, 200)
    found = case.likelihood.moments(mean, variance, target)
    fallback = Likelihood.moments(case.likelihood, mean, variance, target)
    np.testing.assert_allclose(fallback.log_z, found.log_z, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(fallback.slope, found.slope, rtol=1e-9, atol=1e-9)
    # second differences over a scale of 1e-3 keep ten digits less
    error = 1e-13 * (1.0 + found.log_z**2)[:, np.newaxis] / variance.clip(max=1.0)
    assert (np.abs(fallback.curvature - found.curvature) < 1e-8 + error.clip(max=1e-6)).all()


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.n_latent > 1], ids=lambda c: c.likelihood.name
)
def test_product_rule_and_own_quadrature_agree(case):
    mean, variance, target = case.rows(10, seed=4)
    variance = variance * (0.5 / case.largest)
    found = case.likelihood.moments(mean, variance, target)
    fallback = Likelihood.moments(case.likelihood, mean, variance, target)
    for name in ("log_z", "slope", "curvature"):
        np.testing.assert_allclose(getattr(found, name), getattr(fallback, name), atol=1e-7)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.likelihood.curvature_bound], ids=lambda c: c.likelihood.name
)
def test_gradients_of_the_density_and_bounds_of_its_curvature(case):
    """What variational sites and the posterior of all rows need."""
    likelihood, (mean, _, target) = case.likelihood, case.rows(30, seed=12)
    log_p, gradient = likelihood.gradient(mean, target)
    np.testing.assert_allclose(log_p, likelihood.log_density(mean, target), atol=1e-6)
    zero = np.zeros(case.n_latent)
    slopes = central(lambda move: likelihood.gradient(mean + move, target)[0], zero, 1e-4)
    np.testing.assert_allclose(gradient, slopes.T, atol=1e-6)
    bends = central(lambda move: likelihood.gradient(mean + move, target)[1], zero, 1e-4)
    curvatures = np.linalg.eigvalsh(-np.moveaxis(bends, 0, 1))
    assert (curvatures > -1e-6).all()
    assert (curvatures < likelihood.curvature_bound + 1e-6).all()
    unbiased = type(likelihood).start(case.n_classes)
    expected = unbiased.gradient(mean, target)
    for dtype in (np.float32, np.float64):
        found = unbiased.mean_gradient(mean.astype(dtype), target)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@every_case
def test_log_z_is_that_of_the_moments_and_without_variance_the_density(case):
    mean, variance, target = case.rows(20)
    log_z = case.likelihood.log_z(mean, variance, target)
    np.testing.assert_array_equal(log_z, case.likelihood.moments(mean, variance, target).log_z)
    density = case.likelihood.log_density(mean, target)
    found = case.likelihood.log_z(mean, np.zeros_like(variance), target)
    np.testing.assert_allclose(found, density, rtol=1e-12, atol=1e-12)
    stacked = case.likelihood.log_density(np.stack([mean, mean + 1.0]), target)
    np.testing.assert_allclose(stacked[0], density, rtol=1e-14)


@classes
def test_probabilities_of_the_classes_sum_to_one(case):
    mean, variance, _ = case.rows(40, seed=5)
    codes = range(case.n_classes)
    density = [case.likelihood.log_density(mean, np.full(40, k)) for k in codes]
    np.testing.assert_allclose(np.exp(density).sum(axis=0), 1.0, atol=1e-6)
    each = [case.likelihood.log_z(mean, variance, np.full(40, k)) for k in codes]
    np.testing.assert_allclose(np.exp(each).sum(axis=0), 1.0, atol=1e-5)
    log_p = case.likelihood.log_probabilities(mean, variance)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(log_p, np.transpose(each), atol=1e-5)


@classes
def test_loss_counts_wrong_classes(case):
    mean, _, target = case.rows(60, seed=6)
    variance = np.ones_like(mean)
    best = case.likelihood.log_probabilities(mean, variance).argmax(axis=1)
    np.testing.assert_array_equal(case.likelihood.decide(mean, variance), best)
    np.testing.assert_array_equal(case.likelihood.loss(mean, variance, target), best != target)


MEANS = (0.0, 1e-3, 1.0, 30.0, 1e3, -1e-3, -1.0, -30.0, -1e3)
VARIANCES = (1e-10, 1e-6, 1e-3, 1.0, 10.0, 1e3, 1e6)


def extremes(case):
    if case.n_latent == 1:
        targets = MEANS if case.likelihood.numeric else range(case.n_classes)
        grid = np.array(list(itertools.product(MEANS, VARIANCES, targets)))
        target = grid[:, 2] if case.likelihood.numeric else grid[:, 2].astype(np.int64)
        return grid[:, :1], grid[:, 1:2], target
    rng = np.random.default_rng(7)
    shape = (60, case.n_latent)
    return rng.choice(MEANS, shape), rng.choice(VARIANCES, shape), case.targets(rng, 60)


def assert_sites_are_proper(found, variance):
    assert np.isfinite(found.log_z).all()
    assert np.isfinite(found.slope).all()
    assert (found.curvature >= 0.0).all()
    assert (variance * found.curvature < 1.0).all()
    assert np.isfinite(found.curvature / (1.0 - variance * found.curvature)).all()


@every_case
def test_densities_are_finite_far_away(case):
    mean, _, target = extremes(case)
    assert np.isfinite(case.likelihood.log_density(mean, target)).all()


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.likelihood.log_concave], ids=lambda c: c.likelihood.name
)
def test_site_precisions_are_not_negative(case):
    mean, variance, target = case.rows(300, seed=8, spread=10.0)
    assert_sites_are_proper(case.likelihood.moments(mean, variance, target), variance)
    mean, variance, target = extremes(case)
    assert_sites_are_proper(case.likelihood.moments(mean, variance, target), variance)
    if case.n_latent == 1:
        fallback = Likelihood.moments(case.likelihood, mean, variance, target)
        assert_sites_are_proper(fallback, variance)
    if case.likelihood.name == "softmax":  # with the fewest nodes, too
        assert_sites_are_proper(Softmax().moments(mean, variance, target), variance)


@every_case
def test_rows_do_not_influence_each_other(case, monkeypatch):
    """Nor do pieces of any size, in which rows are worked on."""
    n = 60 if case.likelihood.name == "softmax" else 300
    likelihood = Softmax(3, BIASES) if case.likelihood.name == "softmax" else case.likelihood
    mean, variance, target = case.rows(n, seed=9)
    rng = np.random.default_rng(10)
    mean *= rng.choice([0.1, 1.0, 30.0], size=(n, 1))
    variance *= rng.choice([1e-6, 0.1, 1.0, 10.0], size=(n, 1))

    def answers(index):
        rows = mean[index], variance[index], target[index]
        by = [type(likelihood).moments] + [Likelihood.moments] * (case.n_latent == 1)
        found = [array for moments in by for array in vars(moments(likelihood, *rows)).values()]
        found.append(likelihood.parameter_gradient(*rows))
        if case.likelihood.name == "multinomial_probit":
            shared = rows[1][:, :1]
            found += likelihood.gradient(rows[0], rows[2])
            found += [likelihood.log_z(rows[0], each, rows[2]) for each in (rows[1], shared)]
            found.append(likelihood.log_probabilities(rows[0], shared))
        return found

    every = answers(slice(None))
    pieces = slice(0, 1), slice(17, 18), slice(5, 12), slice(None, None, -2), slice(0, 0)
    for index in (*pieces, rng.permutation(n)):
        for some, whole in zip(answers(index), every, strict=True):
            assert np.array_equal(some, whole[index])
    for size in (1, 1000, 12345, 1 << 20):
        monkeypatch.setattr("sparsegp.math.quadrature.CHUNK_TERMS", size)
        monkeypatch.setattr("sparsegp.likelihoods.multinomial_probit.CHUNK_VALUES", size)
        assert all(map(np.array_equal, answers(slice(None)), every))


@every_case
def test_parameters_json_and_text_round_trip(case):
    likelihood = case.likelihood
    assert (parse(str(likelihood)).given or type(likelihood)()) == likelihood
    assert str(type(likelihood)()) == likelihood.name
    assert Likelihood.from_json(json.loads(json.dumps(likelihood.to_json()))) == likelihood
    again = likelihood.with_parameters(likelihood.parameters())
    assert (parse(str(again)).given or type(again)()) == again  # to the last digit
    np.testing.assert_allclose(again.parameters(), likelihood.parameters(), rtol=1e-14)
    assert type(again) is type(likelihood)
    assert likelihood.tempered(1.0) == likelihood
    with pytest.raises(SettingsError, match=f"likelihood={likelihood.name} has"):
        likelihood.with_parameters(np.zeros(17))


@pytest.mark.parametrize("temperature", [0.6, 3.0])
def test_a_temperature_divides_what_is_added_to_latent_values(temperature):
    biases, thresholds = (tuple(b / temperature for b in some) for some in (BIASES, THRESHOLDS))
    of = Probit(0.4 / temperature), Logistic(-0.3 / temperature), OrderedProbit(thresholds)
    expected = {
        each.name: each for each in (*of, MultinomialProbit(12, biases), Softmax(15, biases))
    }
    for case in CASES:
        found = case.likelihood.tempered(temperature)
        wanted = expected.get(case.likelihood.name, case.likelihood)
        assert type(found) is type(wanted)
        np.testing.assert_allclose(found.parameters(), wanted.parameters(), rtol=1e-14)


@every_case
def test_start(case):
    kind = type(case.likelihood)
    likelihood = kind.start(case.n_classes)
    assert likelihood.n_latent(case.n_classes) == case.n_latent
    assert len(likelihood.parameters()) == len(case.likelihood.parameters())
    if not case.likelihood.numeric:
        shape = (1, case.n_latent)
        log_p = likelihood.log_probabilities(np.zeros(shape), np.ones(shape))
        if kind.has_biases or kind.ordered:
            np.testing.assert_allclose(log_p, -math.log(case.n_classes), atol=1e-6)
        for wrong in [1, *[3] * (case.n_latent == 1 and not kind.ordered)]:
            with pytest.raises(SettingsError, match="classes"):
                kind.start(wrong)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "cauchy"}, "unknown likelihood 'cauchy'; known: "),
        ({}, "unknown likelihood ''"),
        ({"name": "probit", "slope": 2.0}, "probit has no settings `slope`; it knows `bias`"),
        ({"name": "softmax", "n_nodes": 2}, "at least 3"),
    ],
)
def test_json_that_is_refused(data, message):
    with pytest.raises(SettingsError, match=message):
        Likelihood.from_json(data)


def test_settings_that_are_refused():
    with pytest.raises(SettingsError, match=r"3\^10 points a row.*use multinomial_probit"):
        Softmax.start(10).moments(np.zeros((1, 10)), np.ones((1, 10)), np.zeros(1, np.int64))
    for likelihood in (MultinomialProbit(12, BIASES), Softmax(3, BIASES)):
        with pytest.raises(SettingsError, match="has 3 biases, got latent values of 4 classes"):
            likelihood.log_z(np.zeros((1, 4)), np.ones((1, 4)), np.zeros(1, np.int64))
    with pytest.raises(SettingsError, match="no class probabilities"):
        Gaussian().log_probabilities(np.zeros((1, 1)), np.ones((1, 1)))
    with pytest.raises(SettingsError, match="strictly increasing"):
        OrderedProbit((0.0, 1.0)).with_parameters(np.array([0.0, -800.0]))


@pytest.mark.parametrize("likelihood", [MultinomialProbit(), Softmax()], ids=lambda x: x.name)
def test_permuting_the_classes_permutes_the_moments(likelihood):
    """Only differences of means matter."""
    rng = np.random.default_rng(11)
    mean, variance = 3.0 * rng.normal(size=(40, 4)), rng.uniform(0.1, 9.0, size=(40, 4))
    target, order = rng.integers(4, size=40), np.array([2, 0, 3, 1])
    moved = (mean + rng.normal(size=(40, 1)))[:, order], variance[:, order]
    found = likelihood.moments(mean, variance, target)
    other = likelihood.moments(*moved, np.argsort(order)[target])
    np.testing.assert_allclose(other.log_z, found.log_z, rtol=1e-10)
    np.testing.assert_allclose(other.slope, found.slope[:, order], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(other.curvature, found.curvature[:, order], rtol=1e-7, atol=1e-10)
    _, gradient = likelihood.gradient(moved[0], np.argsort(order)[target])
    expected = likelihood.gradient(mean, target)[1]
    np.testing.assert_allclose(gradient, expected[:, order], rtol=1e-8, atol=1e-11)
