"""Learning by the evidence, as a whole: however it is run or cut short."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import open_runtime
from sparsegp.kernels import parse
from tests.runs import begun

BINARY: dict[str, Any] = {
    "likelihood": "probit",
    "n_active": 40,
    "learn": "evidence",
    "major_steps": 3,
    "minor_steps": 4,
    "hyperprior": "v: lognormal(-1, 1); bias: normal(0, 25)",
}
REGRESSION: dict[str, Any] = {
    "task": "regression",
    "n_active": 60,
    "kernel": "1*ard",
    "learn": "evidence",
    "major_steps": 6,
}
PAIRS: dict[str, Any] = {
    "active_per_class": True,
    "n_active": 45,
    "learn": "evidence",
    "major_steps": 2,
    "minor_steps": 3,
    "hyperprior": "v: lognormal(-1, 1); bias: normal(0, 25)",
}
SHARED: dict[str, Any] = {
    **PAIRS,
    "active_per_class": False,
    "sites": "moments",
    "kernel_per_class": True,
    "n_active": 25,
    "kernel": "3*rbf; 2*matern52; 1*ard",
}
MODELS = {"binary": BINARY, "a set a class": PAIRS, "one set": SHARED}

every_model = pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)


def rows(numbers: bool = False, n: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """Two of six columns matter."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 6))
    latent = np.sin(2.0 * X[:, 1]) + 0.7 * X[:, 4]
    if numbers:
        return X, latent + 0.1 * rng.normal(size=n)
    return X, (latent + 0.3 * rng.normal(size=n) > 0.3).astype(int)


def labelled(settings: dict[str, Any], n: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes, or of three."""
    if settings is BINARY:
        return rows(n=n)
    X, numbers = rows(numbers=True, n=n)
    return X, np.digitize(numbers, [-0.5, 0.7])


def learnt(model: sparsegp.Model) -> list[dict[str, Any]]:
    return list(model.span.report["learning"])


@every_model
def test_every_major_step_goes_down_while_the_rows_stay(settings: dict[str, Any]) -> None:
    model = sparsegp.train(*labelled(settings), **settings)
    steps = learnt(model)
    assert len(steps) == settings["major_steps"]
    for step in steps:
        assert (np.diff(step["criterion"]) <= 1e-9 * abs(step["criterion"][0])).all()
        assert len(step["criterion"]) <= 5
    assert steps[-1]["kernel"] != steps[0]["kernel"]


@every_model
@pytest.mark.parametrize("calibration", ["none", "learned"])
def test_the_last_parameters_are_taken_or_those_that_tell_rows_kept_aside_best(
    settings: dict[str, Any], calibration: str
) -> None:
    model = sparsegp.train(*labelled(settings), **{**settings, "calibration": calibration})
    steps = learnt(model)
    taken = np.concatenate([kernel.parameters() for kernel in model.active.kernels])
    if calibration == "none":
        kernels = [parse(text).parameters() for text in steps[-1]["kernel"].split("; ")]
        assert_allclose(taken, np.concatenate(kernels), rtol=1e-12)
        return
    told = [step["aside_nlpp"] for step in steps]
    assert model.span.report["aside_nlpp"] <= min(told)
    if model.span.report["aside_nlpp"] in told:
        best = steps[int(np.argmin(told))]["start"]
        assert_allclose(taken, best[: len(taken)], rtol=1e-12)


@pytest.mark.parametrize("strategy", ["constant", "hybrid", "exact", "whole"])
def test_learning_helps(strategy: str) -> None:
    X, y = rows()
    X_new, y_new = rows(n=1400)
    X_new, y_new = X_new[700:], y_new[700:]
    settings = {**BINARY, "strategy": strategy, "major_steps": 8, "calibration": "none"}
    settings["kernel"] = "0.3*rbf(0.7)"
    before = sparsegp.train(X, y, **{**settings, "learn": "none"})
    after = sparsegp.train(X, y, **settings)
    nlpp = [
        -model.predict_log_proba(X_new)[np.arange(700), y_new].mean() for model in (before, after)
    ]
    assert nlpp[1] < nlpp[0] - 0.03


def test_learning_helps_several_classes() -> None:
    X, y = labelled(PAIRS)
    X_new, y_new = (array[700:] for array in labelled(PAIRS, n=1400))
    settings = {**PAIRS, "n_active": 120, "major_steps": 4, "calibration": "none"}
    settings["kernel"] = "0.3*rbf(0.7)"
    before = sparsegp.train(X, y, **{**settings, "learn": "none"})
    after = sparsegp.train(X, y, **settings)
    nlpp = [
        -model.predict_log_proba(X_new)[np.arange(700), y_new].mean() for model in (before, after)
    ]
    assert nlpp[1] < nlpp[0] - 0.03
    biases = np.array(after.active.likelihood.parameters())
    assert abs(biases.sum()) < 1e-6 * np.abs(biases).max()  # their mean says nothing


def test_relevant_columns_are_found() -> None:
    X, y = rows(numbers=True)
    model = sparsegp.train(X, y, **REGRESSION)
    (kernel,) = model.active.kernels
    scales = np.exp(kernel.parameters()[1:])
    assert set(np.argsort(scales)[:2]) == {1, 4}
    others = np.delete(scales, [1, 4])
    assert others.min() > 4.0 * scales[[1, 4]].max()
    noise = model.active.likelihood.noise_variance * model.numbers.scale**2
    assert_allclose(noise, 0.01, rtol=0.35)


@every_model
def test_same_bits_for_any_blocks_and_workers(settings: dict[str, Any]) -> None:
    X, y = labelled(settings)
    expected = sparsegp.train(X, y, threads=1, **settings)
    with open_runtime(workers=2) as runtime:
        for way in ({"threads": 2, "block_rows": 256}, {"runtime": runtime, "block_rows": 256}):
            model = sparsegp.train(X, y, **settings, **way)
            assert learnt(model) == learnt(expected)
            assert_array_equal(model.rows, expected.rows)
            assert_array_equal(model.predict_log_proba(X), expected.predict_log_proba(X))


@pytest.mark.parametrize("cuts", [(1, 8), (12, 20), (25, 35)])
def test_resumed_equals_uninterrupted(
    cuts: tuple[int, ...], tmp_path: Path, stop_after: Any
) -> None:
    X, y = rows()
    expected = sparsegp.train(X, y, **BINARY)
    for cut in cuts:
        _cut_short(X, y, BINARY, tmp_path, stop_after(cut))
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **BINARY)
    assert learnt(model) == learnt(expected)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(model.predict_log_proba(X), expected.predict_log_proba(X))
    again = sparsegp.load(tmp_path)
    assert learnt(again) == learnt(expected)


@pytest.mark.parametrize(
    ("settings", "cuts"), [(PAIRS, (10, 80)), (SHARED, (4, 22))], ids=["a set a class", "one set"]
)
def test_several_processes_resumed_equal_uninterrupted(
    settings: dict[str, Any], cuts: tuple[int, int], tmp_path: Path, stop_after: Any
) -> None:
    X, y = labelled(settings)
    expected = sparsegp.train(X, y, **settings)
    kept = [_cut_short(X, y, settings, tmp_path, stop_after(cut)) for cut in cuts]
    assert kept == [0, 1]
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **settings)
    assert learnt(model) == learnt(expected)
    assert_array_equal(model.predict_log_proba(X), expected.predict_log_proba(X))


def _cut_short(
    X: np.ndarray, y: np.ndarray, settings: dict[str, Any], path: Path, stop: Any
) -> int:
    """Return how many major steps were made."""
    with begun(X, y, settings, path, threads=1) as run:
        try:
            run.learn(stop)
            run.select(stop)
        except Interrupted:
            return len(run.learnt.trace)
        pytest.fail("the run came to its end")


REFUSED = {
    "sites": ({"learn": "evidence"}, "learn=evidence needs sites=moments"),
    "classes": (
        {**PAIRS, "strategy": "whole"},
        "strategy=whole is for likelihoods of one latent value, got multinomial_probit",
    ),
    "name": ({**BINARY, "learn": "love"}, "learn must be none or evidence, got 'love'"),
    "steps": ({**BINARY, "major_steps": 0}, "major_steps must be at least 1, got 0"),
    "strategy": ({**BINARY, "strategy": "wild"}, "unknown inner strategy 'wild'"),
    "hyperprior": ({**BINARY, "hyperprior": "v = 3"}, "a hyperprior must be a quantity"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_learnt_is_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises(SettingsError, match=message):
        sparsegp.train(*rows(), **settings)
