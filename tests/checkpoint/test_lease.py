"""Leases in stores: who may have one, who is found dead, and who finds out that it has lost it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from uuid import uuid4

import numpy as np
import pytest

from sparsegp.checkpoint import Lease, LeaseLostError, place_of
from sparsegp.checkpoint import lease as module
from sparsegp.errors import StoreError
from sparsegp.run_directory import RunDirectory
from sparsegp.tuning.records import Records
from sparsegp.tuning.trial import Outcome, Trial

HOLD = """
import sys
from sparsegp.checkpoint import Lease, place_of
with Lease(place_of(sys.argv[1]), 1.0) as lease:
    print("held", flush=True)
    sys.stdin.readline()
    lease.check()
"""


@pytest.fixture(params=["memory", "s3"])
def path(request):
    if request.param == "memory":
        return place_of(f"memory://{uuid4().hex}/run/lease")
    return place_of(request.getfixturevalue("s3")) / "run" / "lease"


@pytest.fixture
def told():
    return []


def sign(path, number=1, **told):
    """Put a sign of life of somebody on another machine."""
    known = {"owner": "process 7 on far", "pid": 7, "home": "far", "token": "x"}
    content = json.dumps(known | {"time": time.time()} | told).encode()
    (path / f"{number:08d}").write_bytes(content)


def test_one_holder_at_a_time(path, told):
    lease = Lease(path, 1.0, on_wait=told.append)
    lease.release()
    lease.check()
    with lease:
        for other in (Lease(path, 10.0, on_wait=told.append), Lease(path)):
            with pytest.raises(StoreError, match=f"is held by process {os.getpid()} on .*; wait"):
                other.acquire()
        lease.check()
    assert f"{path} is held by process {os.getpid()} on" in told[0]
    assert list(path.find()) == []
    with lease:
        lease.check()


def test_a_silent_holder_is_waited_for_and_outlived(path, told):
    sign(path, 41)
    begun = time.monotonic()
    with Lease(path, 0.5, on_wait=told.append) as lease:
        assert time.monotonic() - begun >= 0.5
        assert list(path.find()) == ["00000042"]
        lease.check()
    assert "is held by process 7 on far; if there is no sign of life within 0.5 s" in told[0]


def test_a_holder_that_gives_it_back_is_not_waited_for(path, told):
    sign(path)

    def give_back(text):
        told.append(text)
        path.delete(["00000001"])

    begun = time.monotonic()
    with Lease(path, 60.0, on_wait=give_back):
        assert time.monotonic() - begun < 30
    assert len(told) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff", b'{"owner": ["\\n", 1], "pid": "x"}']
)
def test_signs_of_life_that_are_none(content, told):
    path = place_of(f"memory://{uuid4().hex}/lease")
    (path / "00000001").write_bytes(content)
    with Lease(path, 0.1, on_wait=told.append) as lease:
        lease.check()
    assert len(told) == 1
    assert told[0].isprintable()


def test_the_dead_are_not_waited_for(path, told):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    sign(path, pid=process.pid, home=module._home())
    with Lease(path, on_wait=told.append):
        pass
    sign(path, time=time.time() - 3600)
    with Lease(path, on_wait=told.append):
        pass
    assert told == []


def test_who_lost_it_finds_out_and_writes_no_more(path, told):
    place = place_of(str(path).removesuffix("/lease"))
    directory = RunDirectory(place, 2, told.append)
    directory.open({"settings": {}, "data": {}}, resume=False)
    assert directory.save(40, {"n": 1}, {"x": np.ones(2)})
    records = Records(place / "other")
    records.open({part: {} for part in ("settings", "data", "limits")}, resume=False)
    for lease in (path, place / "other" / "lease"):
        sign(lease, 2)
    with pytest.raises(LeaseLostError, match=r"no longer held by .*, but by process 7 on far"):
        directory.save(80, {"n": 2}, {"x": np.ones(2)})
    with pytest.raises(LeaseLostError, match="no longer held"):
        directory.check_held()
    with pytest.raises(LeaseLostError, match="no longer held"):
        records.add(Trial(0, "rbf", 0, 10, 5), Outcome("rbf", 0.1, 0.1, 0.1, 0.1, None))
    assert directory.generations.steps() == [40]
    directory.close()
    records.close()
    assert list(path.find()) == ["00000001", "00000002"]
    assert told == []


def test_of_many_at_once_one_gets_it(path):
    """As the server decides: objects are created where there are none."""
    sign(path, 3, time=0.0)
    start, got = threading.Barrier(6), []

    def take():
        lease = Lease(path, 1.0)
        start.wait()
        try:
            lease.acquire()
        except StoreError:
            return
        got.append(lease)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    holding = []
    for lease in got:
        try:
            lease.check()
        except LeaseLostError:
            continue
        holding.append(lease)
    assert len(holding) == 1
    for lease in got:
        lease.release()


@pytest.mark.slow
def test_processes(s3, s3_keys, environment):
    """A holder that is killed, and one that is stopped and goes on when another has the lease."""
    path = place_of(s3) / "lease"
    command = [sys.executable, "-c", HOLD, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for how in (signal.SIGKILL, signal.SIGSTOP):
        with subprocess.Popen(command, text=True, env=environment | s3_keys, **pipes) as process:
            assert process.stdout.readline() == "held\n"
            with pytest.raises(StoreError, match=f"is held by process {process.pid} on"):
                Lease(path, 5.0).acquire()
            process.send_signal(how)
            if how == signal.SIGKILL:
                process.wait()
            with Lease(path, 1.0) as lease:
                process.send_signal(signal.SIGCONT)
                if how == signal.SIGSTOP:
                    _, said = process.communicate("\n", timeout=60)
                    assert "LeaseLostError" in said
                    assert process.returncode == 1
                lease.check()
