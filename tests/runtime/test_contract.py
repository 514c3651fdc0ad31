"""What every runtime does."""

import gc
import os
import pickle
import signal
import threading
import time
from collections import Counter
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed

from sparsegp.free_memory import free_memory
from sparsegp.runtime.threads import ThreadRuntime
from tests.processes import wait_until
from tests.runtime.blocks import Tally, nap_and_note, parts, raise_on, scaled

ERRORS = [ValueError, OSError, RuntimeError, TimeoutError]


def test_answers_come_in_block_order(runtime):
    for n_blocks in (5, 1, 8):
        runtime.build(Tally, parts(n_blocks))
        assert runtime.n_blocks == n_blocks
        assert runtime.map_blocks("name") == [f"block {index}" for index in range(n_blocks)]
        assert runtime.map_blocks("name", "part")[-1] == f"part {n_blocks - 1}"


def test_some_blocks_are_called_or_summed(runtime):
    runtime.build(Tally, parts(5))
    for step in (1, 2):  # a message that comes twice changes nothing
        assert runtime.ask([1], "add", step) == runtime.ask([1], "add", step)
    assert runtime.ask([2, 0], "name") == ["block 2", "block 0"]
    with pytest.raises(IndexError):
        runtime.ask([5], "name")
    assert runtime.sum_blocks(range(5), "share", 2).tolist() == [0, 22222, 44444]
    assert runtime.sum_blocks([1, 4], "share", 1).tolist() == [0, 10010, 20020]


@pytest.mark.parametrize("kind", ERRORS)
def test_exceptions_reach_the_caller_as_themselves(runtime, kind):
    runtime.build(Tally, parts(4))
    for call in (runtime.map_blocks, partial(runtime.sum_blocks, range(4))):
        with pytest.raises(kind, match="from 2") as caught:
            call("fail", kind, 2)
        assert any("raised by block 2" in note for note in caught.value.__notes__)
    with pytest.raises(kind, match="from 0"):
        runtime.map_blocks("fail", kind)
    assert runtime.map_blocks("fail", kind, 9) == ["well"] * 4


def test_unknown_method_and_failing_construction(runtime):
    runtime.build(Tally, parts(2))
    with pytest.raises(AttributeError, match="vanish"):
        runtime.map_blocks("vanish")
    with pytest.raises(TypeError, match="colour"):
        runtime.build(Tally, [{"index": 0, "colour": "red"}])
    assert runtime.n_blocks == 0


def test_lazy_inputs_become_values(runtime):
    X = da.arange(12.0, chunks=2)
    each = [X[start : start + 4] for start in (0, 4, 8)]
    lazy = [{"index": delayed(int)(index), "rows": rows} for index, rows in enumerate(each)]
    runtime.build(Tally, lazy)
    assert runtime.map_blocks("name") == ["block 0", "block 1", "block 2"]
    expected = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(runtime.map_blocks("values"), expected)


def test_blocks_are_shown_as_dask_arrays(runtime):
    runtime.build(partial(Tally, rows=np.ones(3)), parts(4))
    ask = delayed(runtime.ask, pure=False)
    pieces = [da.from_delayed(ask([index], "values")[0], (3,), float) for index in range(4)]
    total = da.concatenate(pieces).sum()
    for scheduler in ("threads", "synchronous"):
        assert dask.compute(total, scheduler=scheduler) == (12.0,)


def test_a_runtime_stays_in_its_process(runtime):
    with pytest.raises(TypeError, match="cannot leave its process"):
        pickle.dumps(runtime)


def test_workers_share_the_blocks_evenly(runtime):
    """Each has a thread of BLAS and free memory of its own."""
    runtime.build(Tally, parts(5))
    for threads in runtime.map_blocks("blas_threads"):
        assert set(threads) == {1}
    shares, found = Counter(runtime.map_blocks("process")), runtime.run_in_workers(free_memory)
    here = isinstance(runtime, ThreadRuntime)
    assert len(shares) == (1 if here else runtime.n_workers)
    assert max(shares.values()) - min(shares.values()) <= 1
    assert (os.getpid() in shares) == here
    assert len({each.process for each in found}) == len(found) == (0 if here else len(shares))
    assert all(min(each.shared, each.own) > 0 for each in found)


def test_every_task_is_answered_once(runtime):
    shared = np.arange(3.0)
    answers = dict(runtime.run_tasks(scaled, shared, range(7)))
    assert sorted(answers) == list(range(7))
    for index, value in answers.items():
        np.testing.assert_array_equal(value, shared * index)
    assert list(runtime.run_tasks(scaled, shared, [])) == []


@pytest.mark.parametrize("kind", ERRORS)
def test_what_a_task_raises_names_it(runtime, kind):
    with pytest.raises(kind, match="from 2") as caught:
        list(runtime.run_tasks(raise_on, (kind, 2), range(5)))
    assert any("raised by task 2" in note for note in caught.value.__notes__)
    assert len(list(runtime.run_tasks(raise_on, (kind, 9), range(5)))) == 5


@pytest.mark.slow
def test_closed_early_it_begins_no_more_tasks(runtime, tmp_path):
    runtime.build(Tally, parts(3))
    before = runtime.map_blocks("add", 1)
    tasks = runtime.run_tasks(nap_and_note, (0.2, str(tmp_path)), range(400))
    next(tasks)
    tasks.close()
    assert runtime.map_blocks("add", 1) == before

    def at_rest():  # tasks on workers may not be abandoned at once
        begun = len(list(tmp_path.iterdir()))
        time.sleep(0.5)
        return len(list(tmp_path.iterdir())) == begun

    assert wait_until(at_rest)
    assert len(list(tmp_path.iterdir())) < 400


def test_what_is_raised_by_a_check_ends_the_tasks(runtime, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsegp.runtime.dask.PULSE_SECONDS", 0.2)
    monkeypatch.setattr("sparsegp.runtime.threads.CHECK_SECONDS", 0.2)

    def stop():
        raise KeyError("enough")

    tasks = runtime.run_tasks(nap_and_note, (1.0, str(tmp_path)), range(12), stop)
    with pytest.raises(KeyError, match="enough"):
        list(tasks)
    assert len(list(tmp_path.iterdir())) < 12


class Sleeper:
    def __init__(self, interrupts=None):
        self.awake, self.interrupts = 0, interrupts

    def sleep(self, seconds):
        if self.interrupts is not None:
            signal.pthread_kill(self.interrupts, signal.SIGINT)
        time.sleep(seconds)
        self.awake += 1
        return threading.get_ident()

    def count(self):
        return self.awake


@pytest.mark.parametrize(
    ("n_threads", "n_blocks", "others"), [(1, 3, False), (2, 1, False), (2, 2, True)]
)
def test_threads_are_used_where_they_help(n_threads, n_blocks, others):
    before = set(threading.enumerate())
    with ThreadRuntime(n_threads) as runtime:
        runtime.build(Sleeper, [{}] * n_blocks)
        found = set(runtime.map_blocks("sleep", 0.2))
        assert (found != {threading.get_ident()}) == others
        assert len(found) == (n_blocks if others else 1)
    assert set(threading.enumerate()) <= before
    assert runtime.n_blocks == 0


def test_interrupt_leaves_no_call_behind():
    gc.collect()  # an interrupt that meets a finalizer of an earlier test would be lost
    with ThreadRuntime(2) as runtime:
        runtime.build(Sleeper, [{"interrupts": threading.main_thread().ident}, *[{}] * 39])
        with pytest.raises(KeyboardInterrupt):
            runtime.map_blocks("sleep", 0.3)
        awake = runtime.map_blocks("count")
        assert sum(awake) < 40
        time.sleep(0.4)
        assert runtime.map_blocks("count") == awake
