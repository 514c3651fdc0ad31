import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sparsegp.errors import SettingsError
from sparsegp.execution import Part
from sparsegp.execution import threads as module
from sparsegp.execution.inputs import SingleThreadedBLAS
from sparsegp.execution.threads import ThreadRuntime, usable_cpus
from tests.processes import environment


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
        runtime.build(Sleeper, [Part(0), Part(1)])
        assert len(set(runtime.map_blocks("sleep", 0.05))) == 2


@pytest.mark.parametrize(("n_threads", "n_blocks"), [(1, 3), (2, 1)])
def test_no_thread_is_used_where_none_helps(n_threads: int, n_blocks: int) -> None:
    with ThreadRuntime(n_threads) as runtime:
        runtime.build(Sleeper, [Part(index) for index in range(n_blocks)])
        assert set(runtime.map_blocks("sleep", 0.0)) == {threading.get_ident()}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no runtime of the session were open, which would hold the limit."""
    monkeypatch.setattr(SingleThreadedBLAS, "_holders", set())
    monkeypatch.setattr(SingleThreadedBLAS, "_limits", ExitStack())


@pytest.mark.usefixtures("alone")
def test_blas_threads_are_restored() -> None:
    def counts() -> list[int]:
        return [library["num_threads"] for library in threadpool_info()]

    with threadpool_limits(2):
        before = counts()
        with ThreadRuntime(2) as runtime:
            runtime.build(Sleeper, [Part(0)])
            assert set(counts()) == {1}
        assert counts() == before


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_blas_threads_are_restored_by_the_last_of_several(order: tuple[int, ...]) -> None:
    """Runtimes need not be closed in reverse."""

    def counts() -> list[int]:
        return [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]

    with threadpool_limits(2):
        before = counts()
        runtimes = [ThreadRuntime(n_threads) for n_threads in (1, 2, 1)]
        for place in order:
            assert set(counts()) == {1}
            runtimes[place].close()
        assert counts() == before


def test_interrupt_leaves_no_call_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def interrupted_once(futures):
        waits.append(len(futures))
        if len(waits) == 1:
            raise KeyboardInterrupt
        return original(futures)

    original = module.wait
    with ThreadRuntime(2) as runtime:
        runtime.build(Sleeper, [Part(index) for index in range(4)])
        monkeypatch.setattr(module, "wait", interrupted_once)
        with pytest.raises(KeyboardInterrupt):
            runtime.map_blocks("sleep", 0.05)
        awake = runtime.map_blocks("count")
        time.sleep(0.1)
        assert runtime.map_blocks("count") == awake


def test_neither_dask_nor_sockets_are_needed() -> None:
    script = """
import sys
from sparsegp.execution import open_runtime, Part
class Block:
    def __init__(self, x): self.x = x
    def get(self): return self.x
with open_runtime(threads=2) as runtime:
    runtime.build(Block, [Part(k, {"x": k}) for k in range(3)])
    assert runtime.map_blocks("get") == [0, 1, 2]
print([name for name in ("dask", "distributed", "zarr") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_pool_is_gone_after_close() -> None:
    before = set(threading.enumerate())
    runtime = ThreadRuntime(2)
    runtime.build(Sleeper, [Part(0), Part(1)])
    runtime.map_blocks("count")
    runtime.close()
    assert isinstance(runtime._pool, ThreadPoolExecutor)
    assert set(threading.enumerate()) <= before
    assert runtime.n_blocks == 0
