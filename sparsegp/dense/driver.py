"""Driver of iterative methods: from an initial or a saved state, step by step, to a result.

An `Iterative` defines the initial state, a step, the progress of a state, and the result of the
last one. A callback shows the progress and saves the states.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from numpy.typing import NDArray

from sparsegp.state import from_arrays

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Status:
    """Progress of an iteration: steps done, their total (0 if unknown), and numbers to show.

    Once it is finished there is nothing left to do, and so nothing to save.
    """

    done: int
    total: int = 0
    finished: bool = False
    figures: Mapping[str, float] = field(default_factory=dict)


Report: TypeAlias = Callable[[Status, Any], None]
"""Called with the state after every step; may save it (state.py), and may raise Interrupted."""
RunTasks: TypeAlias = Callable[[Callable[[Any, Any], Any], Any, Sequence[Any]], list[Any]]
"""Maps a module-level function, shared data and tasks, all of which can be pickled, to the results
function(shared, task) in the order of the tasks."""


def in_turn(function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]) -> list[Any]:
    """Run tasks one after the other."""
    return [function(shared, task) for task in tasks]


@dataclass(frozen=True)
class Session:
    """Environment of an iteration.

    Attributes
    ----------
    former : mapping
        Arrays of a saved state (state.py) to resume from; or empty.
    report : Report
    run_tasks : RunTasks
        Runs independent parts of a step, in parallel if possible.
    """

    former: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    report: Report = lambda status, state: None
    run_tasks: RunTasks = in_turn


class Iterative(ABC, Generic[P, R]):
    """An iteration from a problem P, over states, which are dataclasses `State`, to a result R."""

    State: ClassVar[type[Any]]

    @abstractmethod
    def start(self, problem: P) -> Any:
        """Return the state before the first step."""

    def step(self, problem: P, state: Any, run_tasks: RunTasks) -> Any:
        """Return the state after one more step."""
        return state

    def status(self, state: Any) -> Status:
        """Return the progress of a state; a method without steps is finished at the start."""
        return Status(1, 1, finished=True)

    @abstractmethod
    def finish(self, problem: P, state: Any, run_tasks: RunTasks) -> R:
        """Return the result of the last state."""

    def fit(self, problem: P, session: Session | None = None) -> R:
        """Run to the result, from the start or from the saved state of the session.

        Raises
        ------
        NumericalError
            If the iteration fails or does not converge.
        Interrupted
            If the session asks for it.
        """
        session = session or Session()
        state = from_arrays(self.State, session.former) if session.former else self.start(problem)
        return self.finish(problem, self.iterate(problem, state, session), session.run_tasks)

    def iterate(self, problem: P, state: Any, session: Session) -> Any:
        """Make and report steps until the state is finished, and return it."""
        while not self.status(state).finished:
            state = self.step(problem, state, session.run_tasks)
            session.report(self.status(state), state)
        return state
