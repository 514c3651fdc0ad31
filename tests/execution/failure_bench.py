"""A run on a cluster that is disturbed on the way, beside one that nothing disturbs."""

import dataclasses
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import sparsegp
from sparsegp.execution.dask import DaskRuntime
from tests.execution.by_hand import Cluster

ROWS, COLUMNS, CLASSES, N_ACTIVE = 24_000, 20, 6, 500
SETTINGS: dict[str, Any] = {"n_active": N_ACTIVE, "kernel": "20*rbf(3)", "calibration": "none"}
LONGER = {"lazy": False, "lookahead": 2}
"""Settings that change no result, but take longer."""
MIDDLE = N_ACTIVE // 2
SLOW_SECONDS = 0.5
"""How long a slow disk takes for a chunk."""


@dataclasses.dataclass
class Line:
    """One line of the table."""

    failure: str
    happened: str
    lost: float
    result: str


@dataclasses.dataclass
class Followed:
    """Progress of a run that notes when it went on, and does something on the way.

    Attributes
    ----------
    stage : str
        In which it is done: select or posterior.
    at : int
        After so many rows or rounds.
    do : callable
    """

    stage: str
    at: int
    do: Callable[[], None]
    marks: list[float] = dataclasses.field(default_factory=list)
    said: list[str] = dataclasses.field(default_factory=list)
    done_at: float | None = None
    now_in: str = ""

    def start(self, total: int, unit: str, description: str) -> None:
        self.now_in = description

    def update(self, done: int, **figures: float) -> None:
        self.marks.append(time.monotonic())
        if self.done_at is None and self.now_in == self.stage and done >= self.at:
            self.done_at = time.monotonic()
            self.do()

    def message(self, text: str) -> None:
        self.said.append(text)

    def finish(self) -> None:
        pass

    def lost(self) -> float:
        """Return by how much the longest pause after it was done exceeds a usual one."""
        assert self.done_at is not None, f"nothing was done in {self.stage}"
        usual = float(np.median(np.diff(self.marks)))
        after = [self.done_at, *(mark for mark in self.marks if mark > self.done_at)]
        return float(np.diff(after).max()) - usual


class SlowReading(DaskRuntime):
    """Does something while the blocks are built for the first time, and takes the time of that."""

    do: Callable[[], None] | None = None
    seconds = 0.0

    def build(self, *args: Any) -> None:
        do, self.do = self.do, None
        if do is None:
            super().build(*args)
            return
        threading.Timer(SLOW_SECONDS / 2, do).start()
        begin = time.monotonic()
        super().build(*args)
        self.seconds = time.monotonic() - begin


def slow(rows: np.ndarray) -> np.ndarray:
    time.sleep(SLOW_SECONDS)
    return rows


class Bench:
    """Data, and the undisturbed run.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self.folder = folder
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, CLASSES, ROWS)
        self.X = rng.normal(size=(CLASSES, COLUMNS))[self.y] + rng.normal(size=(ROWS, COLUMNS))
        begin = time.monotonic()
        self.expected = sparsegp.train(self.X, self.y, threads=2, **SETTINGS)
        self.log_p = self.expected.predict_log_proba(self.X[:2000])
        print(f"undisturbed, in two threads: {time.monotonic() - begin:.1f} s\n")

    def sub(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    @contextmanager
    def cluster(self, n_workers: int = 2, **options: str) -> Iterator[Cluster]:
        with Cluster(self.sub(), n_workers, **options) as cluster:
            yield cluster

    def train(self, cluster: Cluster, progress: Followed | None = None, **options: Any) -> Any:
        n = len(cluster.workers)
        with DaskRuntime.connect(None, cluster.file, n_workers=n) as runtime:
            options = {"progress": progress, "runtime": runtime, **options}
            return sparsegp.train(self.X, self.y, **options, **SETTINGS)

    def same(self, model: Any) -> str:
        equal = np.array_equal(model.rows, self.expected.rows)
        found = model.predict_log_proba(self.X[:2000])
        return "identical" if equal and found.tobytes() == self.log_p.tobytes() else "DIFFERENT"

    def resumed(self, path: Path) -> str:
        return self.same(
            sparsegp.train(self.X, self.y, threads=2, out=path, resume=True, **SETTINGS)
        )
