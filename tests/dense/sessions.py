"""Sessions for tests: what a fit reports is kept, and may end it; tasks run as in processes."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense import Session, Status
from sparsegp.state import to_arrays


class StoppedError(Exception):
    """Raised in a session that ends a fit."""


class Watched(Session):
    """Keeps the states that a checkpoint would hold, and ends after so many of them."""

    def __init__(self, former: Mapping[str, NDArray[Any]] = {}, last: int = 10**9) -> None:
        self.states: list[dict[str, NDArray[Any]]]
        object.__setattr__(self, "states", [])

        def report(status: Status, state: Any) -> None:
            assert not 0 < status.total < status.done  # zero is not known
            assert all(np.isfinite(value) for value in status.figures.values())
            if not status.finished:
                saved = {name: array.copy() for name, array in to_arrays(state).items()}
                self.states.append(saved)
                if len(self.states) >= last:
                    raise StoppedError

        super().__init__(former, report, last_first)


def last_first(function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]) -> list[Any]:
    """Run tasks, the last one first, with what has been sent as bytes."""
    found = []
    for task in reversed(tasks):
        sent, own = pickle.loads(pickle.dumps((shared, task)))
        found.append(function(sent, own))
    return found[::-1]
