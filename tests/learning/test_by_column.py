"""Length scales by column: slopes against finite differences, and relevant columns are found."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge

from sparsegp.data import Scaling
from sparsegp.errors import NumericalError
from sparsegp.fit.trial import Sample, run_trial
from sparsegp.kernels import parse
from sparsegp.learning import by_column, linear_rows
from sparsegp.learning.by_column import HeldOut, Pace, learn_by_column, with_ard, with_warping
from sparsegp.learning.trials import Trial
from sparsegp.settings import TrainSettings
from tests.differences import central

N, M, P = 400, 400, 12
RELEVANT = [1, 3, 4]


def rows_of(n_classes, n=80):
    """Rows of three columns, weighted, every fourth active; numbers if there are no classes."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, 3))
    target = X[:, 0] + 0.3 * rng.normal(size=n)
    if n_classes:
        target = (target > 0).astype(int) + (n_classes > 2) * (X[:, 1] > 0.5)
    return HeldOut(X, target, np.linspace(0.5, 2.0, n), n // 4)


@pytest.fixture
def exact(monkeypatch):
    """Small fits and linear systems to the last digits."""
    monkeypatch.setattr(linear_rows, "RESOLUTION", 1e-12)
    for name, value in {"FIT_TOLERANCE": 1e-13, "CG_TOLERANCE": 1e-6}.items():
        monkeypatch.setattr(by_column, name, value)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize(
    "text",
    [
        "10*laplace(3, 4, 5)",
        "4*laplace(3, 1, 2, 4, 4, 5, 5, 3, 2, 3, 4, 5) + 2*rbf(3)",
        "5*ard(3, 1, 2) + 4*additive(1, 2, 3) + 3*power(0.5, 2, 2, 9)",
    ],
)
def test_slopes_are_those_of_finite_differences(n_classes, text, exact):
    kernel, held_out = parse(text), rows_of(n_classes)
    slopes = held_out.value_and_gradient(kernel)[1]

    def value(at):
        return held_out.value_and_gradient(kernel.with_parameters(at))[0]

    expected = central(value, kernel.parameters(), 2e-3)
    assert_allclose(slopes, expected, rtol=0.01, atol=0.01 * np.abs(expected).max())


@pytest.mark.parametrize("evenness", [0.0, 0.6, 1.0])
def test_the_first_iteration_moves_parameters_of_small_slopes_too(evenness):
    rows, kernel = rows_of(3), parse("10*laplace(3, 4, 5)")
    slopes = rows.value_and_gradient(kernel)[1]
    of_rows = rows.X, rows.target, rows.weights
    pace = Pace(1, first=0.7, evenness=evenness)
    learnt, _ = learn_by_column(kernel, *of_rows, n_active=rows.n_active, pace=pace)
    shares = slopes / (evenness * np.abs(slopes) + (1 - evenness) * np.abs(slopes).max())
    assert_allclose(learnt.parameters() - kernel.parameters(), 0.7 * shares, atol=2e-5)
    assert np.ptp(np.abs(slopes)) > 0.4 * np.abs(slopes).max()


@pytest.mark.parametrize(("nlpp", "expected"), [(0.1, 0.1), (0.6, 0.0931), (0.7, 0.0139)])
def test_gains_are_relative_to_what_inputs_explain(nlpp, expected):
    """Of an entropy of 0.693 nats, though at least a fiftieth of that."""
    target, weights = np.array([0, 1, 1]), np.array([2.0, 1.0, 1.0])
    found = by_column.magnitude(-4.0 * nlpp, target, weights)
    assert found == pytest.approx(4.0 * expected, abs=4e-4)
    assert by_column.magnitude(-4.0 * nlpp, target.astype(float), weights) == 4.0 * nlpp


def test_a_sample_without_the_rare_class():
    X = np.random.default_rng(0).normal(size=(60, 3))
    target, kernel = np.zeros(60, np.int64), parse("10*laplace(3, 4, 5)")
    value, slopes = HeldOut(X, target, np.ones(60), 60).value_and_gradient(kernel)
    assert -60.0 * np.log(2.0) < value < 0.0
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_the_value_is_that_of_dense_fits(n_classes):
    kernel, held_out = parse("10*laplace(3, 4, 5)"), rows_of(n_classes)
    X, U, target, w = held_out.X, held_out.X[held_out.active], held_out.target, held_out.weights
    F, total = kernel(X, U) @ np.linalg.inv(np.linalg.cholesky(kernel(U, U))).T, 0.0
    # of two classes there is the difference of their weights, which is twice as far
    fit = LogisticRegression(C=2.0 if n_classes == 2 else 1.0, fit_intercept=False)
    fit = fit if n_classes else Ridge(alpha=1.0, fit_intercept=False)
    for held, others in zip(held_out.halves, held_out.halves[::-1], strict=True):
        fit.fit(F[others], target[others], sample_weight=w[others])
        if n_classes:
            log_p = fit.predict_log_proba(F[held])[np.arange(len(X) // 2), target[held]]
        else:
            square = (target[held] - fit.predict(F[held])) ** 2
            noise = np.average(square, weights=w[held])
            log_p = -0.5 * (np.log(2.0 * np.pi * noise) + square / noise)
        total += w[held] @ log_p
    assert held_out.value_and_gradient(kernel)[0] == pytest.approx(total, rel=1e-3)


def test_a_fit_that_ends_early_is_corrected(monkeypatch, exact):
    kernel = parse("10*laplace(3, 4, 5)")
    expected, _ = rows_of(3).value_and_gradient(kernel)
    monkeypatch.setattr(by_column, "FIT_TOLERANCE", 0.01)
    assert rows_of(3).value_and_gradient(kernel)[0] == pytest.approx(expected, abs=0.2)


def test_a_probability_of_more_than_one_is_no_result(monkeypatch):
    """Values are of one Newton step more, which leads anywhere where fits did not converge."""
    found = HeldOut.value_and_gradient

    def shifted(self, kernel):
        value, slopes = found(self, kernel)
        return value + 1e4, slopes

    monkeypatch.setattr(HeldOut, "value_and_gradient", shifted)
    rows = rows_of(3)
    known = rows.X, rows.target, rows.weights
    with pytest.raises(NumericalError, match="small fits must come near"):
        learn_by_column(parse("10*laplace(3, 3, 3)"), *known, n_active=60, pace=Pace(1))


@pytest.mark.parametrize(
    ("text", "parts"),
    [("10*laplace(3)", 1), ("5*laplace(3) + 5*rbf(1)", 2), (f"10*laplace({'3, ' * 12})", 1)],
)
def test_learning_raises_the_log_probability_and_columns_of_a_group_share_scales(text, parts):
    """Also where a column has four of them; numbers have six digits."""
    held_out, kernel = rows_of(3, 160), with_ard(parse(text), 3)
    known = held_out.X, held_out.target, held_out.weights
    learnt, nlpp = learn_by_column(kernel, *known, np.array([0, 1, 1]), n_active=300, pace=Pace(8))
    assert max(map(len, re.findall(r"[\d.]+", str(learnt)))) <= 8
    scales = np.exp(learnt.parameters()).reshape(parts, -1)[:, 1:]  # after the variance
    scales = scales.reshape(parts, 3, -1)
    assert_array_equal(scales[:, 1], scales[:, 2])
    assert all(len(np.unique(part)) == part[:2].size for part in scales)
    rows = HeldOut(*known, 300)
    before, after = (rows.value_and_gradient(each)[0] for each in (kernel, learnt))
    assert after > before + 2.0
    assert nlpp == pytest.approx(-after / held_out.weights.sum(), rel=1e-3)


FOUR = "laplace(1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0)"


@pytest.mark.parametrize(
    ("widen", "text", "expected"),
    [
        (with_ard, "2*rbf(2) + linear*matern32(1)", "2.0*ard(2.0, 2.0) + linear*matern32(1.0)"),
        (with_ard, "laplace(3) + additive(1, 2)", "laplace(3.0, 3.0) + additive(1.0, 2.0)"),
        (with_ard, f"power(0.5, 2) + {FOUR}", f"power(0.5, 2.0, 2.0) + {FOUR}"),
        (with_warping, "2*laplace(1, 2) + additive(1, 2)", f"2.0*{FOUR} + additive(1.0, 2.0)"),
        (with_warping, "laplace(3) * rbf(3)", f"laplace({', '.join(['3.0'] * 8)})*rbf(3.0)"),
    ],
)
def test_the_same_function_with_a_scale_of_each(widen, text, expected):
    """Or, for a product over columns, with four of them."""
    wide = widen(parse(text), 2)
    assert str(wide) == expected
    assert widen(wide, 2) == wide
    X = np.random.default_rng(0).normal(size=(5, 2))
    assert_allclose(wide(X, X), parse(text)(X, X), rtol=1e-12)


def test_a_stretch_where_functions_change_fast_has_a_short_length_scale():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1200, 2))
    target = ((np.sin(12.0 * X[:, 0]) > 0.0) & (X[:, 0] > 0.67)).astype(int)
    kernel = with_warping(parse("20*laplace(2)"), 2)
    learnt, _ = learn_by_column(kernel, X, target, np.ones(1200), n_active=200, pace=Pace(8))
    fast, slow = scales_of(str(learnt)).reshape(2, 4)
    assert fast[3] < 0.3 * fast[:2].min()
    assert fast[3] < 0.3 * slow.min()


def test_of_few_rows_only_the_most_relevant_columns_are_warped():
    rng, n = np.random.default_rng(6), 240  # rows for the segments of three columns
    X = rng.normal(size=(n, 5))
    X[:, 3] = X[:, 3] > 0.0  # of two values, between which there is nothing to warp
    target = (np.sin(4.0 * X[:, 1]) + X[:, 2] > 0.0).astype(int)
    kernel = with_warping(parse("20*laplace(9, 2, 8, 1, 7)"), 5)
    for _ in range(2):  # and the same ones when they are learnt again
        kernel, _ = learn_by_column(kernel, X, target, np.ones(n), n_active=60, pace=Pace(3))
        scales = scales_of(str(kernel)).reshape(5, 4)
        assert (scales != scales[:, :1]).any(axis=1).tolist() == [False, True, True, False, True]
    assert (scales[[0, 3], 0] != [9.0, 1.0]).all()  # these are learnt too


@pytest.fixture(scope="module")
def sample():
    """Three classes by smooth functions of three of twelve columns, and rows held out."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N + M, P))
    a, b, c = X[:, RELEVANT].T
    latent = np.stack([np.sin(2.0 * a) + b, c - np.sin(2.0 * a), np.cos(2.0 * c) - b], axis=1)
    target = (latent + 0.1 * rng.normal(size=latent.shape)).argmax(axis=1)
    scaling = Scaling(np.zeros(P), np.ones(P), "none")
    return Sample(X, target, 3, np.arange(len(X)), scalings={"none": scaling})


def found_by(sample, kernel, learn=True):
    return run_trial(TrainSettings(), sample, Trial(0, kernel, "none", 0, N, 120, learn))


def scales_of(text):
    _, kernel = parse(text).parts
    return np.array(kernel.length_scales)


@pytest.mark.parametrize("kernel", ["20.0*rbf(2.5)", "20.0*laplace(10.0)"])
def test_relevant_columns_have_short_length_scales(kernel, sample):
    outcome = found_by(sample, kernel)
    scales = scales_of(outcome.kernel)
    assert scales[RELEVANT].max() < 0.7 * np.delete(scales, RELEVANT).min()
    before = found_by(sample, kernel, learn=False)
    assert outcome.leads(before, 2.0)
    assert outcome.nlpp < 0.7 * before.nlpp


def test_permuted_columns_have_permuted_length_scales(sample):
    order = np.random.default_rng(2).permutation(P)
    other = replace(sample, X=sample.X[:, order])
    first, permuted = (scales_of(found_by(each, "20*rbf(2.5)").kernel) for each in (sample, other))
    assert_allclose(permuted, first[order], rtol=0.02)
