"""A watch for tests: it keeps what a fit says, ends it, and deals out tasks as processes would."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense import Alone


class StoppedError(Exception):
    """Raised by a watch that ends a fit."""


class Watched(Alone):
    """A watch that keeps states, ends at one of them, and deals out tasks in another order."""

    def __init__(self, former: Mapping[str, NDArray[Any]] = {}, last: int = 10**9) -> None:
        self.former, self.last = former, last
        self.states: list[dict[str, NDArray[Any]]] = []

    def say(
        self, done: int, total: int, state: Callable[[], dict[str, NDArray[Any]]], **figures: float
    ) -> None:
        """Keep the state, as a checkpoint would."""
        assert done > 0
        assert not 0 < total < done  # zero is not known
        assert all(np.isfinite(value) for value in figures.values())
        self.states.append({name: np.array(array) for name, array in state().items()})
        if len(self.states) > self.last:
            raise StoppedError

    def map(
        self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Yield results last first, of what has been sent as bytes."""
        for number in reversed(range(len(tasks))):
            sent, task = pickle.loads(pickle.dumps((shared, tasks[number])))
            yield number, function(sent, task)
