"""A trial against a run of the package on the same rows."""

from dataclasses import replace

import numpy as np
import pytest

import sparsegp
from sparsegp.fit.trial import Predictions, predict_held_out, run_trial
from sparsegp.learning.relevances import Sample
from sparsegp.learning.search import Trial
from sparsegp.report import evaluate
from sparsegp.settings import TrainSettings
from tests.fit.conftest import Arrays, waves

KERNEL = "30.0*matern32(1.5)"


@pytest.fixture(scope="module")
def sample(data: Arrays) -> Sample:
    X, y = data
    X_held, y_held = waves(400, 1)
    return Sample(X.astype(np.float32), y, X_held.astype(np.float32), y_held, 3)


@pytest.mark.parametrize(
    "settings",
    [{}, {"posterior": "adf"}, {"calibration": "none", "panel": 1, "seed": 3}],
    ids=["all", "adf", "uncalibrated"],
)
def test_figures_are_those_of_a_run(settings: dict[str, object], sample: Sample) -> None:
    chosen = TrainSettings.from_json(settings)
    outcome = run_trial(chosen, sample, Trial(4, KERNEL, 1, 420, 60))
    model = sparsegp.train(
        sample.X[:420],
        sample.target[:420],
        kernel=KERNEL,
        scaling="none",
        n_active=60,
        runtime="threads=1",
        **settings,
    )
    logs = model.predict_log_proba(sample.X_held)
    expected = evaluate(logs, sample.target_held, model.classes)
    assert outcome.nlpp == pytest.approx(expected.nlpp, rel=1e-4)
    assert outcome.error == expected.error
    assert outcome.ece == pytest.approx(expected.ece, rel=1e-3)
    assert outcome.seconds > 0
    assert outcome.failure == ""


@pytest.mark.parametrize("kernel", ["1e30*rbf(100)", "1e39*rbf(1)"])
def test_a_kernel_that_breaks_down_is_an_outcome(kernel: str, sample: Sample) -> None:
    outcome = run_trial(TrainSettings(), sample, Trial(0, kernel, 0, 300, 250))
    assert (outcome.nlpp, outcome.error, outcome.ece) == (None, None, None)
    assert outcome.failure


def test_a_search_gives_another_kernel_that_leads_by_more_than_a_standard_error(
    sample: Sample,
) -> None:
    start = Trial(7, "100*rbf(0.7)", 3, 450, 80, steps=4)
    found = run_trial(TrainSettings(), sample, start)
    assert "ard(" in found.kernel
    again = run_trial(TrainSettings(), sample, replace(start, kernel=found.kernel, steps=0))
    assert again == replace(found, seconds=again.seconds, leads=True)
    before, after = (
        predict_held_out(TrainSettings(), sample, replace(start, kernel=kernel)).log_p
        for kernel in (start.kernel, found.kernel)
    )
    gains = after - before
    assert found.leads == (gains.mean() > gains.std() / np.sqrt(gains.size))


@pytest.mark.parametrize(
    ("gains", "leads"),
    [([0.1, 0.2, 0.1], True), ([1.0, -1.2, 0.5], False), ([0.0, 0.0, 0.0], False)],
)
def test_one_leads_another_by_more_than_a_standard_error(gains: list[float], leads: bool) -> None:
    none = np.zeros(3)
    better, other = (Predictions(log_p, none, none > 0, None) for log_p in (np.array(gains), none))
    assert better.leads(other) is leads


def test_a_turned_sample_holds_other_rows_out(sample: Sample) -> None:
    turned, held = sample.turned(), len(sample.X_held)
    assert turned.X_held.tolist() == sample.X[-held:].tolist()
    assert turned.target_held.tolist() == sample.target[-held:].tolist()
    before, after = (
        np.column_stack([np.vstack([s.X, s.X_held]), np.append(s.target, s.target_held)])
        for s in (sample, turned)
    )
    assert sorted(map(tuple, before)) == sorted(map(tuple, after))
