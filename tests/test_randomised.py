"""Runs under a bound on stub entries: whatever likelihood, wherever they run, stopped or not."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.settings import TrainSettings
from sparsegp.training import Training
from sparsegp.training.progress import Quiet
from tests.processes import worker_processes
from tests.runs import outcome, select_some

N, N_ACTIVE = 9000, 60
"""Three groups of 16 tiles, which blocks do not divide."""
BOUND: dict[str, Any] = {"n_active": N_ACTIVE, "stub_entries": 150_000, "shrink_every": 20}

KINDS: dict[str, dict[str, Any]] = {
    "predictive": {"posterior": "adf", "kernel": "10*rbf"},
    "active": {"posterior": "active", "kernel": "10*rbf", "panel": 8},
    "binary": {"likelihood": "probit", "calibration": "none"},
    "calibrated": {"likelihood": "logistic", "criterion": "entropy", "panel": 8},
    "ordered": {"likelihood": "ordered_probit", "panel": 4},
    "regression": {"task": "regression", "kernel": "rbf", "criterion": "random"},
    "per class": {
        "sites": "moments",
        "kernel_per_class": True,
        "stub_entries": 450_000,
        "panel": 8,
    },
    "pairs": {"active_per_class": True, "kernel": "10*rbf", "calibration": "none"},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def data_for(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of three noisy stripes, sorted by class; their numbers, or whether they are in one."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N + 500, 3))
    y: Any = np.digitize(X[:, 0] + 0.1 * rng.normal(size=len(X)), [-0.5, 0.5])
    if kind == "regression":
        y = 20.0 + 5.0 * np.sin(2.0 * X[:, 0]) + 0.5 * rng.normal(size=len(X))
    elif kind in {"binary", "calibrated"}:
        y = np.array(["other", "middle"])[(y == 1).astype(int)]
    order = np.argsort(y[:N], kind="stable")
    return X[:N][order], y[:N][order], X[N:], y[N:]


def settings_for(kind: str) -> dict[str, Any]:
    return {**BOUND, **KINDS[kind]}


@pytest.fixture(scope="module")
def workers() -> Iterator[Runtime]:
    with open_runtime(workers=2) as runtime:
        yield runtime


@kinds
def test_same_bits_for_any_blocks_and_workers(kind: str, workers: Runtime) -> None:
    X, y, X_test, y_test = data_for(kind)
    ways: list[dict[str, Any]] = [{"threads": 1}, {"threads": 2, "block_rows": 4096}]
    ways.append({"runtime": workers, "block_rows": 4096})
    models = [
        sparsegp.train(X, y, test=(X_test, y_test), **settings_for(kind), **way) for way in ways
    ]
    for model in models[1:]:
        assert_array_equal(model.rows, models[0].rows)
        assert_array_equal(outcome(model, X_test), outcome(models[0], X_test))
    assert len(set(models[0].rows)) == N_ACTIVE


@kinds
def test_candidates_keep_to_the_bound_and_it_learns(kind: str) -> None:
    X, y, X_test, y_test = data_for(kind)
    settings = TrainSettings.given(**settings_for(kind))
    with (
        open_runtime(threads=2) as runtime,
        Training(table_from_arrays(X, y), settings, runtime=runtime, block_rows=4096) as run,
    ):
        run.build()
        processes = 1 if kind == "pairs" else len(run.block_settings.kernels)
        selection, sizes = run.selection(), []
        while len(run.active) < N_ACTIVE:
            assert selection.round(N_ACTIVE)
            count = sum(runtime.map_blocks("count", len(run.active)))
            assert count * len(run.active) * processes <= (settings.stub_entries or 0)
            sizes.append(count)
        held = np.isfinite(run.means().compute()).all(axis=1)
        assert held.sum() == 150_000 // N_ACTIVE
        # a row that is active for one class may be a candidate for another
        assert sizes[-1] == held.sum() if kind == "pairs" else sizes[-1] == held.sum() - 20
        model = run.finish()
    found = model.predict(X_test)
    if kind == "regression":
        assert np.mean((found - y_test) ** 2) < 0.3 * y_test.var()
    else:  # than the most frequent class
        most = np.unique(y_test, return_counts=True)[1].max() / len(y_test)
        assert np.mean(found != y_test) < 0.75 * (1.0 - most)


@kinds
def test_resumed_equals_uninterrupted(kind: str, tmp_path: Path, stop_after: Any) -> None:
    X, y, X_test, _ = data_for(kind)
    settings = {"report_every": 10, **settings_for(kind)}
    expected = sparsegp.train(X, y, **settings)
    for cut in (2, 3):
        with pytest.raises(Interrupted, match="go on by --resume"):
            select_some(X, y, settings, tmp_path, stop_after(cut))
    model = sparsegp.train(X, y, out=tmp_path, resume=True, threads=2, **settings)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(outcome(model, X_test), outcome(expected, X_test))
    assert model.settings["stub_entries"] == settings["stub_entries"]


class Killer(Quiet):
    """Kills a worker process once so many rows are included."""

    def __init__(self, moments: list[int]) -> None:
        self.moments = moments

    def update(self, done: int, **figures: float) -> None:
        if self.moments and done >= self.moments[0]:
            del self.moments[0]
            os.kill(worker_processes(os.getpid())[0].pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["predictive", "ordered"])
def test_workers_that_are_killed_change_no_bit(kind: str) -> None:
    """One before candidates have left, one when they have left twice."""
    X, y, X_test, _ = data_for(kind)
    settings = {"report_every": 10, **settings_for(kind)}
    expected = sparsegp.train(X, y, **settings)
    killer = Killer([10, 45])
    model = sparsegp.train(X, y, workers=2, block_rows=4096, progress=killer, **settings)
    assert killer.moments == []
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(outcome(model, X_test), outcome(expected, X_test))


@pytest.mark.parametrize("entries", [N * N_ACTIVE, 10**12])
def test_a_bound_that_is_not_felt_changes_nothing(entries: int) -> None:
    X, y, X_test, _ = data_for("predictive")
    settings = {**KINDS["predictive"], "n_active": N_ACTIVE}
    free = sparsegp.train(X, y, **settings)
    bounded = sparsegp.train(X, y, stub_entries=entries, **settings)
    assert_array_equal(bounded.rows, free.rows)
    assert_array_equal(outcome(bounded, X_test), outcome(free, X_test))
    assert "train_error" in bounded.history[-1]


def test_the_curve_leaves_out_what_is_not_known() -> None:
    """Of training rows nothing is told any more when some of them have left."""
    X, y, X_test, y_test = data_for("predictive")
    settings = {**settings_for("predictive"), "report_every": 20}
    model = sparsegp.train(X, y, test=(X_test, y_test), **settings)
    free = sparsegp.train(X, y, test=(X_test, y_test), **{**settings, "stub_entries": None})
    assert ["train_error" in record for record in model.history] == [False] * 3
    assert all({"heldout_error", "heldout_nlpp"} <= set(record) for record in model.history)
    whole = sparsegp.train(X, y, **{**settings, "stub_entries": 400_000})
    assert ["train_error" in record for record in whole.history] == [True, False, False]
    assert whole.history[0]["train_error"] == pytest.approx(free.history[0]["train_error"])


def test_learning_by_the_evidence_under_a_bound() -> None:
    """Every step begins with all rows; the criterion runs over the candidates that are left."""
    X, y, X_test, _ = data_for("binary")
    settings = {**settings_for("binary"), "learn": "evidence", "major_steps": 2, "minor_steps": 1}
    expected = sparsegp.train(X, y, threads=1, **settings)
    model = sparsegp.train(X, y, threads=2, block_rows=4096, **settings)
    assert_array_equal(model.rows, expected.rows)
    assert_array_equal(outcome(model, X_test), outcome(expected, X_test))
    steps = model.span.report["learning"]
    assert len(steps) == 2
    for step in steps:
        assert step["criterion"][-1] < step["criterion"][0]


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"stub_entries": 10**6}, "posterior=all needs those of all rows; give --posterior adf"),
        (
            {"stub_entries": 10**6, "criterion": "residual", "posterior": "adf", "panel": 4},
            "criterion=residual needs those of all rows; give --criterion predictive",
        ),
        ({"stub_entries": 0}, "stub_entries must be at least 1, got 0"),
        ({"shrink_every": 0}, "shrink_every must be at least 1, got 0"),
        ({"keep_best": 1.5}, r"keep_best must be in \[0, 1\], got 1.5"),
        ({"keep_best": float("nan")}, r"keep_best must be in \[0, 1\], got nan"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(SettingsError, match=pattern):
        TrainSettings.given(**options)


def test_too_small_a_bound_is_refused_before_anything_is_selected() -> None:
    X, y, _, _ = data_for("predictive")
    settings = {**settings_for("predictive"), "stub_entries": 1599}
    with pytest.raises(SettingsError, match=r"at least 1600, .* all 60 inclusions, got 1599"):
        sparsegp.train(X, y, **settings)
