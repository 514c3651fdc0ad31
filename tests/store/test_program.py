"""The program with a run in a store that is a process of its own, and is killed in between."""

import json
import time
from functools import partial

import pytest

from sparsegp.store import MODEL, MODEL_FILE, RunDirectory, folder_of, read_file
from tests.processes import KERNEL, environment, start_python

pytestmark = pytest.mark.slow

TRAIN = ("train", "digits", *KERNEL, "--n-active", 200, "--checkpoint-every", 10, "--out")


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def reached(run):
    found = RunDirectory(run, 2, pytest.fail).load()
    return 0 if found is None else found[0]


def test_a_driver_that_is_killed_and_two_that_go_on(s3, s3_keys, tmp_path):
    """Fresh processes have nothing but the store; of two at the same time one goes on."""
    how = {"env": environment() | s3_keys, "cwd": tmp_path}
    program, run, newest = partial(start_python, "-m", "sparsegp", **how), f"{s3}/run", 0
    for _ in range(2):
        process = program(*TRAIN, run, "--resume")
        while process.poll() is None and reached(run) == newest:
            time.sleep(0.1)
        process.kill()
        process.communicate()
        assert reached(run) >= newest
        newest = reached(run)
    both = [program(*TRAIN, run, "--resume", "--quiet") for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, errors  # both, if one began when the other was done
    for code, text in zip(codes, errors, strict=True):
        assert code == 0 or (code == 2 and "another process goes on with the run" in text), text
    finished(program(*TRAIN, "local", "--quiet"))
    local, stored = (
        read_file(folder_of(place), MODEL_FILE, MODEL).arrays for place in (tmp_path / "local", run)
    )
    for name in local.keys() - {"history"}:
        assert local[name].tobytes() == stored[name].tobytes(), name
    assert json.loads(finished(program("inspect", run, "--json")))["state"] == "finished"
