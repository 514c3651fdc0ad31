"""The choice of the prior variance: by validation rows, and by cross-validation for small tables.

Blocks, workers and stops change no bit of what folds choose: see test_runs.py.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

import sparsegp
from sparsegp.fit.prepare import choose_folds, choose_validation_rows
from sparsegp.math.lbfgs import Ascent
from sparsegp.posterior import ActiveRows
from sparsegp.posterior.objective import SpanObjective
from sparsegp.posterior.prior_variance import LEAD, MAX_STEPS, PATIENCE, Folds, Peak, ScaleSearch
from sparsegp.settings import TrainSettings
from sparsegp.state import from_arrays, to_arrays
from tests.differences import central
from tests.runs import nlpp, selected

ROWS = 400
START = Ascent(np.zeros(3), 0.0, np.ones(3))
PROBLEM = SimpleNamespace(begin=lambda _: START.rewind(0), carry=lambda state, _: state.rewind(0))


def log_z_of(nlpp, spread=0.0):
    """Return log probabilities of rows with a given mean; the spread has mean zero."""
    wave = np.where(np.arange(ROWS) % 2, spread, -spread)
    return np.asarray(wave - nlpp)


def run(curve, search=None, stop=None):
    """Drive a search by `curve(step, round)`, the nlpp there, as an ascent would."""
    search = search or ScaleSearch()
    count = 0
    while not search.over and count != stop:
        ascent = search.current_ascent(PROBLEM)
        ascent.point = ascent.point + 1.0
        ascent.steps.append(np.ones(3))
        ascent.changes.append(np.zeros(3))
        ascent.gains.append(0.0)
        nlpp = curve(search.step, search.rounds + 1)
        search.record_iteration(log_z_of(nlpp), ascent, True)
        count += 1
    return search


def valley(bottom, rounds):
    """Return a curve that is least at one scale and round."""
    return lambda step, round_: 1.0 + 0.1 * abs(step - bottom) + 0.01 * abs(round_ - rounds)


@pytest.mark.parametrize(("bottom", "rounds"), [(-3, 4), (-1, 1), (0, 9), (1, 4), (3, 1)])
def test_it_walks_to_the_best_scale_and_round(bottom, rounds):
    search = run(valley(bottom, rounds))
    assert (search.best.step, search.best.rounds) == (bottom, rounds)
    assert search.best.ascent.point[0] == rounds
    reached = range(bottom + 2) if bottom > 0 else range(bottom - 1, 2)
    assert sorted(dict(search.tried)) == sorted(set(reached) | {0, 1})
    assert min(dict(search.tried).values()) == pytest.approx(search.best.nlpp)


@pytest.mark.parametrize("rounds", [1, 4, 9])
def test_ascents_start_halfway_to_the_best_round_and_end_soon_after_it(rounds):
    asked = {}

    def curve(step, round_):
        asked.setdefault(step, []).append(round_)
        return float(valley(1, rounds)(step, round_))

    search = run(curve)
    half = rounds // 2
    begun = {0: 0, 1: half, 2: half}
    assert {step: own[0] - 1 for step, own in asked.items()} == begun
    assert {own[-1] for own in asked.values()} == {rounds + PATIENCE}
    assert search.halfway_rounds == half
    assert search.halfway.point[0] == len(search.halfway.steps) == half


@pytest.mark.parametrize("stop", [None, 0, 9, 17])
def test_all_rows_follow_a_part_once_at_its_best_scale(stop):
    asked = []
    search = ScaleSearch(part=True)

    def curve(step, round_):
        asked.append((search.part, step, round_))
        return float(valley(1, 6 if search.part else 5)(step, round_))

    if stop is not None:
        search = from_arrays(ScaleSearch, to_arrays(run(curve, search, stop)))
    run(curve, search)
    assert (search.best.step, search.best.rounds, search.part) == (1, 5, False)
    assert {step for part, step, _ in asked if part} == {0, 1, 2}
    own = [(step, round_) for part, step, round_ in asked if not part]
    assert own == [(1, round_) for round_ in range(4, 5 + PATIENCE + 1)]


def test_it_goes_no_farther_than_allowed():
    assert max(dict(run(lambda step, round_: -float(step)).tried)) == MAX_STEPS
    assert min(dict(run(lambda step, round_: float(step)).tried)) == -MAX_STEPS


@pytest.mark.parametrize(("lead", "expected"), [(0.9, False), (1.1, True)])
def test_a_larger_variance_must_be_worth_its_rounds(lead, expected):
    base = Peak(0, 1, log_z_of(1.0), START)
    log_z = log_z_of(1.0 - lead * LEAD, 2.0)
    assert Peak(1, 1, log_z, START).is_better_than(base) is expected
    assert Peak(-1, 1, log_z, START).is_better_than(base)
    assert Peak(0, 2, log_z, START).is_better_than(base)
    assert not base.is_better_than(base)


def test_validation_rows_agree_with_rows_never_seen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    noisy = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=len(X))
    y = np.digitize(noisy, [-0.7, 0.7])
    model = sparsegp.train(X[:6000], y[:6000], n_active=60, runtime="threads=1")
    calibration = model.weights.calibration
    expected = model.weights.report["validation_nlpp"][f"{calibration.prior_scale:.4g}"]
    log_p = model.predict_log_proba(X[6000:])[np.arange(6000), y[6000:]]
    error = log_p.std() * np.sqrt(1 / 600 + 1 / 6000)
    assert -log_p.mean() == pytest.approx(expected, abs=3.0 * error)
    assert 0.9 < calibration.temperature < 1.1
    top = np.exp(model.predict_log_proba(X[6000:])).max(axis=1)
    right = model.predict(X[6000:]) == y[6000:]
    assert top.mean() == pytest.approx(right.mean(), abs=0.015)


def stripes(n, gap=6.0):
    """Rows of two classes, `gap` standard deviations apart."""
    y = np.arange(n) % 2
    return np.random.default_rng(0).normal(size=(n, 2)) + gap * y[:, np.newaxis], y


X, Y = make_classification(700, 6, n_informative=4, n_classes=3, flip_y=0.2, random_state=1)
"""Rows of three classes, a fifth of which are of any."""


@pytest.mark.parametrize(("n", "most"), [(2, 0.6), (3, 0.9), (5, 0.98), (10, 0.99)])
def test_few_rows_give_modest_probabilities(n, most):
    """However far apart the classes are."""
    p = sparsegp.train(*stripes(n)).predict_proba(stripes(200)[0])
    assert p.max() < most
    if n > 2:
        assert p[np.arange(200), stripes(200)[1]].mean() > 0.75


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_one_row_of_each_class_says_next_to_nothing(classes):
    X = np.random.default_rng(0).normal(size=(classes, 5))
    p = sparsegp.train(X, np.arange(classes)).predict_proba(X)
    assert p.max() < 1.0 / classes + 0.1


@pytest.mark.parametrize("n", [20, 60, 200])
def test_they_are_better_than_those_of_the_kernel_as_it_is(n):
    models = (sparsegp.train(X[:n], Y[:n], calibration=name) for name in ("learned", "none"))
    learned, plain = (nlpp(model, X[n:], Y[n:]) for model in models)
    assert learned < min(plain - 0.1, np.log(3))


def test_many_copies_of_one_row_do_not_make_the_others_modest():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [9, 271])
    X = rng.normal(size=(280, 10)) + 4 * y[:, np.newaxis] * (np.arange(10) < 5)
    copies = np.where(np.arange(280) == 9, 350, 1)
    settings = {"kernel": "30*laplace", "scaling": "quantile"}
    model = sparsegp.train(X.repeat(copies, axis=0), y.repeat(copies), **settings)
    assert nlpp(model, X, y) < 0.01


@pytest.mark.parametrize("per_class", [False, True])
def test_the_objective_of_a_fold_is_that_of_the_other_rows(per_class):
    settings = TrainSettings(
        n_active=40, kernel="10*rbf", kernel_per_class=per_class, precision="float64", n_nodes=24
    )
    with selected((X[:300], Y[:300]), settings, block_rows=256) as run:
        folds = Folds(SpanObjective(ActiveRows.of(run.block_settings, run.active), run))
        stubs = [run.stub(k).compute() for k in range(len(folds.features))]
    c, way = np.random.default_rng(0).normal(size=(2, *folds.start().shape))
    value, gradient = folds.value_and_gradient(c)
    slope = central(lambda t: folds.value_and_gradient(c + t * way)[0], np.zeros(()), 1e-4)
    assert_allclose(slope, np.vdot(gradient, way), rtol=1e-4)

    parts, expected = c.reshape(*c.shape[:2], int(run.folds.max()) + 2, -1), 0.0
    for k in range(parts.shape[2]):
        mean = np.concatenate([s.T @ p[:, k] for s, p in zip(stubs, parts, strict=True)], axis=1)
        zero = np.zeros((len(mean), 1))
        log_z = folds.active.likelihood.log_z(mean, zero, run.data.target)
        expected += log_z[run.folds != k].sum()
        for penalty, part in zip(folds.penalty, parts[:, :, k], strict=True):
            expected -= 0.5 * np.vdot(part, penalty @ part)
    assert_allclose(value, expected, rtol=1e-6)


def test_of_families_that_are_too_large_the_smallest_validates():
    target, families = np.arange(3000) % 2, np.minimum(np.arange(3000) // 700, 3)
    settings = TrainSettings.given(n_active=100)
    validation = choose_validation_rows(target, settings, families)
    assert 0 < settings.n_validation(3000) < 700
    assert_array_equal(validation, families == 0)


def test_at_most_half_of_the_rows_of_a_class_validate():
    target = np.repeat([0, 1, 2, 3], [1, 2, 4000, 5000])
    for seed in range(60):
        settings = TrainSettings.given(n_active=100, seed=seed)
        validation = choose_validation_rows(target, settings, np.arange(len(target)))
        assert validation.sum() == settings.n_validation(len(target), n_largest=5000)
        assert (np.bincount(target[validation], minlength=4)[:2] <= [0, 1]).all()


def test_folds_have_their_share_of_every_class_and_keep_copies_together():
    target = np.repeat([0, 1, 2], [50, 30, 20])
    folds = choose_folds(target, TrainSettings(), np.arange(100))
    for code in range(3):
        counts = np.bincount(folds[target == code], minlength=5)
        assert counts.max() - counts.min() <= 1
    origin = np.repeat(np.arange(25), 4)
    copied = choose_folds(np.repeat(np.arange(25) % 3, 4), TrainSettings(), origin)
    assert_array_equal(copied, np.repeat(copied[::4], 4))
    assert len(np.unique(copied)) == 5
    for settings in (TrainSettings(calibration="none"), TrainSettings(posterior="adf")):
        assert len(choose_folds(target, settings, np.arange(100))) == 0
    assert len(choose_folds(np.repeat([0, 1], 1000), TrainSettings(), np.arange(2000))) == 0


@pytest.mark.parametrize(
    ("counts", "is_crossed"),
    [
        ((1000, 999), True),
        ((1500, 999), True),
        ((1500, 1000), False),
        ((7900, 50, 50), True),
        ((4000, 500, 500), False),
        ((7950, 51), False),  # more rows than are crossed
    ],
)
def test_few_rows_of_rare_classes_are_crossed(counts, is_crossed):
    target = np.repeat(np.arange(len(counts)), counts)
    of_rows = target, TrainSettings(), np.arange(len(target))
    assert (len(choose_folds(*of_rows)) > 0) == is_crossed
    assert choose_validation_rows(*of_rows).any() != is_crossed
    assert choose_validation_rows(*of_rows, keeps_scale=True).any()


@pytest.mark.slow
def test_rounding_errors_of_features_are_not_fitted():
    """A kernel of fewer directions than there are active rows."""
    rng = np.random.default_rng(0)
    X = np.exp(1.5 * rng.normal(size=(1400, 12)))
    y = np.digitize(np.log(X) @ rng.normal(size=12) + 2 * rng.normal(size=1400), [-2, 2])
    found = {}
    for precision in ("float32", "float64"):
        settings = {"kernel": "100*rbf(200)", "scaling": "standard", "precision": precision}
        model = sparsegp.train(X[:900], y[:900], n_active=600, **settings)
        found[precision] = sparsegp.evaluate(model, X[900:], y[900:]).nlpp
        assert model.report["rounds"] < 100
        assert model.report["jitter_of_penalty"] < 1e-3
    assert found["float32"] == pytest.approx(found["float64"], abs=0.005)
