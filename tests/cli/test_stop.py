"""Runs that are stopped or killed, and go on as if they had not been."""

import os
import re
import shlex
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sparsegp
from tests.processes import KERNEL, PATIENCE, checkpoints, invoke, told, wait_until
from tests.runs import assert_same

N_ACTIVE = 90
TRAIN = ("--n-active", N_ACTIVE, "--checkpoint-every", 5, "--no-lazy", "--lookahead", 1, *KERNEL)


@pytest.fixture(scope="module")
def uninterrupted(clusters, tmp_path_factory):
    """The model of a run that was never stopped."""
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    invoke("train", clusters, "--out", run, *TRAIN, "--quiet")
    return sparsegp.load(run)


@pytest.fixture(autouse=True)
def no_nohup():
    """SIGHUP is not ignored, even if it is where the tests run."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@contextmanager
def paused(start, clusters, folder, *options, **how):
    """Yield a process that was stopped in its selection, and its run.

    Another is started where it was nearly over before it could be stopped.
    """
    for attempt in range(20):
        run = folder / f"run-{attempt}"
        with start("train", clusters, "--out", run, *TRAIN, *options, cwd=folder, **how) as process:
            try:
                assert wait_until(lambda: checkpoints(run) or process.poll() is not None)  # noqa: B023
                process.send_signal(signal.SIGSTOP)
                if process.poll() is None and checkpoints(run)[-1] < N_ACTIVE / 2:
                    yield process, run
                    return
            finally:
                process.kill()
    pytest.fail("no run could be stopped in its selection")


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGTERM, ()),
        pytest.param(signal.SIGHUP, (), marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, ("--quiet", "--workers", 2), marks=pytest.mark.slow),
    ],
)
def test_stopped_and_resumed(number, options, start, clusters, uninterrupted, tmp_path):
    """Signals reach the workers too; the run goes on in threads, but not in two processes."""
    with paused(start, clusters, tmp_path, *options, start_new_session=True) as (process, run):
        again = ("train", clusters, "--out", run, *TRAIN, "--quiet", "--resume")
        holder = f"process {process.pid} on "
        assert f": under way in {holder}" in invoke("inspect", run).stdout.splitlines()[0]
        assert f"is held by {holder}" in invoke(*again, code=2).stderr
        os.killpg(process.pid, number)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    assert out == ""
    *others, last = err.splitlines()
    assert not (others and options)
    assert last.startswith(f"stopped by {number.name} in select after ")
    words = ["sparsegp", "train", clusters, "--out", run, *TRAIN, *options, "--resume"]
    assert last.endswith(f" of {N_ACTIVE} rows; continue with: {shlex.join(map(str, words))}")
    assert ": unfinished; continue with " in invoke("inspect", run).stdout
    record = told("inspect", run)
    assert record["state"] == "unfinished"
    assert 5 <= record["n_active"] < N_ACTIVE
    assert f"after {record['n_active']} of " in last
    assert record["progress"]["done"] == record["n_active"]
    assert record["active_rows"] == uninterrupted.rows[: record["n_active"]].tolist()
    invoke(*again)
    assert_same(sparsegp.load(run), uninterrupted, np.load(clusters)["X_test"])


def catches(pid, number):
    """Whether a process has a handler for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigCgt")).split()[1]
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("command", "number", "later"),
    [
        ("train", signal.SIGTERM, 0.0),
        ("train", signal.SIGINT, 0.1),
        ("train", signal.SIGINT, 0.2),
        ("train", signal.SIGTERM, 0.3),
        ("predict", signal.SIGINT, 0.0),
    ],
)
def test_stopped_at_the_beginning(command, number, later, start, clusters, tmp_path):
    """While modules are imported or the data are looked through; --resume begins anew."""
    words, code, advice = ("run", clusters), 130, "run it again"
    if command == "train":
        words, code, advice = (clusters, *TRAIN), 75, "continue with: sparsegp train .* --resume"
    with start(command, *words, "--out", "out.csv", cwd=tmp_path) as process:
        assert wait_until(lambda: all(catches(process.pid, each) for each in (15, 2)))
        time.sleep(later)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert re.search(advice, err.splitlines()[-1])


@pytest.mark.slow
def test_interrupted_twice(start, clusters, tmp_path):
    """The second Ctrl-C does not wait; what was kept before is kept."""
    with paused(start, clusters, tmp_path, "--quiet") as (process, run):
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    # killed by the signal itself if it comes when the program is ending already
    assert process.returncode in {75, 130, -signal.SIGINT}, err
    assert "Traceback" not in err
    assert "n_active" in invoke("inspect", run, "--json").stdout
