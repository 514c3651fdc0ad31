"""Writers and programs that die, and disks that fail: what was saved last is there, no more."""

import json
import signal
import time
from functools import partial

import pytest

from sparsegp.store import CHECKPOINT_FILE, MODEL, MODEL_FILE, RunDirectory, folder_of, read_file
from tests.processes import KERNEL, environment, start_python
from tests.store.writer import INTERVAL, RUN, check, content, write


def newest(path, is_of_writer=True):
    """Return the number of the newest checkpoint, 0 where there is none; check a writer's."""
    found = RunDirectory(path, 2, pytest.fail).load()
    if found and is_of_writer:
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
    """Full ones are in cli/test_errors.py."""
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


TRAIN = ("train", "digits", *KERNEL, "--n-active", 200, "--checkpoint-every", 10, "--out")


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


@pytest.mark.slow
def test_a_driver_that_is_killed_and_two_that_go_on(s3, s3_keys, tmp_path):
    """Fresh processes have nothing but the store; of two at the same time one goes on."""
    how = {"env": environment() | s3_keys, "cwd": tmp_path}
    program, run, step = partial(start_python, "-m", "sparsegp", **how), f"{s3}/run", 0
    reached = partial(newest, is_of_writer=False)
    for _ in range(2):
        process = program(*TRAIN, run, "--resume")
        while process.poll() is None and reached(run) == step:
            time.sleep(0.1)
        process.kill()
        process.communicate()
        assert reached(run) >= step
        step = reached(run)
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
