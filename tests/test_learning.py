"""Learning by the evidence, as a whole: however it is run or cut short."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import open_runtime
from sparsegp.run_directory import RunDirectory
from sparsegp.settings import TrainSettings
from sparsegp.training import Training

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


def rows(numbers: bool = False, n: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """Two of six columns matter."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 6))
    latent = np.sin(2.0 * X[:, 1]) + 0.7 * X[:, 4]
    if numbers:
        return X, latent + 0.1 * rng.normal(size=n)
    return X, (latent + 0.3 * rng.normal(size=n) > 0.3).astype(int)


def learnt(model: sparsegp.Model) -> list[dict[str, Any]]:
    return list(model.span.report["learning"])


def test_every_major_step_goes_down_while_the_rows_stay() -> None:
    model = sparsegp.train(*rows(), **BINARY)
    steps = learnt(model)
    assert len(steps) == 3
    for step in steps:
        assert (np.diff(step["criterion"]) <= 1e-9 * abs(step["criterion"][0])).all()
        assert len(step["criterion"]) <= 5
    assert str(model.active.kernels[0]) == steps[-1]["kernel"]
    assert model.active.likelihood.to_json() == steps[-1]["likelihood"]
    assert steps[-1]["kernel"] != steps[0]["kernel"]


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


def test_same_bits_for_any_blocks_and_workers() -> None:
    X, y = rows()
    expected = sparsegp.train(X, y, threads=1, **BINARY)
    with open_runtime(workers=2) as runtime:
        for way in ({"threads": 2, "block_rows": 256}, {"runtime": runtime, "block_rows": 256}):
            model = sparsegp.train(X, y, **BINARY, **way)
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
        _cut_short(X, y, tmp_path, stop_after(cut))
    model = sparsegp.train(X, y, out=tmp_path, resume=True, **BINARY)
    assert learnt(model) == learnt(expected)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(model.predict_log_proba(X), expected.predict_log_proba(X))
    again = sparsegp.load(tmp_path)
    assert learnt(again) == learnt(expected)


def _cut_short(X: np.ndarray, y: np.ndarray, path: Path, stop: Any) -> None:
    with (
        open_runtime(threads=1) as runtime,
        Training(
            table_from_arrays(X, y),
            TrainSettings.given(**BINARY),
            runtime=runtime,
            directory=RunDirectory(path, 2, pytest.fail),
            resume=True,
        ) as run,
    ):
        run.build()
        try:
            run.learn(stop)
            run.select(stop)
        except Interrupted:
            return
        pytest.fail("the run came to its end")


REFUSED = {
    "sites": ({"learn": "evidence"}, "learn=evidence needs sites=moments"),
    "classes": (
        {"learn": "evidence", "active_per_class": True},
        "learn=evidence is for likelihoods of one latent value, got multinomial_probit",
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
