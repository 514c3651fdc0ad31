"""`sparsegp tune`, `train --tune`, and what `inspect` shows of them."""

import json
import os
import re
import shlex
import shutil

import pytest

import sparsegp
from sparsegp.cli.train import limits_of_search
from sparsegp.cli.tune import SHOWN, kept_by_guard, trials_table
from sparsegp.fit.tune import MAX_TRIALS
from sparsegp.kernels import brief
from sparsegp.report import TerminalProgress
from sparsegp.store import read_records
from tests.processes import invoke, told
from tests.runs import Stopper

SMALL = ("--max-trials", 8, "--n-active", 40)
LEAST = ("--max-trials", 2, "--n-active", 10)


@pytest.fixture(scope="module")
def tuned(files, tmp_path_factory):
    """A finished tuning on `pair.npz`, its record, and what was shown meanwhile."""
    run = tmp_path_factory.mktemp("tuned") / "run"
    result = invoke("tune", files / "pair.npz", "--out", run, *SMALL, "--json")
    return run, json.loads(result.stdout), result.stderr


def test_json_of_tune(tuned, files, tmp_path):
    """The command that it names trains with the kernel."""
    run, record, shown = tuned
    assert (record["rows"], record["columns"], record["run"]) == (300, 4, str(run))
    assert record["ended"] == "all rungs"
    assert [trial["rung"] for trial in record["trials"]] == [1] * 8 + [2] * 4
    chosen = min(record["trials"], key=lambda trial: trial["nlpp"])
    assert (record["kernel"], record["nlpp"]) == (chosen["kernel"], chosen["nlpp"])
    assert set(record["seconds"]) == {"read", "prepare", "tune"}
    assert "tune 8/8 trials of 200 rows" in shown
    words = shlex.split(record["train"])
    assert words[:3] == ["sparsegp", "train", str(files / "pair.npz")]
    found = told(*words[1:], "--out", tmp_path / "run")["settings"]
    assert [found[name] for name in ("kernel", "scaling")] == [record["kernel"], record["scaling"]]
    assert found["n_active"] == 40


def test_settings_come_along(files, tmp_path):
    options = ("--no-lazy", "--seed", 3, "--tolerance", 0.001, "--label-column", -1)
    arguments = ("--out", tmp_path / "run", "--max-seconds", 1e-9, *options, "--quiet")
    record = told("tune", files / "rows.csv", *arguments)
    assert record["ended"] == "max_seconds"
    words = shlex.split(record["train"])
    assert words[3:5] == ["--label-column", "-1"]
    assert {"--no-lazy", "--seed", "--tolerance", "--kernel", "--scaling"} == {
        word for word in words[5:] if word.startswith("--")
    }
    assert words[words.index("--tolerance") + 1] == "0.001"


@pytest.mark.slow
def test_what_follows_for_a_regression(files, tmp_path):
    data, run = files / "numbers.npz", tmp_path / "run"
    options = ("--task", "regression", "--n-active", 40, "--quiet")
    found = told("tune", data, *options, "--max-trials", 2, "--out", run)
    words = shlex.split(found["train"])[2:]
    record = told("train", *words, "--out", run, "--quiet")
    searched = told("train", data, "--out", f"{run}2", "--tune", *options, "--max-trials", 2)
    kernel = {"kernel": found["kernel"], "scaling": found["scaling"]}
    assert record["settings"] == {**searched["settings"], **kernel}
    assert record["settings"]["posterior"] == "all"


def test_table(tuned, files, tmp_path, monkeypatch):
    """In the usual folder, where the search is finished."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tuned[0], "sparsegp-tune-pair")
    result = invoke("tune", files / "pair.npz", *SMALL, "--quiet", "--resume")
    assert [path.name for path in tmp_path.iterdir()] == ["sparsegp-tune-pair"]
    names, *lines = result.stdout.splitlines()
    assert names.split() == [name for name in SHOWN if name not in {"on", "active"}]  # few stages
    assert [line[4:].split()[:3] for line in lines[:2]] == [["1", "200", "40"]] * 2
    shown = dict(line.split(maxsplit=1) for line in lines if " " in line)
    kernel, scaling = shown["kernel"], shown["scaling"]
    starred = [line for line in lines if line.startswith("* ")]
    assert starred
    assert all(re.search(rf" {scaling} +{re.escape(kernel)}$", line) for line in starred)
    assert lines[-1].startswith("next          sparsegp train ")


def test_a_first_kernel_that_stays_behind_a_better_one_is_explained():
    first = {"number": 0, "kernel": "rbf(1)", "scaling": "auto", "nlpp": 0.5}
    failed = {**first, "number": 1, "nlpp": None}
    better = {"number": 2, "kernel": "rbf(2)", "scaling": "auto", "nlpp": 0.4}
    kept = {"kernel": "rbf(1)", "scaling": "auto", "n_active": 1000}
    assert "two standard errors" in str(kept_by_guard([better, failed, first], kept))
    assert kept_by_guard([first, failed], kept) is None
    assert kept_by_guard([first, {**better, **kept, "number": first["number"]}], kept) is None
    assert kept_by_guard([first, better], {**kept, "kernel": "rbf(2)"}) is None


def test_failed_trials_are_shown():
    trial = {"rung": 0, "number": 3, "nlpp": 0.5, "error": 0.25, "scaling": "auto"}
    trial |= {"kernel": "rbf(1.5)"}
    failed = {**trial, "number": 1, "nlpp": None, "error": None, "failure": "no room"}
    names, first, second = trials_table([failed, trial], None)
    assert names.split() == ["stage", "nlpp", "error", "scaling", "kernel", "failure"]
    assert first.split() == ["0", "0.5", "25.00", "%", "auto", "rbf(1.5)"]
    assert second.split() == ["0", "auto", "rbf(1.5)", "no", "room"]
    assert "1 - r2" in trials_table([trial], None, is_regression=True)[0]


def test_trials_of_one_stage_and_size_are_shown_together_with_what_they_predict():
    again = {"rung": 4, "rows": 50, "n_active": 20, "error": None, "scaling": "auto", "again": True}
    again |= {"number": 0, "kernel": "rbf(1)", "nlpp": 0.5, "first": 50}
    judged = {**again, "n_active": 40, "again": False, "error": 0.25, "nlpp": 0.3}
    last = {**again, "rows": 100, "n_active": 40, "first": 0, "nlpp": 0.4}
    worse, first = {**again, "nlpp": 0.6}, {**judged, "rung": 1, "first": 0}
    _, *lines = trials_table([last, worse, judged, again, first], None)
    assert [re.findall("0\\.[3-6]|both halves|other half", line) for line in lines] == [
        ["0.3"],
        ["0.5", "both halves"],
        ["0.6", "both halves"],
        ["0.3", "other half"],
        ["0.4", "both halves"],
    ]


def test_inspect_shows_every_trial(tuned):
    run, expected, _ = tuned
    record = told("inspect", run)
    assert record["state"] == "tuned, not trained"
    assert record["tuning"]["trials"] == expected["trials"]
    assert record["tuning"]["chosen"]["kernel"] == expected["kernel"]
    assert record["tuning"]["limits"] == {"max_trials": 8}
    assert set(record["sizes"]) == {"tuning"}
    shown = invoke("inspect", run).stdout
    assert f"run           {run}: tuned, not trained" in shown
    for trial in expected["trials"]:
        kernel = re.escape(brief(trial["kernel"]))
        assert re.search(rf"^[ *]*{trial['rung']} .* {kernel}$", shown, re.M)


def test_a_tuning_is_no_model_and_is_overwritten(tuned, files, tmp_path):
    run = shutil.copytree(tuned[0], tmp_path / "run")
    refused = invoke("evaluate", run, files / "pair.npz", code=2).stderr
    assert f"{run} holds a search for a kernel and no model; repeat its command" in refused
    assert "with --resume if it is unfinished, else train" in refused
    assert "kernel=" not in invoke("inspect", run).stdout  # where the search began
    arguments = ("tune", files / "pair.npz", "--out", run, *LEAST, "--seed", 1, "--quiet")
    refused = invoke(*arguments, code=2).stderr
    assert f"error: {run} holds a run with other settings" in refused
    assert "start again with --overwrite" in refused
    assert len(told(*arguments, "--overwrite")["trials"]) > 2
    assert read_records(run)["settings"]["seed"] == 1


def assert_chosen_by(tuned, run, record):
    """Check that a run was trained with what `tune` chose."""
    names = "kernel", "scaling", "metric", "n_active", "criterion", "nlpp", "ended"
    chosen = tuned[1]
    assert record["kernels"] == [chosen["kernel"]]
    assert sparsegp.load(run).settings["kernel"] == chosen["kernel"]
    kept = {name: chosen[name] for name in names}
    assert record["tuning"] == {**kept, "trials": len(chosen["trials"])}


def test_train_goes_on_from_a_tuning(tuned, files, tmp_path):
    run, trials = shutil.copytree(tuned[0], tmp_path / "run"), tuned[1]["trials"]
    command = ("train", files / "pair.npz", "--tune", *SMALL, "--quiet", "--out", run, "--resume")
    assert_chosen_by(tuned, run, told(*command))
    seen = told("inspect", run)
    assert seen["state"] == "finished"
    assert seen["tuning"]["trials"] == trials
    shown = invoke(*command)
    assert "is finished; nothing to do" in shown.stderr
    by = rf"by {len(trials)} trials"
    assert re.search(rf"^  chosen +{by}; nlpp at the choice \d\.\d{{4}} nats,", shown.stdout, re.M)
    (records,) = (run / "tuning").glob("checkpoint*")
    os.truncate(records, 99)
    seen = invoke("inspect", run)
    assert "warning: no checkpoint in " in seen.stderr
    assert "finished" in seen.stdout


@pytest.mark.parametrize(("kernel", "is_given"), [(None, False), ("auto", False), ("rbf", True)])
def test_a_kernel_is_given_only_if_it_is_named(kernel, is_given):
    """Then another must lead it; `train --tune` without one compares as `tune` does."""
    options = {"tuned": True, "kernel": kernel, "max_trials": None, "max_seconds": 5.0}
    expected = {"max_trials": MAX_TRIALS, "max_seconds": 5.0, "is_given": is_given}
    assert limits_of_search(options, kernel) == expected
    brief = limits_of_search({**options, "tuned": False}, "auto")
    assert brief == {**expected, "max_trials": None}


def test_stopped_and_resumed(tuned, files, tmp_path, monkeypatch):
    """The trials are those of `tune`."""
    run = tmp_path / "run"
    command = ("train", files / "pair.npz", "--out", run, "--tune", *SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(TerminalProgress, "update", Stopper(3).update)
        *_, last = invoke(*command, code=75).stderr.splitlines()
    assert re.match(r"stopped by SIGTERM in tune after \d of 8 trials of 200 rows; ", last)
    done = read_records(run)["trials"]
    assert 2 <= len(done) < len(tuned[1]["trials"])
    assert "being tuned; continue with the same command" in invoke("inspect", run).stdout
    assert_chosen_by(tuned, run, told(*command, "--quiet", "--resume"))
    after = read_records(run)["trials"]  # with the seconds that they took; any may end first
    assert [each for each in after if each in done] == done
