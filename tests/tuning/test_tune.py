"""A tuning as a whole: the same choice however it is run or cut short."""

import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.errors import DataError, Interrupted, SettingsError, StoreError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.interrupt import StopRequest
from sparsegp.kernels import InputScale
from sparsegp.settings import TrainSettings
from sparsegp.training import Quiet, prepare
from sparsegp.tuning import Tuned, read_records, tune
from sparsegp.tuning.driver import Tuning, can_search
from sparsegp.tuning.sample import draw_sample
from tests.tuning.conftest import Arrays, waves

small = functools.partial(tune, max_trials=8, n_active=60, threads=1)
searching = functools.partial(small, max_trials=12)
"""With a search for a length scale for every column at the end."""
FIGURES = (
    "number", "kernel", "rung", "rows", "n_active", "nlpp", "error", "ece", "failure", "leads",
    "rival",
)  # fmt: skip


def told(tuned: Tuned) -> list[Any]:
    """All that must not depend on how a tuning was run: everything but seconds."""
    trials = [[trial[name] for name in FIGURES] for trial in tuned.trials]
    return [tuned.kernel, tuned.nlpp, tuned.ended, trials]


@pytest.fixture(scope="module")
def brief(data: Arrays) -> list[Any]:
    return told(small(*data))


@pytest.fixture(scope="module")
def expected(data: Arrays) -> list[Any]:
    return told(searching(*data))


@pytest.fixture(scope="module")
def workers() -> Iterator[Runtime]:
    with open_runtime(workers=2) as runtime:
        yield runtime


def test_same_choice_on_any_runtime(
    data: Arrays, expected: list[Any], workers: Runtime, tmp_path: Path
) -> None:
    assert len(expected[3]) == 12
    assert "ard(" in expected[3][-2][1]
    assert [trial[-1] for trial in expected[3]] == [""] * 11 + [expected[3][0][1]]
    assert told(searching(*data, threads=2)) == expected
    assert told(searching(*data, runtime=workers, out=tmp_path / "run")) == expected
    records = read_records(tmp_path / "run")
    assert records is not None
    assert [[trial[name] for name in FIGURES] for trial in records["trials"]] == expected[3]


def test_finds_what_a_bad_kernel_hides() -> None:
    """Stripes, and a kernel for linear boundaries that is as good as guessing."""
    X, y = waves(900, 3)
    bad = "1*rbf(50)"
    found = tune(X, y, kernel=bad, n_active=150, max_trials=16, threads=1)
    of_bad = [trial["nlpp"] for trial in found.trials if trial["number"] == 0]
    assert min(of_bad) > 0.9 * np.log(3)
    assert found.nlpp is not None
    assert found.nlpp < 0.4 * min(of_bad)
    X_new, y_new = waves(900, 4)
    errors = [
        np.mean(
            sparsegp.train(X, y, kernel=kernel, n_active=150, threads=1).predict(X_new) != y_new
        )
        for kernel in (found.kernel, bad)
    ]
    assert errors[0] < 0.15
    assert errors[1] > 0.4


def test_chosen_is_the_best_on_the_last_subsample_and_no_worse_than_the_given(
    expected: list[Any],
) -> None:
    kernel, nlpp, ended, trials = expected
    last = [dict(zip(FIGURES, trial, strict=True)) for trial in trials]
    size = (last[-1]["rows"], last[-1]["n_active"])
    comparable = [t for t in last if (t["rows"], t["n_active"]) == size and not t["rival"]]
    leading = [trial for trial in comparable if trial["leads"]]
    best = min(leading, key=lambda trial: (trial["nlpp"], trial["number"]))
    given = next(trial for trial in comparable if trial["number"] == 0)
    duel = last[-1]
    assert (duel["kernel"], duel["rival"]) == (best["kernel"], given["kernel"])
    chosen = best if duel["leads"] else given
    assert (chosen["kernel"], chosen["nlpp"], ended) == (kernel, nlpp, "all rungs")
    keys = [(t["kernel"], t["rows"], t["n_active"], t["rival"]) for t in last]
    assert len(set(keys)) == len(keys)  # nothing is tried twice


def test_what_leads_by_chance_is_not_chosen(data: Arrays) -> None:
    X, _ = data
    found = tune(
        X, np.random.default_rng(4).integers(0, 3, len(X)), n_active=60, max_trials=10, threads=1
    )
    given, duel = found.trials[0], found.trials[-1]
    assert duel["rival"] == given["kernel"] == found.kernel
    assert not duel["leads"]


@pytest.mark.parametrize("max_trials", [1, 3, 10])
def test_number_of_trials_is_bounded(max_trials: int, data: Arrays) -> None:
    found = small(*data, max_trials=max_trials)
    assert len(found.trials) == max_trials
    assert found.trials[0]["number"] == 0
    if max_trials == 1:
        assert found.kernel == found.trials[0]["kernel"]


@pytest.mark.parametrize(
    ("n", "p", "able"),
    [(2048, 256, True), (2047, 256, False), (9999, 257, False), (400, 2, True), (399, 2, False)],
)
def test_columns_that_can_have_their_own_length_scales(n: int, p: int, able: bool) -> None:
    assert can_search(n, p) == able


def test_time_that_runs_out_leaves_the_best_so_far(data: Arrays, tmp_path: Path) -> None:
    run = tmp_path / "run"
    found = small(*data, max_seconds=1e-9, out=run)
    assert (len(found.trials), found.ended, found.nlpp) == (0, "max_seconds", None)
    assert found.kernel.startswith("50.0*rbf(")  # the one that was given
    longer = small(*data, max_seconds=1e9, out=run, resume=True)
    assert (len(longer.trials), longer.ended) == (8, "all rungs")


def test_no_rung_counts_that_was_not_completed(data: Arrays, expected: list[Any]) -> None:
    """Time runs out after 5 trials, in the second rung."""
    first = [trial for trial in expected[3] if trial[2] == 0]
    settings = TrainSettings(n_active=60)
    with open_runtime(threads=1) as runtime:
        prepared = prepare(table_from_arrays(*data), None, "auto", runtime)
        looks = itertools.count()
        tuning = Tuning(
            draw_sample(prepared, settings, 16000),
            settings,
            InputScale(prepared.scaled_variances),
            n_active=60,
            max_trials=12,
            runtime=runtime,
            progress=Quiet(),
            out_of_time=lambda: next(looks) >= 5,
        )
        found = tuning.run()
    assert found.ended == "max_seconds"
    assert len(first) < len(found.trials) == 5
    best = min(first, key=lambda trial: (trial[5], trial[0]))
    assert (found.kernel, found.nlpp) == (best[1], best[5])


# -- stop, kill, resume ----------------------------------------------------------------------------


def test_stopped_and_resumed(
    data: Arrays, brief: list[Any], tmp_path: Path, stop_after: Callable[[int], StopRequest]
) -> None:
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsegp.tuning.api.StopRequest", lambda: stop_after(5))
        with pytest.raises(Interrupted, match="by SIGTERM after 4 trials; go on by --resume"):
            small(*data, out=run)
    before = {file: file.stat().st_mtime_ns for file in (run / "tuning").glob("[0-9]*.json")}
    assert len(before) == 4
    assert told(small(*data, out=run, resume=True, threads=2)) == brief
    assert {file: file.stat().st_mtime_ns for file in before} == before


SCRIPT = """
import sys
from sparsegp.tuning import tune
from tests.tuning.conftest import waves
tune(*waves(500, 0), max_trials=24, n_active=60, threads=2, out=sys.argv[1], resume=True)
"""


def test_killed_and_resumed(data: Arrays, environment: dict[str, str], tmp_path: Path) -> None:
    """Killed twice in the middle: the same choice, and no finished trial is made again."""
    run, seen = tmp_path / "run", 0
    for more in (2, 3):
        with subprocess.Popen([sys.executable, "-c", SCRIPT, str(run)], env=environment) as process:
            end = time.monotonic() + 60
            while len(list((run / "tuning").glob("[0-9]*.json"))) < seen + more:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.002)
            os.kill(process.pid, signal.SIGKILL)
        kept = {file: file.stat().st_mtime_ns for file in (run / "tuning").glob("[0-9]*.json")}
        seen = len(kept)
    assert seen < 24
    longer = functools.partial(small, *data, max_trials=24)
    assert told(longer(out=run, resume=True)) == told(longer())
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_a_damaged_record_is_made_again(data: Arrays, brief: list[Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    small(*data, out=run)
    (run / "tuning" / "chosen.json").unlink()
    (run / "tuning" / "0-0001.json").write_text("{")
    other = run / "tuning" / "0-0000.json"
    stored = json.loads(other.read_text())
    stored["trial"]["rows"] += 1
    other.write_text(json.dumps(stored))
    assert told(small(*data, out=run, resume=True)) == brief


def test_a_finished_tuning_is_not_made_again(
    data: Arrays, brief: list[Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    small(*data, out=run)
    for file in (run / "tuning").glob("[0-9]*.json"):
        file.unlink()
    found = small(*data, out=run, resume=True)
    assert (found.kernel, found.nlpp, found.trials) == (brief[0], brief[1], ())


def test_trained_after_tuning_in_one_directory(data: Arrays, tmp_path: Path) -> None:
    run = tmp_path / "run"
    kernel = small(*data, out=run, max_seconds=1e-9).kernel
    model = sparsegp.train(*data, kernel=kernel, n_active=60, threads=1, out=run)
    assert model.settings["kernel"] == kernel
    again = small(*data, out=run, resume=True)  # the choice stands, as a run has begun with it
    assert (again.kernel, again.ended) == (kernel, "max_seconds")


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"seed": 1}, r"other settings, data or limits: seed was 0 and is now 1"),
        ({"max_trials": 20}, r"max_trials was 8 and is now 20"),
        ({"kernel": "3*rbf", "tolerance": 1e-3}, r"kernel was '50\*rbf .*; tolerance was 0.0001"),
    ],
)
def test_other_settings_are_refused(
    change: dict[str, Any], pattern: str, data: Arrays, tmp_path: Path
) -> None:
    small(*data, out=tmp_path, max_seconds=1e-9)
    with pytest.raises(SettingsError, match=pattern):
        small(*data, out=tmp_path, resume=True, **change)


def test_other_data_are_refused(data: Arrays, tmp_path: Path) -> None:
    X, y = data
    small(X, y, out=tmp_path, max_seconds=1e-9)
    with pytest.raises(SettingsError, match=r"rows was 500 and is now 499"):
        small(X[1:], y[1:], out=tmp_path, resume=True)
    with pytest.raises(SettingsError, match=r"digest was '\w+' and is now"):
        small(X, np.roll(y, 1), out=tmp_path, resume=True)
    other = X.copy()
    other[400, 1] += 1e-6
    with pytest.raises(SettingsError, match=r"sample was '\w+' and is now"):
        small(other, y, out=tmp_path, resume=True)


def test_directories_of_others_are_refused(data: Arrays, tmp_path: Path) -> None:
    small(*data, out=tmp_path / "tuned", max_seconds=1e-9)
    with pytest.raises(StoreError, match=r"holds another tuning; choose another --out, or .*--res"):
        small(*data, out=tmp_path / "tuned")
    sparsegp.train(*data, n_active=20, threads=1, out=tmp_path / "run")
    with pytest.raises(StoreError, match=r"holds another run"):
        small(*data, out=tmp_path / "run")
    with pytest.raises(StoreError, match=r"holds a run that was not tuned"):
        small(*data, out=tmp_path / "run", resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file is not a directory"):
        small(*data, out=tmp_path / "file")
    manifest = tmp_path / "tuned" / "tuning" / "tuning.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(StoreError, match=r"must be of version 1, found 7"):
        small(*data, out=tmp_path / "tuned", resume=True)
    manifest.write_text("[]")
    with pytest.raises(StoreError, match=r"tuning.json cannot be read"):
        small(*data, out=tmp_path / "tuned", resume=True)


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ({"max_trials": 0}, "max_trials must be at least 1, got 0"),
        ({"max_seconds": 0.0}, r"max_seconds must be positive, got 0\.0"),
        ({"kernel_per_class": True}, "one kernel for all classes; leave --kernel-per-class out"),
        ({"likelihood": "probit"}, "got likelihood=probit with sites=moments; leave the tuning"),
        ({"task": "regression"}, "tuning is for classification by likelihood=multinomial_probit"),
        ({"posterior": "adf", "stub_entries": 999}, "trials of a tuning do not heed a bound on"),
        ({"method": "ep"}, "tuning is for method=ivm, got method=ep, which learns its kernel"),
        ({"resume": True}, "give out"),
        ({"n_active": 10**6}, "n_active=1000000 exceeds the 500 training rows"),
    ],
)
def test_senseless_wishes_are_refused(given: dict[str, Any], pattern: str, data: Arrays) -> None:
    with pytest.raises(SettingsError, match=pattern):
        small(*data, **given)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(DataError, match="at least 5 rows"):
        tune(np.eye(4), np.arange(4) % 2, threads=1)
