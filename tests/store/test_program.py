"""The program with a run in a store that is a process of its own, and is killed in between."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sparsegp.store import MODEL, MODEL_FILE, RunDirectory, folder_of, read_file

pytestmark = pytest.mark.slow


@pytest.fixture
def program(s3_keys, environment, tmp_path):
    """Start the program in a process of its own, in an empty folder."""

    def start(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "sparsegp", *map(str, arguments)],
            env=environment | s3_keys,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def killed_after(process, happened, seconds=0.0):
    while process.poll() is None and not happened():
        time.sleep(0.1)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def reached(directory):
    found = directory.load()
    return 0 if found is None else found[0]


def test_a_driver_killed_at_any_instant(s3, program, tmp_path):
    """Each time a fresh process goes on with nothing but the store."""
    train = ("train", "digits", "--n-active", 300, "--checkpoint-every", 20)
    finished(program(*train, "--out", "here", "--quiet"))
    run, rng, killed = f"{s3}/run", np.random.default_rng(3), 0
    newest, directory = 0, RunDirectory(run, 2, pytest.fail)
    for _ in range(4):
        process = program(*train, "--out", run, "--resume")
        killed += killed_after(process, lambda: reached(directory) > newest, rng.uniform(0, 1.0))  # noqa: B023
        assert reached(directory) >= newest
        newest = reached(directory)
    assert killed >= 2
    finished(program(*train, "--out", run, "--resume", "--quiet"))
    here, there = (
        read_file(folder_of(place), MODEL_FILE, MODEL).arrays for place in (tmp_path / "here", run)
    )
    for name in here.keys() - {"history"}:
        assert here[name].tobytes() == there[name].tobytes(), name
    for place, out in (("here", "a.csv"), (run, "b.csv")):
        finished(program("predict", place, "digits", "--out", out))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert json.loads(finished(program("inspect", run, "--json")))["state"] == "finished"


def test_a_tuning(s3, program):
    tune, run = ("tune", "toy", "--max-trials", 8, "--n-active", 50, "--json"), f"{s3}/tuned"
    expected = json.loads(finished(program(*tune, "--out", "here")))
    trials = folder_of(run).below("tuning")
    killed_after(program(*tune, "--out", run), lambda: len(trials.sizes()) > 3)
    found = json.loads(finished(program(*tune, "--out", run, "--resume")))
    assert found["kernel"] == expected["kernel"]
    assert [each["nlpp"] for each in found["trials"]] == [
        each["nlpp"] for each in expected["trials"]
    ]


def test_two_drivers_at_the_same_time(s3, program):
    """One of them goes on; what the other has written is the same run."""
    train, run = ("train", "digits", "--n-active", 200, "--checkpoint-every", 10), f"{s3}/run"
    directory = RunDirectory(run, 2, pytest.fail)
    killed_after(program(*train, "--out", run), lambda: directory.load() is not None)
    both = [program(*train, "--out", run, "--resume", "--quiet") for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, errors
    for code, text in zip(
        codes, errors, strict=True
    ):  # both 0 if one began when the other was done
        assert code == 0 or (code == 2 and "another process goes on with the run" in text), text
    finished(program("evaluate", run, "digits"))
