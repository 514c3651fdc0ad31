"""A trial against a run of the package on the same rows."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.blas import single_threaded_blas
from sparsegp.data import Scaling, as_table
from sparsegp.fit.prepare import prepare
from sparsegp.fit.trial import (
    BRISK,
    FINAL_TOLERANCE,
    SEARCH_FOLDS,
    PartialFits,
    Sample,
    averaged,
    draw_sample,
    run_trial,
)
from sparsegp.kernels import parse
from sparsegp.learning.approximate import ApproximateFit, choose_prior_variance
from sparsegp.learning.by_column import learn_by_column, with_ard
from sparsegp.learning.trials import Trial
from sparsegp.report import evaluate
from sparsegp.settings import TrainSettings
from tests.fit.conftest import waves

KERNEL = "30.0*matern32(1.5)"


@pytest.fixture(scope="module")
def sample(data):
    X, y = data
    X_held, y_held = waves(400, 1)
    rows, target = np.concatenate([X, X_held]).astype(np.float32), np.concatenate([y, y_held])
    scaling = Scaling(np.zeros(2), np.ones(2), "none")
    return Sample(rows, target, 3, np.arange(len(rows)), scalings={"none": scaling})


def test_figures_are_near_those_of_a_run(sample):
    outcome = run_trial(TrainSettings(), sample, Trial(4, KERNEL, "none", 1, 420, 60))
    X, y = sample.X, sample.target
    how = {"kernel": KERNEL, "scaling": "none", "n_active": 60}
    model = sparsegp.train(X[:420], y[:420], runtime="threads=1", **how)
    expected = evaluate(model.predict_log_proba(X[420:]), y[420:], model.classes)
    assert outcome.nlpp == pytest.approx(expected.nlpp, rel=0.1)
    assert outcome.error == pytest.approx(expected.error, abs=0.03)
    assert 0 < outcome.ece < 0.1
    assert outcome.seconds > 0
    assert outcome.failure == ""


@pytest.mark.parametrize("kernel", ["1e30*rbf(100)", "1e39*rbf(1)"])
def test_a_kernel_that_breaks_down_is_an_outcome(kernel, sample):
    outcome = run_trial(TrainSettings(), sample, Trial(0, kernel, "none", 0, 300, 250))
    assert (outcome.nlpp, outcome.error, outcome.ece) == (None, None, None)
    assert outcome.failure
    other = replace(outcome, nlpp=9.0)
    assert other.leads(outcome)
    assert not outcome.leads(other)


def test_figures_of_what_is_learnt_by_column_can_be_had_again(sample):
    start = Trial(7, "100*rbf(0.7)", "none", 3, 450, 80, by_column=True)
    found = run_trial(TrainSettings(), sample, start)
    assert "ard(" in found.kernel
    again = run_trial(TrainSettings(), sample, replace(start, kernel=found.kernel, by_column=False))
    assert again == replace(found, seconds=again.seconds)
    assert again.log_p.tolist() == found.log_p.tolist()


@pytest.mark.parametrize("counts", [(50, 50, 49), (101, 100, 99), (71, 48, 59), (30, 29, 31) * 2])
def test_parts_have_the_same_classes(counts):
    """As many classes as parts, in turn: numbers modulo the parts would be those of classes."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    prepared = prepare(as_table(X, y), None, TrainSettings())
    drawn = draw_sample(prepared, {}, TrainSettings(), 10**6)
    for _, held in drawn.splits(10**6):
        found = np.bincount(drawn.target[held], minlength=len(counts))
        assert (np.abs(found - np.array(counts) / SEARCH_FOLDS) < 1.0).all()


def test_of_few_rows_every_one_is_held_out_once(sample):
    some = {"X": sample.X[:301], "target": sample.target[:301], "family": np.arange(301)}
    few = replace(sample, **some, parts=SEARCH_FOLDS)
    splits = list(few.splits(10**6))
    assert sorted(np.concatenate([held for _, held in splits]).tolist()) == list(range(301))
    for rows, held in splits:
        assert sorted([*rows.tolist(), *held.tolist()]) == list(range(301))
        assert len(rows) >= few.n_train
    found = run_trial(TrainSettings(), few, Trial(0, KERNEL, "none", 0, 301, 60))
    assert len(found.log_p) == 301
    with single_threaded_blas():  # as in a trial: the last bits depend on it
        kernel, X, y = parse(KERNEL), few.X, few.target
        fits = [ApproximateFit(kernel, X[a], y[a], 3, 60, X[b]) for a, b in splits]
        held = np.concatenate([b for _, b in splits])
        log_p = choose_prior_variance(fits, y[held]).predicted[range(301), y[held]]
    assert_array_equal(found.log_p[held], log_p)
    trial = Trial(0, "9*rbf(1)", "none", 0, 301, 60, by_column=True)
    with single_threaded_blas():
        kernels = PartialFits.of(few, TrainSettings(), trial).learnt_by_column(parse(trial.kernel))
    assert run_trial(TrainSettings(), few, trial).kernel == str(averaged(kernels))
    assert len(set(kernels)) == SEARCH_FOLDS


@pytest.mark.parametrize("parts", [1, SEARCH_FOLDS])
@pytest.mark.parametrize("weighted", [False, True])
def test_active_rows_may_be_those_that_a_run_selects(weighted, parts, sample):
    X, y = sample.X, sample.target
    # without equal weights, whose order would depend on that of the rows in the run
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X)) if weighted else None
    sample = replace(sample, parts=parts, weights=weights)
    trial = Trial(0, KERNEL, "none", 6, 10**6, 60, selects=True)
    found = run_trial(TrainSettings(), sample, trial)
    how = {"kernel": KERNEL, "scaling": "none", "runtime": "threads=1"}
    fits, helds = [], []
    for rows, held in sample.splits(10**6):
        own = None if weights is None else weights[rows]
        model = sparsegp.train(X[rows], y[rows], sample_weight=own, n_active=60, **how)
        order = rows[np.concatenate([model.rows, np.delete(np.arange(len(rows)), model.rows)])]
        own = None if weights is None else weights[order].astype(np.float32)
        with single_threaded_blas():
            fits.append(ApproximateFit(parse(KERNEL), X[order], y[order], 3, 60, X[held], own))
        helds.append(held)
    held = np.concatenate(helds)
    own = None if weights is None else weights[held]
    with single_threaded_blas():
        log_p = choose_prior_variance(fits, y[held], own).predicted[range(len(held)), y[held]]
    own = np.ones(len(held)) if own is None else own
    assert_allclose(found.log_p, (log_p * own / own.mean())[np.argsort(held)], rtol=1e-12)
    first = run_trial(TrainSettings(), sample, replace(trial, selects=False))
    assert found.nlpp != first.nlpp


@pytest.mark.parametrize(("weighted", "metric"), [(False, "none"), (True, "none"), (False, "full")])
@pytest.mark.parametrize(("first", "tolerance"), [(80, BRISK.tolerance), (0, FINAL_TOLERANCE)])
def test_kernels_are_learnt_again_from_rows_of_all_parts(
    weighted, metric, first, tolerance, sample
):
    """With a length scale for every column unless there is a metric."""
    n = len(sample.X) - 7 - first
    weights = np.linspace(0.5, 1.5, len(sample.X)) if weighted else np.ones(len(sample.X))
    sample = replace(sample, weights=weights) if weighted else sample
    trial = Trial(0, "9*rbf(1)", "none", 5, n, 150, True, metric, again=True, first=first)
    found = run_trial(TrainSettings(), sample, trial)
    kernel = parse(trial.kernel)
    kernel = kernel if metric == "full" else with_ard(kernel, 2)
    with single_threaded_blas():
        X = PartialFits.of(sample, TrainSettings(), trial).inputs[0]
        rows = slice(first, first + n)
        given = X[rows], sample.target[rows], weights[rows]
        kernel, nlpp = learn_by_column(
            kernel, *given, n_active=150, pace=BRISK._replace(tolerance=tolerance)
        )
    assert (found.kernel, found.nlpp) == (str(kernel), nlpp)
    assert (found.error, found.ece, found.failure) == (None, None, "")
    assert len(kernel.parameters()) == (2 if metric == "full" else 3)
    assert np.array_equal(X, sample.X) == (metric == "none")


def test_the_average_of_kernels_is_geometric():
    kernels = [parse("2*ard(1, 8) + linear"), parse("2*ard(4, 2) + linear")]
    expected = parse("2*ard(2, 4) + linear").parameters()
    assert averaged(kernels).parameters() == pytest.approx(expected)
    assert averaged([kernels[0], kernels[0]]) == kernels[0]


def test_copies_are_held_out_together(data):
    X, y = (rows[:150] for rows in data)
    labels, weights = np.column_stack([y, 2 - y]).ravel(), np.full(300, 1.5)
    table = as_table(np.repeat(X, 2, axis=0), labels, weights)
    drawn = draw_sample(prepare(table, None, TrainSettings()), {}, TrainSettings(), 7000)
    assert len(drawn.X) > 200
    for rows, held in drawn.splits(10**6):
        assert not {*map(bytes, drawn.X[rows])} & {*map(bytes, drawn.X[held])}
