"""Some rounds of blocks that tests can disturb, and what they give undisturbed."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from sparsegp.runtime.base import Message, Runtime
from sparsegp.runtime.threads import ThreadRuntime
from tests.processes import wait_until
from tests.runtime.blocks import Tally, parts

FACTORY = partial(Tally, rows=np.zeros(6))


class Rounds:
    """Rounds of some blocks; the driver's recovery repeats those done so far.

    Parameters
    ----------
    runtime : Runtime
    n_blocks : int
    """

    def __init__(self, runtime: Runtime, n_blocks: int = 5) -> None:
        self.runtime = runtime
        self.done: list[Message] = []
        self.answers: list[list[float]] = []
        runtime.recovery = lambda: list(self.done)
        runtime.build(FACTORY, parts(n_blocks))

    def go_on(self, n_steps: int = 1, seconds: float = 0.0) -> None:
        for _ in range(n_steps):
            step = len(self.answers) + 1
            self.answers.append(self.runtime.map_blocks("add", step, seconds))
            self.done.append(("add", (step,)))

    def go_on_until(self, happened: Callable[[], bool], at_most: float = 30.0) -> None:
        def look() -> bool:
            self.go_on()
            time.sleep(0.05)  # not so many that to repeat them takes long
            return happened()

        assert wait_until(look, at_most)

    def check(self) -> None:
        """Compare all answers with those of a run that nothing disturbed."""
        assert self.answers == undisturbed(len(self.answers), self.runtime.n_blocks)


def run(
    runtime: Runtime,
    n_steps: int,
    seconds: float = 0.0,
    before: Callable[[int], None] = lambda step: None,
) -> list[list[float]]:
    """Do some steps, each after what is to come before it."""
    rounds = Rounds(runtime)
    for step in range(1, n_steps + 1):
        before(step)
        rounds.go_on(seconds=seconds)
    return rounds.answers


def undisturbed(n_steps: int, n_blocks: int = 5) -> list[list[float]]:
    with ThreadRuntime(1) as runtime:
        rounds = Rounds(runtime, n_blocks)
        rounds.go_on(n_steps)
    return rounds.answers


@contextmanager
def checked(runtime: Runtime, n_blocks: int = 5) -> Iterator[Rounds]:
    """Yield rounds that are compared in the end."""
    rounds = Rounds(runtime, n_blocks)
    yield rounds
    rounds.go_on(3)
    rounds.check()
