import threading
import time

import pytest

from sparsegp.errors import SettingsError
from sparsegp.runtime import threads as module
from sparsegp.runtime.threads import ThreadRuntime, usable_cpus


class Sleeper:
    def __init__(self) -> None:
        self.awake = 0

    def sleep(self, seconds: float) -> int:
        time.sleep(seconds)
        self.awake += 1
        return threading.get_ident()

    def count(self) -> int:
        return self.awake


def test_default_is_every_usable_processor() -> None:
    with ThreadRuntime() as runtime:
        assert runtime.n_workers == usable_cpus()


def test_number_of_threads_is_checked() -> None:
    with pytest.raises(SettingsError, match="at least 1, got 0"):
        ThreadRuntime(0)


def test_blocks_run_side_by_side() -> None:
    with ThreadRuntime(2) as runtime:
        runtime.build(Sleeper, [{}, {}])
        assert len(set(runtime.map_blocks("sleep", 0.05))) == 2


@pytest.mark.parametrize(("n_threads", "n_blocks"), [(1, 3), (2, 1)])
def test_no_thread_is_used_where_none_helps(n_threads: int, n_blocks: int) -> None:
    with ThreadRuntime(n_threads) as runtime:
        runtime.build(Sleeper, [{}] * n_blocks)
        assert set(runtime.map_blocks("sleep", 0.0)) == {threading.get_ident()}


def test_interrupt_leaves_no_call_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def interrupted_once(futures):
        waits.append(len(futures))
        if len(waits) == 1:
            raise KeyboardInterrupt
        return original(futures)

    original = module.wait
    with ThreadRuntime(2) as runtime:
        runtime.build(Sleeper, [{}] * 4)
        monkeypatch.setattr(module, "wait", interrupted_once)
        with pytest.raises(KeyboardInterrupt):
            runtime.map_blocks("sleep", 0.05)
        awake = runtime.map_blocks("count")
        time.sleep(0.1)
        assert runtime.map_blocks("count") == awake


def test_pool_is_gone_after_close() -> None:
    before = set(threading.enumerate())
    runtime = ThreadRuntime(2)
    runtime.build(Sleeper, [{}, {}])
    runtime.map_blocks("count")
    runtime.close()
    assert set(threading.enumerate()) <= before
    assert runtime.n_blocks == 0
