"""Writers that die: at random instants, and before each single change of the file system."""

import signal

import numpy as np
import pytest

from sparsegp.checkpoint import (
    CHECKPOINT_KIND,
    CHECKPOINT_VERSION,
    Generations,
    read_bundle,
    sweep_bundle,
    write_bundle,
)

KIND = "sparsegp-model"


def fail(text):
    raise AssertionError(text)


def newest(root, steps):
    """Return the number of the newest generation after a check of all that is there."""
    generations = Generations(root, keep_last=2, on_warning=fail)
    for step in generations.steps():
        path = root / f"{step:08d}"
        steps.check(step, read_bundle(path, kind=CHECKPOINT_KIND, versions={CHECKPOINT_VERSION}))
    found = generations.load()
    assert (found[0] if found else 0) == max(generations.steps(), default=0)
    return found[0] if found else 0


def test_generations_survive_kills_at_random_instants(writer, steps, tmp_path):
    rng = np.random.default_rng(11)
    acknowledged = 0
    for _ in range(30):
        result = writer.run("generations", tmp_path, count=10**6, kill_after=rng.uniform(0, 0.2))
        assert result.status == signal.SIGKILL
        acknowledged = max([acknowledged, *result.acknowledged])
        step = newest(tmp_path, steps)
        assert acknowledged <= step <= acknowledged + steps.INTERVAL
        acknowledged = step
    assert acknowledged > 2 * steps.INTERVAL
    Generations(tmp_path, keep_last=2).sweep()
    assert all(len(item.name) == 8 for item in tmp_path.iterdir())


def test_a_replaced_bundle_survives_kills_at_random_instants(writer, steps, tmp_path):
    path = tmp_path / "model"
    write_bundle(path, *steps.content(0), kind=KIND, version=1)
    rng = np.random.default_rng(12)
    acknowledged = 0
    for _ in range(10):
        result = writer.run("replace", path, count=10**6, kill_after=rng.uniform(0, 0.2))
        acknowledged = max([acknowledged, *result.acknowledged])
        bundle = read_bundle(path, kind=KIND, versions={1})
        steps.check(bundle.meta["step"], bundle)
        assert acknowledged <= bundle.meta["step"] <= acknowledged + steps.INTERVAL
        acknowledged = bundle.meta["step"]
    assert acknowledged > 0


def every_instant(run):
    """Yield the results of writers killed before their first, second, ... change, to the end."""
    for number in range(1000):
        result = run(number)
        yield result
        if result.status == 0:
            assert number > 20
            return
        assert result.status == signal.SIGKILL
    pytest.fail("the writer never came to its end")


def test_generations_survive_a_kill_before_every_change(writer, steps, tmp_path):
    """Each writer starts on what the one before it left: two saves and their pruning."""
    acknowledged = 0
    for result in every_instant(
        lambda number: writer.run("generations", tmp_path, count=2, die_at=number)
    ):
        acknowledged = max([acknowledged, *result.acknowledged])
        step = newest(tmp_path, steps)
        assert acknowledged <= step <= acknowledged + steps.INTERVAL
        acknowledged = step
    assert len(list(tmp_path.iterdir())) == 2


def test_a_replaced_bundle_survives_a_kill_before_every_change(writer, steps, tmp_path):
    path = tmp_path / "model"
    write_bundle(path, *steps.content(0), kind=KIND, version=1)
    before, empty_places = 0, 0
    for result in every_instant(lambda number: writer.run("replace", path, die_at=number)):
        empty_places += not path.exists()
        step = read_bundle(path, kind=KIND, versions={1}).meta["step"]
        assert step in (before, before + steps.INTERVAL)
        assert not result.acknowledged or step == before + steps.INTERVAL
        steps.check(step, read_bundle(path, kind=KIND, versions={1}))
        before = step
    assert empty_places > 0
    sweep_bundle(path)
    assert [item.name for item in tmp_path.iterdir()] == ["model"]
    steps.check(before, read_bundle(path, kind=KIND, versions={1}))
