"""Runs on workers that are killed, stopped, retired and added at random, all with one result.

``python -m tests.execution.soak [SECONDS [SEED]]`` begins one run after the other until the time is
over. A run that gives up for want of workers is resumed, as its user would do.
"""

import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import sparsegp
from sparsegp.errors import ClusterError
from sparsegp.execution.dask import DaskRuntime
from sparsegp.execution.limits import Limits
from tests.execution.by_hand import Cluster

SETTINGS: dict[str, Any] = {"n_active": 600, "kernel": "20*rbf(3)", "lazy": False}
LIMITS = Limits(silent_seconds=5)
MOST_WORKERS = 4
PAUSE_SECONDS = 1.0, 8.0


class Disturber(threading.Thread):
    """Does something to a worker, now and then; one at least stays, or comes.

    Parameters
    ----------
    cluster : Cluster
    seed : int
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__()
        self.cluster, self.rng = cluster, random.Random(seed)
        self.over = threading.Event()
        self.done: Counter[str] = Counter()
        self.stopped: dict[str, float] = {}

    def run(self) -> None:
        while not self.over.wait(self.rng.uniform(*PAUSE_SECONDS)):
            self.wake()
            well = [name for name in self.alive() if name not in self.stopped]
            if len(well) < 2:
                self.do("add", "")
            elif len(well) >= MOST_WORKERS:
                self.do(self.rng.choice(["kill", "stop", "retire"]), self.rng.choice(well))
            else:
                self.do(self.rng.choice(["kill", "stop", "retire", "add"]), self.rng.choice(well))

    def alive(self) -> list[str]:
        return [name for name, worker in self.cluster.workers.items() if worker.poll() is None]

    def wake(self) -> None:
        """Let workers go on that were stopped for long enough; half of them are killed."""
        now = time.monotonic()
        for name in [name for name, until in self.stopped.items() if until < now]:
            del self.stopped[name]
            go_on = self.rng.random() < 0.5
            self.cluster.signal(name, signal.SIGCONT if go_on else signal.SIGKILL)

    def do(self, what: str, name: str) -> None:
        if what == "add":
            self.cluster.add()
        elif what == "kill":
            self.cluster.signal(name, signal.SIGKILL)
        elif what == "stop":
            self.stopped[name] = time.monotonic() + self.rng.uniform(2, 20)
            self.cluster.signal(name, signal.SIGSTOP)
        else:
            with suppress(StopIteration):  # it has not joined yet, or is gone for the scheduler
                self.cluster.retire(name)
        self.done[what] += 1


def soak(seconds: float, seed: int = 0) -> Counter[str]:
    """Return what was done, and how many runs ended; all of them with the undisturbed result.

    Raises
    ------
    AssertionError
        If one has another result.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, 12_000)
    X = rng.normal(size=(5, 12))[y] + rng.normal(size=(len(y), 12))
    expected = sparsegp.train(X, y, threads=2, **SETTINGS)
    log_p = expected.predict_log_proba(X[:1000]).tobytes()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        disturber = Disturber(cluster, seed)
        disturber.start()
        begin = time.monotonic()
        try:
            while time.monotonic() - begin < seconds:
                model = run(cluster, X, y, Path(folder) / f"run-{counts['runs']}", counts)
                assert model.rows.tolist() == expected.rows.tolist(), counts
                assert model.predict_log_proba(X[:1000]).tobytes() == log_p, counts
                counts["runs"] += 1
        finally:
            disturber.over.set()
            disturber.join()
    return counts + disturber.done


def run(cluster: Cluster, X: Any, y: Any, out: Path, counts: Counter[str]) -> Any:
    """Return the model of one run, resumed as often as it takes."""
    while True:
        try:
            with DaskRuntime.connect(None, cluster.file, LIMITS, timeout=60) as runtime:
                return sparsegp.train(X, y, runtime=runtime, out=out, resume=True, **SETTINGS)
        except ClusterError as error:
            print(f"given up, to be resumed: {error}", flush=True)
            counts["resumed"] += 1


if __name__ == "__main__":
    print(dict(soak(*map(int, sys.argv[1:]))))
