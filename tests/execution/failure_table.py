"""What failures cost a run: a table of seconds lost, and whether the result stayed the same.

``python -m tests.execution.failure_table [WORD ...]`` prints the lines that hold a word, or all.
Every line is a run of its own on a scheduler and two workers, all processes of this machine, that
is compared to the last bit with a run that nothing disturbed.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import psutil
import zarr

import sparsegp
from sparsegp.data import open_dataset
from sparsegp.errors import SparseGPError
from sparsegp.execution.dask import DaskRuntime
from tests.execution.by_hand import Cluster
from tests.execution.failure_bench import (
    COLUMNS,
    LONGER,
    MIDDLE,
    ROWS,
    SETTINGS,
    SLOW_SECONDS,
    Bench,
    Followed,
    Line,
    SlowReading,
    slow,
)
from tests.execution.proxy import Proxy, free_port
from tests.processes import environment, wait_until, worker_processes

# -- workers ---------------------------------------------------------------------------------------

Harm = Callable[[Cluster], None]


def kill(cluster: Cluster) -> None:
    cluster.signal("worker-1", signal.SIGKILL)


def stop(cluster: Cluster) -> None:
    cluster.signal("worker-1", signal.SIGSTOP)


def retire(cluster: Cluster) -> None:
    cluster.retire("worker-1")


def replace_all(cluster: Cluster) -> None:
    for name in list(cluster.workers):
        cluster.signal(name, signal.SIGKILL)
    cluster.add()
    cluster.add()


def in_stage(bench: Bench, stage: str, at: int, harm: Harm) -> tuple[float, str]:
    with bench.cluster() as cluster:
        progress = Followed(stage, at, lambda: harm(cluster))
        model = bench.train(cluster, progress)
        return progress.lost(), bench.same(model)


def selecting(harm: Harm) -> Callable[[Bench], tuple[float, str]]:
    return lambda bench: in_stage(bench, "select", MIDDLE, harm)


def in_posterior(harm: Harm) -> Callable[[Bench], tuple[float, str]]:
    return lambda bench: in_stage(bench, "posterior", 3, harm)


def with_nanny(bench: Bench) -> tuple[float, str]:
    with DaskRuntime.local(2) as runtime:

        def kill_one() -> None:
            worker_processes(os.getpid())[0].kill()

        progress = Followed("select", MIDDLE, kill_one)
        model = sparsegp.train(bench.X, bench.y, progress=progress, runtime=runtime, **SETTINGS)
        return progress.lost(), bench.same(model)


def reading(harm: Harm) -> Callable[[Bench], tuple[float, str]]:
    def run(bench: Bench) -> tuple[float, str]:
        X = da.from_array(bench.X, chunks=(ROWS // 4, -1)).map_blocks(slow, dtype=float)
        with bench.cluster() as cluster:
            with SlowReading.connect(None, cluster.file, n_workers=2) as runtime:
                runtime.do = lambda: harm(cluster)
                model = sparsegp.train(X, bench.y, runtime=runtime, **SETTINGS)
                assert runtime.do is None
            return runtime.seconds - 2 * SLOW_SECONDS, bench.same(model)

    return run


def predicting(harm: Harm) -> Callable[[Bench], tuple[float, str]]:
    def seconds(bench: Bench, harm: Harm) -> tuple[float, bool]:
        with bench.cluster(ttl="30s") as cluster, cluster.client.as_current():
            X = da.from_array(bench.X, chunks=(1024, -1)).map_blocks(slow, dtype=float)
            lazy = bench.expected.predict_log_proba(X)
            timer = threading.Timer(2.0, harm, [cluster])
            timer.start()
            begin = time.monotonic()
            found = np.asarray(cluster.client.compute(lazy).result(timeout=400))
            taken = time.monotonic() - begin
            timer.join()
        assert taken > 2.0, "it was over before the failure"
        return taken, found[:2000].tobytes() == bench.log_p.tobytes()

    def run(bench: Bench) -> tuple[float, str]:
        usual, _ = seconds(bench, lambda cluster: None)
        taken, same = seconds(bench, harm)
        return taken - usual, "identical" if same else "DIFFERENT"

    return run


def joining(bench: Bench) -> tuple[float, str]:
    with bench.cluster(1) as cluster:
        progress = Followed("select", 10, cluster.add)
        with DaskRuntime.connect(None, cluster.file) as runtime:
            longer = {**SETTINGS, **LONGER, "block_rows": 4096}
            model = sparsegp.train(bench.X, bench.y, progress=progress, runtime=runtime, **longer)
            assert runtime.n_workers == 2, "the run was over before the worker was there"
        return progress.lost(), bench.same(model)


def end_of_lifetime(bench: Bench) -> tuple[float, str]:
    with bench.cluster(1) as cluster:
        cluster.add("--lifetime", "8s")
        cluster.client.wait_for_workers(2, timeout=60)
        progress = Followed("select", 1, lambda: None)
        model = bench.train(cluster, progress, **LONGER)
        assert cluster.ended("worker-1") == 0, "the run was over before the lifetime was"
        return progress.lost(), bench.same(model)


def cut(bench: Bench) -> tuple[float, str]:
    port = free_port()
    with Proxy(port) as proxy, bench.cluster(1) as cluster:
        cluster.add_behind(port, proxy.address)
        cluster.client.wait_for_workers(2, timeout=60)
        progress = Followed("select", MIDDLE, proxy.cut)
        model = bench.train(cluster, progress)
        return progress.lost(), bench.same(model)


# -- ends with an error, and goes on from a checkpoint ---------------------------------------------


def stopped(
    bench: Bench, progress: Followed, cluster: Cluster, expected: str, **options: Any
) -> Any:
    """Return the seconds from the failure to the error, and what a resumed run gives."""
    out = bench.sub() / "run"
    try:
        bench.train(cluster, progress, out=out, **options)
    except SparseGPError as error:
        if progress.done_at is None or expected not in str(error):
            raise
        seconds = time.monotonic() - progress.done_at
        return seconds, f"error; resumed: {bench.resumed(out)}"
    raise AssertionError("it did not fail")


def scheduler(number: signal.Signals) -> Callable[[Bench], tuple[float, str]]:
    def run(bench: Bench) -> tuple[float, str]:
        with bench.cluster() as cluster:
            progress = Followed("select", MIDDLE, lambda: cluster.scheduler.send_signal(number))
            return stopped(bench, progress, cluster, "scheduler does not answer any more")

    return run


def driver_killed(bench: Bench) -> tuple[float, str]:
    data = bench.sub() / "rows.npz"
    np.savez(data, X=bench.X, y=bench.y)
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]

    def start(cluster: Cluster, out: Path) -> subprocess.Popen[bytes]:
        where = ["--scheduler-file", str(cluster.file), "--out", str(out), "--resume", "--quiet"]
        command = [sys.executable, "-m", "sparsegp", "train", str(data), *settings, *where]
        return subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)

    with bench.cluster() as cluster:
        begin = time.monotonic()
        assert start(cluster, bench.sub() / "whole").wait(300) == 0
        usual, out = time.monotonic() - begin, bench.sub() / "run"
        begin = time.monotonic()
        driver = start(cluster, out)
        assert wait_until((out / "checkpoints" / f"{MIDDLE // 100 * 100:08d}").exists, 300)
        driver.kill()
        driver.wait(10)
        assert start(cluster, out).wait(300) == 0
        taken = time.monotonic() - begin
    return taken - usual, f"killed; resumed: {bench.same(sparsegp.load(out))}"


def nobody_left(bench: Bench) -> tuple[float, str]:
    with bench.cluster(1) as cluster:
        progress = Followed("select", MIDDLE, lambda: cluster.signal("worker-0", signal.SIGKILL))
        return stopped(bench, progress, cluster, "no worker is left and none joined")


def scratch_full(bench: Bench) -> tuple[float, str]:
    """A worker whose files may not grow takes over the blocks of another that is killed."""
    with bench.cluster() as cluster:

        def fill() -> None:
            limit = (100_000, 100_000)
            psutil.Process(cluster.workers["worker-0"].pid).rlimit(psutil.RLIMIT_FSIZE, limit)
            kill(cluster)

        progress = Followed("select", MIDDLE, fill)
        return stopped(bench, progress, cluster, "cannot reserve", scratch=bench.sub())


def checkpoints_fail(bench: Bench) -> tuple[float, str]:
    """Files of the driver may not grow any more, until the posterior is made."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Limited(Followed):
        def finish(self) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, most))

    progress = Limited("select", MIDDLE, limit)
    with bench.cluster() as cluster:
        model = bench.train(cluster, progress, out=bench.sub() / "run")
    assert any("no checkpoint at" in text for text in progress.said)
    return progress.lost(), bench.same(model)


def corrupt(bench: Bench) -> tuple[float, str]:
    """A chunk of a zarr array loses its end after it was read once."""
    store = bench.sub() / "data.zarr"
    group: Any = zarr.open_group(str(store), mode="w")
    group.create_array("X", data=bench.X, chunks=(ROWS // 4, COLUMNS))
    group.create_array("y", data=bench.y)
    table = open_dataset(str(store)).train
    (chunk,) = (store / "X" / "c").glob("2/*")
    began: list[float] = []

    class Harmed(DaskRuntime):
        def build(self, *args: Any) -> None:
            os.truncate(chunk, 1000)
            began.append(time.monotonic())
            super().build(*args)

    with bench.cluster() as cluster, Harmed.connect(None, cluster.file, n_workers=2) as runtime:
        try:
            sparsegp.train(table, runtime=runtime, **SETTINGS)
        except SparseGPError as error:
            named = any("raised by block " in note for note in error.__notes__)
            if str(store) not in str(error) or not named:
                raise
            return time.monotonic() - began[0], "error at the first try, names file and block"
    raise AssertionError("it did not fail")


FAILURES: list[tuple[str, str, Callable[[Bench], tuple[float, str]]]] = [
    ("worker killed, reading", "blocks built on the other", reading(kill)),
    ("worker killed, selecting", "blocks rebuilt on the other", selecting(kill)),
    ("worker killed, posterior", "blocks rebuilt on the other", in_posterior(kill)),
    ("worker killed, predicting", "dask computes the chunks again", predicting(kill)),
    ("worker killed, its nanny starts another", "blocks rebuilt there", with_nanny),
    ("worker hangs, reading", "blocks built on the other", reading(stop)),
    ("worker hangs, selecting", "blocks rebuilt on the other", selecting(stop)),
    ("worker hangs, posterior", "blocks rebuilt on the other", in_posterior(stop)),
    ("worker hangs, predicting", "dask gives it up (worker-ttl: 30s)", predicting(stop)),
    ("network cut between driver and a worker", "blocks rebuilt on the other", cut),
    ("all workers killed, two new ones come", "blocks rebuilt there", selecting(replace_all)),
    ("worker joins", "some blocks move there", joining),
    ("worker retired", "blocks move to the other, it ends", selecting(retire)),
    ("worker ends by --lifetime", "blocks rebuilt on the other", end_of_lifetime),
    ("driver killed", "the same command again with --resume", driver_killed),
    ("all workers killed, none comes", "error", nobody_left),
    ("scheduler killed", "error", scheduler(signal.SIGKILL)),
    ("scheduler hangs", "error", scheduler(signal.SIGSTOP)),
    ("disk full on a worker (--scratch)", "error", scratch_full),
    ("disk full at the checkpoint", "warnings, goes on without", checkpoints_fail),
    ("row block cannot be read", "error", corrupt),
]


def measure(words: list[str]) -> list[Line]:
    """Let it fail in every way that has one of the words in its name; print a table."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        print("| failure | what happens | seconds lost | result |\n| --- | --- | --- | --- |")
        for failure, happened, run in FAILURES:
            if not words or any(word in failure for word in words):
                lines.append(Line(failure, happened, *run(bench)))
                line = lines[-1]
                print(f"| {failure} | {happened} | {line.lost:.1f} | {line.result} |", flush=True)
    return lines


if __name__ == "__main__":
    measure(sys.argv[1:])
