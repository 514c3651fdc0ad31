"""`sparsegp attach` to runs of other processes on the same disk or in the same store."""

import contextlib
import functools
import os
import signal
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from sparsegp.checkpoint import RunLock, place_of
from sparsegp.cli.stages import Stages
from sparsegp.errors import ClusterError
from sparsegp.execution.glimpse import look
from tests.processes import wait_until

N_ACTIVE = 300
LONG = ("--n-active", N_ACTIVE, "--posterior", "adf", "--panel", 1, "--no-lazy", "--n-nodes", 60)
"""Settings that make a run take a second or so."""


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, size=1500)
    X = rng.standard_normal((4, 5))[y] + rng.standard_normal((1500, 5))
    parts = {"X_train": X[:1200], "y_train": y[:1200], "X_test": X[1200:], "y_test": y[1200:]}
    np.savez(tmp_path / "data.npz", **parts)
    return tmp_path / "data.npz"


@contextlib.contextmanager
def selecting(start, data, run, *options):
    """Yield a run that selects rows, and is stopped by a signal until it gets another."""
    arguments = ("train", data, "--out", run, *LONG, *options)
    with start(*arguments, cwd=data.parent) as process:

        def begun():
            told = look(run, False)["progress"]
            selects = told and told["pid"] == process.pid and told["stage"] == "select"
            return selects or process.poll() is not None

        try:
            assert wait_until(begun, 60)
            assert process.poll() is None, process.communicate()
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["directory", "store"])
def run(request, data):
    """Where a run is to be."""
    if request.param == "directory":
        return data.parent / "run"
    return place_of(f"{request.getfixturevalue('s3')}/run")


@pytest.fixture
def start(start, run, request):
    """Start the program with the keys of the store that the run is in."""
    keys = None if isinstance(run, Path) else request.getfixturevalue("s3_keys")
    return functools.partial(start, keys=keys)


def test_detached_and_attached_to_the_end(start, invoke, data, run, last_json):
    with selecting(start, data, run, "--json") as process:
        with start("attach", run, cwd=data.parent, start_new_session=True) as attached:
            assert attached.stderr.readline() == f"select: {N_ACTIVE} rows\n"
            os.killpg(attached.pid, signal.SIGINT)
            out, err = attached.communicate(timeout=30)
        assert (attached.returncode, out) == (130, "")
        assert err == f"detached from {run}, which goes on\n"
        process.send_signal(signal.SIGCONT)
        result = invoke("attach", run, "--json")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert last_json(result.stdout) == last_json(out)
    assert f"select {N_ACTIVE}/{N_ACTIVE} rows in " in result.stderr
    again = invoke("attach", run)
    assert "held out" in again.stdout
    assert f"model           {run / 'model'}" in again.stdout


def test_stopped_and_killed_runs(start, invoke, data, run):
    with selecting(start, data, run) as process:
        threading.Timer(0.5, process.send_signal, [signal.SIGCONT]).start()
        result = invoke("attach", run, "--stop", code=75)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert result.stderr.splitlines()[-1] == err.splitlines()[-1]
    with selecting(start, data, run, "--resume") as process:
        process.kill()
        process.wait()
        result = invoke("attach", run, "--quiet", code=2)
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error: the run {run} does not go on: process {process.pid} on ")
    assert f" of {N_ACTIVE} rows in stage select; go on by the same command with --resume" in line
    assert result.stdout == ""
    result = invoke("attach", run, "--stop", code=2)
    assert result.stderr.startswith(f"error: no driver of {run} was found")


def test_a_run_that_is_tuned_first(invoke, data, last_json):
    run = data.parent / "run"
    options = ("--tune", "--max-trials", 2, "--n-active", 40, "--json", "--quiet")
    expected = last_json(invoke("train", data, "--out", run, *options).stdout)
    result = invoke("attach", run, "--json")
    assert last_json(result.stdout) == expected
    assert "tune 2/2 trials" in result.stderr


def test_a_tuning(invoke, data, last_json):
    options = ("--max-trials", 2, "--n-active", 40, "--json", "--quiet")
    expected = last_json(invoke("tune", data, "--out", data.parent / "tuned", *options).stdout)
    result = invoke("attach", data.parent / "tuned", "--json")
    assert last_json(result.stdout) == expected


def test_a_failed_run_is_told_as_it_failed(invoke, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    for error, code, said in (
        (ClusterError("no worker is left"), 2, "error: no worker is left"),
        (MemoryError(), 2, "error: memory is full (MemoryError); lower --n-active, or see"),
        (ZeroDivisionError("by zero"), 1, "error: ZeroDivisionError: by zero"),
    ):
        with (
            contextlib.suppress(type(error)),
            Stages(True, tmp_path) as stages,
            RunLock(tmp_path / "lock"),
        ):
            stages.start(10, "rows", "select")
            raise error
        result = invoke("attach", tmp_path, "--quiet", code=code)
        assert result.stderr.startswith(said)
        assert len(result.stderr.splitlines()) == 1


def test_where_no_run_goes_on(invoke, tmp_path):
    none, host = tmp_path / "none", socket.gethostname()
    result = invoke("attach", none, code=2)
    assert result.stderr == f"error: there is no run {none} on {host}\n"
    result = invoke("attach", tmp_path, code=2)
    assert result.stderr == f"error: no run goes on in {tmp_path} on {host}\n"
    none.write_text("a file")
    result = invoke("attach", none, code=2)
    assert result.stderr.startswith("error: there is no run")


def test_a_finished_run_of_python(invoke, tmp_path):
    (tmp_path / "model").mkdir()
    result = invoke("attach", tmp_path)
    assert result.stdout.splitlines()[-1] == f"next          sparsegp inspect {tmp_path}"
