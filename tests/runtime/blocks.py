"""Blocks and tasks for tests; sent to workers by value, as these need not import the tests."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info


def parts(n_blocks: int) -> list[dict[str, Any]]:
    return [{"index": index} for index in range(n_blocks)]


def die_once(mark: str) -> None:
    """End this process by SIGKILL, unless `mark` exists already."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Tally:
    """Adds keyed pseudo-random numbers to its rows; a step that comes twice is answered alike."""

    def __init__(self, index: int, rows: Any = (0.0,), die_at_birth: str = "") -> None:
        if die_at_birth:
            die_once(die_at_birth)
        self.index = index
        self.rows = np.array(rows, dtype=float)
        self.step = 0
        self.answer = 0.0

    def add(self, step: int, seconds: float = 0.0) -> float:
        if step == self.step + 1:
            time.sleep(seconds)
            self.rows += np.random.default_rng((self.index, step)).normal(size=self.rows.shape)
            self.step, self.answer = step, float(self.rows.sum())
        elif step != self.step:
            raise ValueError(f"step {step} after step {self.step}")
        return self.answer

    def values(self) -> np.ndarray:
        return self.rows.copy()

    def share(self, factor: int, mark: str = "", only: int = -1) -> np.ndarray:
        """Whole numbers, whose sum does not depend on the order."""
        if mark and self.index == only:
            die_once(mark)
        return factor * np.arange(3.0) * 10.0**self.index

    def name(self, word: str = "block") -> str:
        return f"{word} {self.index}"

    def process(self) -> int:
        return os.getpid()

    def blas_threads(self) -> list[int]:
        return [library["num_threads"] for library in threadpool_info()]

    def fail(self, kind: type[Exception], only: int | None = None) -> str:
        if only is None or only == self.index:
            raise kind(f"from {self.index}")
        return "well"

    def fail_strangely(self) -> None:
        class LocalError(Exception):
            def __reduce__(self) -> str:
                raise RuntimeError("not to be pickled")

        raise LocalError("odd")

    def unpicklable(self) -> Any:
        return threading.Lock()

    def die(self, mark: str, only: int) -> str:
        if self.index == only:
            die_once(mark)
        return self.name()

    def die_always(self, only: int) -> None:
        if self.index == only:
            os.kill(os.getpid(), signal.SIGKILL)

    def sleep_once(self, mark: str, only: int, seconds: float) -> str:
        if self.index == only and not Path(mark).exists():
            Path(mark).touch()
            time.sleep(seconds)
        return self.name()


def scaled(factor: Any, task: Any) -> Any:
    return factor * task


def raise_on(shared: tuple[type[Exception], int], task: int) -> int:
    kind, which = shared
    if task == which:
        raise kind(f"from {task}")
    return task


def nap_and_note(shared: tuple[float, str], task: int) -> int:
    seconds, folder = shared
    (Path(folder) / str(task)).touch()
    time.sleep(seconds)
    return task


def die_at_first(mark: str, task: int) -> int:
    if task == 2:
        die_once(mark)
    return 10 * task


def die(shared: Any, task: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
