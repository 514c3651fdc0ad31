"""Small tables: the prior scale by cross-validation; probabilities that few rows can support.

Blocks, workers and stops change no bit of them: see test_runs.py.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

import sparsegp
from sparsegp.fit.prepare import choose_folds, choose_validation_rows
from sparsegp.posterior import ActiveRows
from sparsegp.posterior.objective import SpanObjective
from sparsegp.posterior.prior_variance import Folds
from sparsegp.settings import TrainSettings
from tests.differences import central
from tests.runs import nlpp, selected


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
