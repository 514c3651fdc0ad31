"""Whole runs on workers that are killed, hang, are retired and join: the result stays the same."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp
from sparsegp.errors import ClusterError
from sparsegp.progress import Progress
from tests.runtime.by_hand import Cluster

SETTINGS: dict[str, Any] = {"n_active": 200, "kernel": "20*rbf(3)", "block_rows": 1024}
LIMITS = {"silent_seconds": 2.0, "rejoin_seconds": 1.0, "look_seconds": 0.5}
STAGES = {"select": 100, "posterior": 5}
"""After how many rows or rounds something happens."""


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


def join(cluster: Cluster) -> None:
    cluster.add()
    cluster.client.wait_for_workers(3, timeout=60)


class Disturbed(Progress):
    """Progress of a run that does something on the way, once."""

    def __init__(self, stage: str, do: Callable[[], None]) -> None:
        self.stage, self.do, self.current, self.done = stage, do, "", False

    def start(self, total: int, unit: str, description: str) -> None:
        self.current = description

    def update(self, done: int, **figures: float) -> None:
        if not self.done and self.current == self.stage and done >= STAGES[self.stage]:
            self.done = True
            self.do()


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 6000)
    return rng.normal(size=(5, 12))[y] + rng.normal(size=(len(y), 12)), y


@pytest.fixture(scope="module")
def expected(data: tuple[np.ndarray, np.ndarray]) -> sparsegp.Model:
    return sparsegp.train(*data, runtime="threads=2", **SETTINGS)


def assert_same(model: sparsegp.Model, expected: sparsegp.Model, X: np.ndarray) -> None:
    np.testing.assert_array_equal(model.rows, expected.rows)
    assert model.predict_log_proba(X).tobytes() == expected.predict_log_proba(X).tobytes()


SLOW = [(harm, stage) for harm in (stop, retire, replace_all, join) for stage in STAGES]


@pytest.mark.parametrize(
    ("harm", "stage"),
    [
        *((kill, stage) for stage in STAGES),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW),
    ],
)
def test_result_is_identical(
    harm: Callable[[Cluster], None],
    stage: str,
    data: tuple[np.ndarray, np.ndarray],
    expected: sparsegp.Model,
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path) as cluster, cluster.runtime(**LIMITS) as runtime:
        progress = Disturbed(stage, lambda: harm(cluster))
        begin = time.monotonic()
        model = sparsegp.train(*data, runtime=runtime, progress=progress, **SETTINGS)
        print(f"{harm.__name__} in {stage}: {time.monotonic() - begin:.1f} s in all")
        assert progress.done
        assert_same(model, expected, data[0][:500])


class Disturber(threading.Thread):
    """Does something to a worker, now and then; one at least stays, or comes."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__()
        self.cluster, self.rng = cluster, random.Random(seed)
        self.over = threading.Event()
        self.done: Counter[str] = Counter()
        self.stopped: dict[str, float] = {}

    def run(self) -> None:
        while not self.over.wait(self.rng.uniform(1.0, 6.0)):
            for name in [name for name, until in self.stopped.items() if until < time.monotonic()]:
                del self.stopped[name]
                self.cluster.signal(name, self.rng.choice([signal.SIGCONT, signal.SIGKILL]))
            workers = self.cluster.workers.items()
            alive = [name for name, worker in workers if worker.poll() is None]
            well = [name for name in alive if name not in self.stopped]
            kinds = ["add"] if len(well) < 2 else ["kill", "stop", "retire", "add"]
            self.do(self.rng.choice(kinds[:3] if len(well) >= 4 else kinds), well)

    def do(self, what: str, well: list[str]) -> None:
        name = self.rng.choice(well) if well else ""
        if what == "add":
            self.cluster.add()
        elif what == "retire":
            with suppress(StopIteration):  # it has not joined yet, or is gone for the scheduler
                self.cluster.retire(name)
        else:
            self.cluster.signal(name, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[what])
            if what == "stop":
                self.stopped[name] = time.monotonic() + self.rng.uniform(2, 20)
        self.done[what] += 1


@pytest.fixture
def disturber(tmp_path: Path) -> Iterator[Disturber]:
    with Cluster(tmp_path) as cluster:
        thread = Disturber(cluster, seed=int(os.environ.get("SPARSEGP_SOAK_SEED", "0")))
        thread.start()
        yield thread
        thread.over.set()
        thread.join()


@pytest.mark.slow
def test_anything_at_random(
    disturber: Disturber,
    data: tuple[np.ndarray, np.ndarray],
    expected: sparsegp.Model,
    tmp_path: Path,
) -> None:
    """Run after run; one that gives up for want of workers is resumed, as its user would do."""
    settings = {**SETTINGS, "lazy": False}  # takes longer, changes no result
    end, runs = time.monotonic() + float(os.environ.get("SPARSEGP_SOAK_SECONDS", "60")), 0
    counts: Counter[str] = Counter()
    while time.monotonic() < end or not runs:
        try:
            with disturber.cluster.runtime(**LIMITS) as runtime:
                out = tmp_path / f"run-{runs}"
                model = sparsegp.train(*data, runtime=runtime, out=out, resume=True, **settings)
        except ClusterError as error:
            print(f"given up, to be resumed: {error}")
            counts["resumed"] += 1
            continue
        assert_same(model, expected, data[0][:500])
        runs += 1
    print(dict(counts + disturber.done), runs, "runs")
