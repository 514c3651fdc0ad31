"""The search for prior scale and rounds, and that validation rows speak for rows never seen."""

from types import SimpleNamespace

import numpy as np
import pytest

import sparsegp
from sparsegp.math.lbfgs import Ascent
from sparsegp.posterior.prior_variance import LEAD, MAX_STEPS, PATIENCE, Peak, ScaleSearch
from sparsegp.state import from_arrays, to_arrays

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
