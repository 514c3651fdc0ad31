"""A pipeline that is killed or stopped goes on cell by cell, and inside a cell."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparsegp.errors import Interrupted
from sparsegp.interrupt import StopRequest
from sparsegp.report import NullProgress
from sparsegp.reproduce import reproduce

LONG = (
    ("n_train = 120", "n_train = 4000"),
    ("n_active = 20\n", "n_active = 400\nlookahead = 1\n"),
    ("report_every = 5", "report_every = 200"),
    ("seeds = [0, 1]\ndata_seeds = [5, 6]", ""),
    ("n_active = [10, 20]", ""),
    ("n_active = 10\n", ""),
)


class Watch(NullProgress):
    """Remembers the first number of rows that it was told."""

    def __init__(self):
        super().__init__()
        self.first = None

    def update(self, done, **figures):
        if self.first is None:
            self.first = done


class Stopper(NullProgress):
    """Sends a signal to this process after some rows."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def update(self, done, **figures):
        if done >= self.after:
            self.after = 10**9
            os.kill(os.getpid(), signal.SIGTERM)


def results(out):
    found = {}
    for path in sorted((out / "cells").glob("*.json")):
        result = json.loads(path.read_text())["result"]
        for record in result["curve"]:
            del record["seconds"]
        found[path.stem] = result
    return found


def wait_for(condition, process):
    for _ in range(600):
        if condition():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError("nothing happened within 30 s")


def test_killed_run_goes_on_where_it_was(small, tmp_path):
    path, out = small(*LONG), tmp_path / "out"
    code = f"from sparsegp.reproduce import reproduce; reproduce({str(path)!r}, out={str(out)!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    with process:
        wait_for(lambda: list(out.glob("runs/informative-0.*/checkpoints/[!.]*")), process)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not list(out.glob("cells/informative-0.json"))
    watch = Watch()
    assert reproduce(path, out=out, progress=watch).run == ["informative-0", "random-0"]
    assert watch.first > 0
    assert not (out / "runs").exists()
    reproduce(path, out=tmp_path / "whole")
    assert results(out) == results(tmp_path / "whole")


def test_command_that_is_stopped_ends_with_75(small, tmp_path):
    path, out = small(*LONG), tmp_path / "out"
    command = [sys.executable, "-m", "sparsegp", "reproduce", str(path), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with process:
        wait_for(lambda: list(out.glob("runs/*")), process)
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate()
    assert process.returncode == 75
    last = "stopped by SIGTERM at informative-0; the same command goes on from here"
    assert shown.splitlines()[-1] == last


def test_stopped_between_cells(small, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(Interrupted, match="SIGTERM at informative-1; the same command goes on"):
        reproduce(small(), out=out, progress=Stopper(after=21))
    assert list(results(out)) == ["informative-0"]
    assert reproduce(small(), out=out).run == ["informative-1", "random-0", "random-1"]


def test_stopped_inside_a_cell(small, tmp_path):
    path, out = small(*LONG), tmp_path / "out"
    with pytest.raises(Interrupted, match="SIGTERM at informative-0; the same command goes on"):
        reproduce(path, out=out, progress=Stopper(after=5))
    assert not results(out)
    assert len(list(out.glob("runs/informative-0.*/checkpoints"))) == 1
    watch = Watch()
    reproduce(path, out=out, progress=watch)
    assert watch.first > 0


def test_run_of_former_settings_is_dropped(small, tmp_path):
    path, out = small(*LONG), tmp_path / "out"
    with pytest.raises(Interrupted):
        reproduce(path, out=out, progress=Stopper(after=5))
    assert list(out.glob("runs/informative-0.*"))
    assert reproduce(small(), out=out, cells="informative-0").run == ["informative-0"]
    assert not (out / "runs").exists()


def test_stop_requests_inside_one_another_share_the_request():
    with StopRequest() as outer:
        with StopRequest() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
            assert inner.requested == outer.requested == "SIGTERM"
        with StopRequest() as later:
            assert later.requested == "SIGTERM"


def test_other_threads_have_the_request_of_the_main_one():
    def looked():
        with StopRequest() as stop:
            return stop.requested

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(looked).result() == ""
        with StopRequest():
            assert executor.submit(looked).result() == ""
            os.kill(os.getpid(), signal.SIGTERM)
            assert executor.submit(looked).result() == "SIGTERM"
