"""Blocks, rounds of them and tasks for tests; sent to workers by value, which have no tests."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from sparsegp.runtime.base import Message, Runtime
from sparsegp.runtime.threads import ThreadRuntime
from tests.processes import wait_until


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

    def add(self, step: int) -> float:
        if step == self.step + 1:
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
        libraries = threadpool_info()
        return [found["num_threads"] for found in libraries if found["user_api"] == "blas"]

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


FACTORY = partial(Tally, rows=np.zeros(6))


class Rounds:
    """Rounds of five blocks; the driver's recovery repeats those done so far."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.done: list[Message] = []
        self.answers: list[list[float]] = []
        runtime.recovery = lambda: list(self.done)
        runtime.build(FACTORY, parts(5))

    def go_on(self, n_steps: int = 1) -> None:
        for _ in range(n_steps):
            step = len(self.answers) + 1
            self.answers.append(self.runtime.map_blocks("add", step))
            self.done.append(("add", (step,)))

    def go_on_until(self, happened: Callable[[], bool]) -> None:
        def look() -> bool:
            self.go_on()
            time.sleep(0.05)  # not so many that to repeat them takes long
            return happened()

        assert wait_until(look)


def undisturbed(n_steps: int) -> list[list[float]]:
    with ThreadRuntime(1) as runtime:
        rounds = Rounds(runtime)
        rounds.go_on(n_steps)
    return rounds.answers


@contextmanager
def checked(runtime: Runtime) -> Iterator[Rounds]:
    """Yield rounds that are compared in the end with those that nothing disturbed."""
    rounds = Rounds(runtime)
    yield rounds
    rounds.go_on(3)
    assert rounds.answers == undisturbed(len(rounds.answers))
