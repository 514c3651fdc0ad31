"""Writers that die: at random instants, and before each single change of the file system."""

import json
import signal

import numpy as np
import pytest

from sparsegp.errors import StoreError
from sparsegp.store import CHECKPOINT_FILE, RunDirectory


def newest(path, steps):
    """Return the number of the newest checkpoint after a check of it, 0 where there is none."""
    try:
        found = RunDirectory(path, 2, pytest.fail).load()
    except FileNotFoundError:
        return 0
    if found is not None:
        steps.check(*found)
    return found[0] if found else 0


def assert_tidy(path, count):
    names = {item.name for item in path.iterdir()}
    checkpoints = {name for name in names if CHECKPOINT_FILE.fullmatch(name)}
    assert len(checkpoints) == count
    assert names - checkpoints == {"lock", "run.json"}
    assert json.loads((path / "run.json").read_text()) == {"settings": {}, "data": {}}


def test_at_random_instants(writer, steps, tmp_path):
    rng, acknowledged = np.random.default_rng(11), 0
    for _ in range(30):
        result = writer.run("save", tmp_path, count=10**6, kill_after=rng.uniform(0, 0.2))
        assert result.status == signal.SIGKILL
        acknowledged = max([acknowledged, *result.acknowledged])
        step = newest(tmp_path, steps)
        assert acknowledged <= step <= acknowledged + steps.INTERVAL
        acknowledged = step
    assert acknowledged > 2 * steps.INTERVAL
    assert writer.run("save", tmp_path, count=1).status == 0
    assert_tidy(tmp_path, 2)


def test_before_every_change(writer, steps, tmp_path):
    """Each writer starts on what the one before it left: two saves and their pruning."""
    acknowledged = 0
    for number in range(200):
        result = writer.run("save", tmp_path, count=2, die_at=number)
        acknowledged = max([acknowledged, *result.acknowledged])
        step = newest(tmp_path, steps)
        assert acknowledged <= step <= acknowledged + steps.INTERVAL
        acknowledged = step
        if result.status == 0:
            assert number > 10
            return assert_tidy(tmp_path, 2)
        assert result.status == signal.SIGKILL
    return pytest.fail("the writer never came to its end")


# -- disks -----------------------------------------------------------------------------------------


@pytest.fixture
def told():
    return []


def opened(path, told, keep_last=3):
    run = RunDirectory(path, keep_last, told.append)
    run.open({"settings": {}, "data": {}}, resume=True)
    return run


def test_a_full_disk_keeps_what_there_is_and_recovers(small_disk, steps, told):
    run = opened(small_disk.path / "run", told)
    assert run.save(40, *steps.content(40))
    assert not run.save(80, {}, {"x": np.ones(10**6)})
    assert "the run goes on: cannot write" in told[0]
    assert "No space left on device" in told[0]
    filler = small_disk.path / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(2**22))
    for _ in range(3):
        assert not run.save(80, *steps.content(80))
    steps.check(*run.load())
    run.write_progress({"stage": "select"})
    filler.unlink()
    assert run.save(80, *steps.content(80))
    step, stored = run.load()
    assert step == 80
    steps.check(step, stored)
    run.close()
    assert_tidy(small_disk.path / "run", 2)


def test_a_read_only_disk(small_disk, steps, told):
    run = opened(small_disk.path, told)
    run.save(40, *steps.content(40))
    run.close()
    assert small_disk.make_read_only()
    assert not run.save(80, *steps.content(80))
    assert "Read-only file system" in told[0]
    with pytest.raises(StoreError, match="Read-only file system"):
        RunDirectory(small_disk.path / "other", 1, told.append).open({}, resume=False)
    steps.check(*run.load())


def test_files_that_may_not_grow(writer, tmp_path, steps, told):
    run = opened(tmp_path, told)
    run.save(40, *steps.content(40))
    run.close()
    result = writer.run("limited", tmp_path, count=1)
    assert result.status == 0
    assert result.acknowledged == []
    assert result.said[0].startswith("no checkpoint at 80, the run goes on: cannot write")
    steps.check(*run.load())
    assert_tidy(tmp_path, 1)
