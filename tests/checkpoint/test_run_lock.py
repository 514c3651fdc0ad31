import os
import subprocess
import sys

import pytest

from sparsegp.checkpoint import RunLock
from sparsegp.errors import StoreError

HOLD = """
import sys
from pathlib import Path
from sparsegp.checkpoint import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path, environment):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run/lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_kept_out_until_the_lock_is_released(holder, tmp_path):
    lock = RunLock(tmp_path / "run/lock")
    with pytest.raises(StoreError, match=rf"run/lock is held by process {holder.pid} on"):
        lock.acquire()
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "released\n"
    with lock:
        assert f"process {os.getpid()} " in lock.path.read_text()


def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    with RunLock(tmp_path / "run/lock"):
        pass


def test_within_one_process(tmp_path):
    lock = RunLock(tmp_path / "lock")
    lock.release()
    with lock:
        for other in (lock, RunLock(tmp_path / "lock")):
            with pytest.raises(StoreError, match="is held by"):
                other.acquire()
    with RunLock(tmp_path / "lock"):
        pass


def test_a_place_without_room_for_a_lock(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file/lock"):
        RunLock(tmp_path / "file/lock").acquire()
