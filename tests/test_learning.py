"""Learning by the evidence, as a whole: it goes down, it helps, and it stays within bounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sparsegp
from sparsegp.errors import Interrupted, NumericalError
from sparsegp.kernels import parse
from tests.runs import KINDS, Stopper, assert_same, nlpp

FARTHEST = 7.0
"""How far a parameter goes from its start, in logarithms: README, "Learning by the evidence"."""

BINARY = {**KINDS["learnt, probit"], "major_steps": 3, "minor_steps": 4}
PAIRS = {**KINDS["learnt, pairs"], "n_active": 30, "minor_steps": 3}
SHARED = {**KINDS["learnt, per class"], "minor_steps": 3}
REGRESSION = {
    "task": "regression",
    "n_active": 60,
    "kernel": "1*ard",
    "learn": "evidence",
    "likelihood": "gaussian",
    "major_steps": 6,
}
NOISELESS = {**BINARY, "hyperprior": "", "calibration": "none", "kernel": "10*rbf", "n_active": 32}
MODELS = {"binary": BINARY, "a set a class": PAIRS, "one set": SHARED}

STRATEGIES = ("constant", "hybrid", "exact")


def labelled(settings, n=300):
    """Rows of two classes, or of three, or with numbers, for which two of six columns matter."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 6))
    y = np.sin(2.0 * X[:, 1]) + 0.7 * X[:, 4]
    if settings.get("likelihood") == "probit":
        return X, (y + 0.3 * rng.normal(size=n) > 0.3).astype(int)
    numbers = y + 0.1 * rng.normal(size=n)
    return X, numbers if "task" in settings else np.digitize(numbers, [-0.5, 0.7])


def parameters(model):
    return np.concatenate([kernel.parameters() for kernel in model.kernels])


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("calibration", [pytest.param("none", marks=pytest.mark.slow), "learned"])
def test_major_steps_go_down_and_the_last_or_the_best_is_taken(settings, calibration):
    """The last parameters, or those that tell validation rows best where there are some."""
    n = 150 if calibration == "none" else 300  # of fewer rows none are for validation
    model = sparsegp.train(*labelled(settings, n), **{**settings, "calibration": calibration})
    steps = model.report["learning"]
    assert len(steps) == settings["major_steps"]
    for step in steps:
        assert (np.diff(step["criterion"]) <= 1e-9 * abs(step["criterion"][0])).all()
        assert len(step["criterion"]) <= settings["minor_steps"] + 1
        assert "bounded" not in step  # the hyperprior sees to that
    assert steps[-1]["kernel"] != steps[0]["kernel"]
    if calibration == "none":
        last = [parse(text).parameters() for text in steps[-1]["kernel"].split("; ")]
        assert_allclose(parameters(model), np.concatenate(last), rtol=1e-12)
        return
    tried = [step["validation_nlpp"] for step in steps]
    found = model.report["validation_nlpp"]
    assert found <= min(tried) * (1.0 + 1e-12)
    if np.isclose(found, tried, rtol=1e-12).any():
        best = steps[int(np.argmin(tried))]["start"]
        assert_allclose(parameters(model), best[: len(parameters(model))], rtol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        *({**BINARY, "strategy": name, "major_steps": 5, "n_active": 40} for name in STRATEGIES),
        {**PAIRS, "n_active": 50},
    ],
    ids=[*STRATEGIES, "several classes"],
)
def test_learning_helps(settings):
    settings = {**settings, "kernel": "0.3*rbf(0.7)", "calibration": "none"}
    X, y = labelled(settings, n=600)
    both = ({**settings, "learn": learn} for learn in ("none", "evidence"))
    before, after = (sparsegp.train(X[:150], y[:150], **each) for each in both)
    assert nlpp(after, X[150:], y[150:]) < nlpp(before, X[150:], y[150:]) - 0.01
    if settings.get("active_per_class"):
        biases = np.array(after.likelihood.parameters())
        assert abs(biases.sum()) < 1e-6 * np.abs(biases).max()  # their mean says nothing


@pytest.mark.slow
def test_relevant_columns_are_found():
    model = sparsegp.train(*labelled(REGRESSION), **REGRESSION)
    scales = np.exp(parameters(model)[1:])
    assert set(np.argsort(scales)[:2]) == {1, 4}
    others = np.delete(scales, [1, 4])
    assert others.min() > 4.0 * scales[[1, 4]].max()
    noise = model.likelihood.noise_variance * model.numbers.scale**2
    assert_allclose(noise, 0.01, rtol=0.35)


def without_noise(rare=False):
    X = np.random.default_rng(0).normal(size=(250, 4))
    latent = X[:, 0] + 0.5 * X[:, 1]
    return X, (latent > 1.5 * rare).astype(int)


@pytest.mark.parametrize(
    ("strategy", "rare"),
    [("hybrid", True), *(pytest.param(each, False, marks=pytest.mark.slow) for each in STRATEGIES)],
)
def test_labels_without_noise_end_at_a_bound(strategy, rare):
    X, y = without_noise(rare)
    settings = {**NOISELESS, "major_steps": 7, "minor_steps": 8}
    model = sparsegp.train(X, y, **settings, strategy=strategy)
    steps = model.report["learning"]
    assert len(steps) == 7
    assert "constant.value" in steps[-1]["bounded"]  # any larger variance tells them as well
    moved = [np.abs(np.subtract(step["start"], steps[0]["start"])).max() for step in steps]
    assert max(moved) <= FARTHEST * (1 + 1e-12)
    assert_allclose(parameters(model)[0] - np.log(10.0), FARTHEST, rtol=1e-12)
    assert (model.predict(X) != y).mean() < 0.02


@pytest.mark.parametrize("kernel", ["1*rbf", "1*ard", "1*linear"])
def test_numbers_without_noise_end_at_a_bound(kernel):
    X, _ = without_noise()
    numbers = X[:, 0] + 0.5 * X[:, 1]
    settings = {**REGRESSION, "kernel": kernel, "n_active": 40, "major_steps": 5}
    model = sparsegp.train(X, numbers, **settings, precision="float64")
    assert "gaussian.log_noise_variance" in model.report["learning"][-1]["bounded"]
    assert_allclose(model.likelihood.noise_variance, 0.1 * np.exp(-FARTHEST), rtol=1e-12)
    assert_allclose(model.predict(X), numbers, atol=0.05)


@pytest.mark.slow
def test_bounds_are_those_of_the_first_start_after_a_resume(tmp_path):
    X, y = without_noise()
    settings = {**NOISELESS, "minor_steps": 6, "strategy": "exact"}
    expected = sparsegp.train(X, y, **settings)
    assert expected.report["learning"][-1]["bounded"]
    with pytest.raises(Interrupted):
        sparsegp.train(X, y, **settings, out=tmp_path, progress=Stopper(8))
    model = sparsegp.train(X, y, **settings, out=tmp_path, resume=True)
    assert model.report["learning"] == expected.report["learning"]
    assert_same(model, expected, X)


def test_no_row_to_begin_with_is_said():
    with pytest.raises(NumericalError, match=r"sites of precision above 1e\+06"):
        sparsegp.train(*labelled(BINARY), **{**BINARY, "epsilon": 1e6})
