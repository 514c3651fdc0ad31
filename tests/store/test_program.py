"""The program with a run in a store that is a process of its own, and is killed in between."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from sparsegp.store import MODEL, MODEL_FILE, RunDirectory, folder_of, read_file

pytestmark = pytest.mark.slow

TRAIN = ("train", "digits", "--n-active", 200, "--checkpoint-every", 10)


@pytest.fixture
def program(s3_keys, environment, tmp_path):
    """Start the program in a process of its own, in an empty folder."""

    def start(*arguments):
        command = [sys.executable, "-m", "sparsegp", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=environment | s3_keys, cwd=tmp_path, **pipes)

    return start


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def killed_after(process, happened, seconds=0.0):
    while process.poll() is None and not happened():
        time.sleep(0.1)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    return process.returncode < 0


def reached(run):
    found = RunDirectory(run, 2, pytest.fail).load()
    return 0 if found is None else found[0]


def test_a_driver_killed_at_any_instant(s3, program, tmp_path):
    """Each time a fresh process goes on with nothing but the store."""
    finished(program(*TRAIN, "--out", "local", "--quiet"))
    run, rng, killed, newest = f"{s3}/run", np.random.default_rng(3), 0, 0
    for _ in range(3):
        process = program(*TRAIN, "--out", run, "--resume")
        killed += killed_after(process, lambda: reached(run) > newest, rng.uniform(0, 1.0))  # noqa: B023
        assert reached(run) >= newest
        newest = reached(run)
    assert killed >= 2
    finished(program(*TRAIN, "--out", run, "--resume", "--quiet"))
    local, stored = (
        read_file(folder_of(place), MODEL_FILE, MODEL).arrays for place in (tmp_path / "local", run)
    )
    for name in local.keys() - {"history"}:
        assert local[name].tobytes() == stored[name].tobytes(), name
    assert json.loads(finished(program("inspect", run, "--json")))["state"] == "finished"


def test_a_tuning(s3, program):
    tune, run = ("tune", "toy", "--max-trials", 8, "--n-active", 50, "--json"), f"{s3}/tuned"
    expected = json.loads(finished(program(*tune, "--out", "local")))
    trials = folder_of(f"{run}/tuning")
    killed_after(program(*tune, "--out", run), lambda: len(trials.sizes()) > 1)
    found = json.loads(finished(program(*tune, "--out", run, "--resume")))
    assert found["kernel"] == expected["kernel"]
    assert [each["nlpp"] for each in found["trials"]] == [
        each["nlpp"] for each in expected["trials"]
    ]


def test_two_drivers_at_the_same_time(s3, program):
    """One of them goes on; what the other has written is the same run."""
    run = f"{s3}/run"
    killed_after(program(*TRAIN, "--out", run), lambda: reached(run) > 0)
    both = [program(*TRAIN, "--out", run, "--resume", "--quiet") for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, errors  # both, if one began when the other was done
    for code, text in zip(codes, errors, strict=True):
        assert code == 0 or (code == 2 and "another process goes on with the run" in text), text
    finished(program("evaluate", run, "digits"))
