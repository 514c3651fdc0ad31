"""Writers that die, and disks that fail: what was saved last is there, and nothing is left over."""

import json
import signal

import pytest

from sparsegp.store import CHECKPOINT_FILE, RunDirectory
from tests.store.writer import INTERVAL, RUN, check, content, write


def newest(path):
    """Return the number of the newest checkpoint after a check of it, 0 where there is none."""
    found = RunDirectory(path, 2, pytest.fail).load()
    if found is not None:
        check(*found)
    return found[0] if found else 0


def assert_tidy(path, count):
    names = {item.name for item in path.iterdir()}
    checkpoints = {name for name in names if CHECKPOINT_FILE.fullmatch(name)}
    assert len(checkpoints) == count
    assert names - checkpoints == {"lock", "run.json"}
    assert json.loads((path / "run.json").read_text()) == RUN


def test_killed_before_every_change(tmp_path):
    """Each writer starts on what the one before it left: two saves and their pruning."""
    step = 0
    for number in range(100):
        code, saved, _ = write(tmp_path, 2, die_at=number)
        step, before = newest(tmp_path), max([step, *saved])
        assert before <= step <= before + INTERVAL
        if code == 0:
            assert number > 10
            return assert_tidy(tmp_path, 2)
        assert code == -signal.SIGKILL
    return pytest.fail("the writer never came to its end")


def test_a_disk_that_becomes_read_only_keeps_what_there_is(small_disk):
    """Full ones are in cli/test_disk.py."""
    warnings = []
    run = RunDirectory(small_disk.path / "run", 3, warnings.append)
    run.open(RUN, resume=True)
    assert run.save(40, *content(40))
    run.close()
    assert small_disk.make_read_only()
    assert not run.save(80, *content(80))
    assert "the run goes on: cannot write" in warnings[0]
    assert "Read-only file" in warnings[0]
    check(*run.load())
    run.write_progress({"stage": "select"})


def test_files_that_may_not_grow(tmp_path):
    assert write(tmp_path, 1)[:2] == (0, [40])
    code, saved, warnings = write(tmp_path, 1, largest=20_000)
    assert (code, saved) == (0, [])
    assert warnings[0].startswith("no checkpoint at 80, the run goes on: cannot write")
    assert newest(tmp_path) == 40
    assert_tidy(tmp_path, 1)
