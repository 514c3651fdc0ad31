"""Base class and registry of the dense methods.

A method uses all rows, in O(n^3) time, and returns the posterior of their latent values as a
mixture of Gaussians (mixture.py). It is a frozen dataclass whose fields are its options;
``class EP(Method, name="ep")`` registers it in `METHODS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.mixture import Component, covariances
from sparsegp.errors import SettingsError
from sparsegp.fields import Checked
from sparsegp.kernels import Kernel
from sparsegp.learning.objective import parameter_names, with_parameters
from sparsegp.likelihoods import Likelihood
from sparsegp.likelihoods.parse import parse as parse_likelihood
from sparsegp.registry import Registry
from sparsegp.state import from_arrays
from sparsegp.texts import Member, read
from sparsegp.types import Doubles

P = TypeVar("P")


@dataclass(frozen=True)
class Problem:
    """An inference problem: rows, kernels and likelihood."""

    x: Doubles  # scaled inputs (n, p)
    target: NDArray[Any]  # class codes 0..K-1, or standardised targets, (n,)
    kernels: Sequence[Kernel]  # C kernels: one for all latent values, or one each
    likelihood: Likelihood
    n_latent: int  # R, the number of latent values per row
    seed: int = 0  # seed of all random numbers
    learns_likelihood: bool = False  # whether the likelihood's parameters are learnt as well

    def covariances(self) -> Doubles:
        """Return the prior covariance of the rows under each kernel, (C, n, n)."""
        return covariances(self.kernels, self.x, self.x)

    @cached_property
    def prior(self) -> Doubles:
        """Cached result of `covariances`."""
        return self.covariances()

    @property
    def biases(self) -> Doubles:
        """Biases that the likelihood adds to latent values, (R,); zeros if it has none."""
        found = self.likelihood.parameters()
        return found if len(found) else np.zeros(self.n_latent)

    def parameters(self) -> Doubles:
        """Return the parameters of all kernels, then those of the likelihood if learnt, (q,)."""
        own = [kernel.parameters() for kernel in self.kernels]
        return np.concatenate([*own, *([self.likelihood.parameters()] * self.learns_likelihood)])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the `parameters`."""
        return parameter_names(self.kernels, self.likelihood)[: len(self.parameters())]

    def with_parameters(self, values: Doubles) -> Self:
        """Return the same problem with other `parameters`, (q,)."""
        fixed = [self.likelihood.parameters()] * (not self.learns_likelihood)
        every = np.concatenate([values, *fixed])
        kernels, likelihood = with_parameters(self.kernels, self.likelihood, every)
        return replace(self, kernels=kernels, likelihood=self.likelihood if fixed else likelihood)

    def pull_back(self, parts: Iterable[tuple[int, Doubles]]) -> Doubles:
        """Return the gradient in the kernel parameters, (q,), of a function of the covariances.

        Parameters
        ----------
        parts : iterable of (int, Doubles (n, n))
            Indices of latent values, and terms of the gradient in their prior covariances.
        """
        weights = np.zeros((len(self.kernels), len(self.x), len(self.x)))
        for r, part in parts:
            weights[r % len(weights)] += part
            del part  # before the next one is made, to save memory
        pairs = zip(self.kernels, weights, strict=True)
        return np.concatenate([kernel.pull_back(self.x, self.x, some) for kernel, some in pairs])

    def posterior(self, coefficients: Doubles, form: str, precision: Doubles) -> Component:
        """Return a posterior component with the kernels and likelihood of the problem."""
        return Component(self.kernels, self.likelihood, coefficients, form, precision)


@dataclass(frozen=True)
class LogEvidence:
    """A method's approximation of the log marginal likelihood."""

    value: float  # in nats
    gradient: Doubles  # with respect to `Problem.parameters`, (q,)
    near: NDArray[Any]  # result of the search for the posterior; starting point for nearby ones


@dataclass(frozen=True)
class Fit:
    """Result of a method."""

    components: Sequence[Component]  # of the posterior, a mixture with equal weights
    log_evidence: float = float("nan")  # in nats; nan if the method has none
    trace: Sequence[Mapping[str, float]] = ()  # plain numbers for each step
    report: Mapping[str, Any] = field(default_factory=dict)  # diagnostics, as plain JSON


@dataclass(frozen=True)
class Status:
    """Progress of an iteration: steps done, their total (0 if unknown), and numbers to show.

    A finished iteration has nothing left to do, and so nothing to save.
    """

    done: int
    total: int = 0
    finished: bool = False
    figures: Mapping[str, float] = field(default_factory=dict)


RunTasks: TypeAlias = Callable[[Callable[[Any, Any], Any], Any, Sequence[Any]], list[Any]]
"""Maps a module-level function, shared data and tasks, all of which can be pickled, to the results
function(shared, task) in the order of the tasks."""


@dataclass(frozen=True)
class Session:
    """Environment of an iteration."""

    # arrays of a saved state to resume from (state.py), or empty
    former: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    # called after every step; may save the state (state.py), and may raise Interrupted
    report: Callable[[Status, Any], None] = lambda status, state: None
    # runs independent parts of a step, in parallel if possible; by default one after another
    run_tasks: RunTasks = lambda function, shared, tasks: [function(shared, each) for each in tasks]


class Iterative(ABC, Generic[P]):
    """An iteration from a problem P, through states of a dataclass `State`, to a `Fit`.

    Subclasses define the initial state, a step, the progress of a state, and the result of the last
    state. The session's `report` shows the progress and saves the states.
    """

    State: ClassVar[type[Any]]

    @abstractmethod
    def start(self, problem: P, near: NDArray[Any] | None = None) -> Any:
        """Return the state before the first step.

        Parameters
        ----------
        problem : P
        near : array, optional
            `LogEvidence.near` of nearby parameters; it affects the speed, not the result.
        """

    def step(self, problem: P, state: Any, run_tasks: RunTasks) -> Any:
        """Return the state after one more step."""
        return state

    def status(self, state: Any) -> Status:
        """Return the progress of a state; by default there are no steps, and it is finished."""
        return Status(1, 1, finished=True)

    @abstractmethod
    def finish(self, problem: P, state: Any, run_tasks: RunTasks) -> Fit:
        """Return the result of the last state."""

    def fit(self, problem: P, session: Session | None = None) -> Fit:
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
        """Make and report steps until the state is finished, and return that state."""
        while not self.status(state).finished:
            state = self.step(problem, state, session.run_tasks)
            session.report(self.status(state), state)
        return state


METHODS: Registry[type["Method"]] = Registry("method")


@dataclass(frozen=True)
class Method(Checked, Member, Iterative[Problem]):
    """An inference method that uses all rows; its fields are options: numbers, words or flags."""

    family: ClassVar[Registry[Any]] = METHODS
    likelihoods: ClassVar[tuple[str, ...]] = ()
    """Names of supported likelihoods; the first that suits the number of classes is the default."""

    def __str__(self) -> str:  # read by `parse_method`, and part of reports
        pairs = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        options = ", ".join(f"{name}={value!r}" for name, value, at in pairs if value != at)
        return f"{self.name}({options})" if options else self.name

    def evidence(self, problem: Problem, near: NDArray[Any] | None = None) -> LogEvidence:
        """Return the log marginal likelihood and its gradient; parameters as for `start`.

        Raises
        ------
        SettingsError
            If the method does not compute this gradient.
        """
        if not self.has_evidence:
            having = [name for name in METHODS if METHODS[name]().has_evidence]
            raise SettingsError(
                f"method={self.name} has no gradient of a marginal likelihood; use one of "
                f"{', '.join(having)}"
            )
        return self.gradient(problem, self.iterate(problem, self.start(problem, near), Session()))

    @property
    def has_evidence(self) -> bool:
        """Whether the method has an `evidence`, by which kernels can be learnt."""
        return type(self).gradient is not Method.gradient

    @property
    def learns_kernels(self) -> bool:
        """Whether the method itself learns the kernels."""
        return False

    def gradient(self, problem: Problem, state: Any) -> LogEvidence:
        """Return the log marginal likelihood and its gradient at the last state."""
        raise NotImplementedError

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return the peak number of (n, n) matrices of doubles in memory.

        `likelihood` is a name; the default likelihood if empty.
        """
        return 5 * n_kernels + 3


def parse_method(text: str) -> Method:
    """Return the method that a text describes: ``ep``, or with options ``ep(damping=0.5)``.

    Raises
    ------
    UnknownNameError
        If there is no method of that name.
    SettingsError
        If the text cannot be read, or an option is unknown or out of range.
    """
    method, made = read(text, METHODS, "'ep(damping=0.5)'", ["ivm"])  # not a dense method
    return made or method()


def likelihood_for(method: type[Method], n_classes: int, wanted: str = "") -> Likelihood:
    """Return a likelihood by name, or the method's first that suits the number of classes.

    Parameters
    ----------
    method : type of Method
    n_classes : int
    wanted : str
        Text of the likelihood; empty for the method's default.

    Raises
    ------
    SettingsError
        If the method does not support it, or it does not suit the number of classes.
    """
    if wanted and parse_likelihood(wanted).family.name not in method.likelihoods:
        raise SettingsError(
            f"method={method.name} is for likelihood={' or '.join(method.likelihoods)}, "
            f"got {wanted}"
        )
    refusals = []
    for name in (wanted,) if wanted else method.likelihoods:
        try:
            return _started(name, n_classes)
        except SettingsError as error:
            refusals.append(str(error).partition(";")[0])  # drops the advice
    own = _suited(method, n_classes)
    others = [name for name in METHODS if _suited(METHODS[name], n_classes)]
    advice = f"; use {'likelihood' if own else 'method'}={' or '.join(own or others)}"
    raise SettingsError(f"method={method.name}: {'; '.join(refusals)}{advice if others else ''}")


def _started(text: str, n_classes: int) -> Likelihood:
    """Return the likelihood of a text; raise a SettingsError if it does not suit the classes."""
    parsed = parse_likelihood(text)
    # dense methods need only the density of the softmax, which suits any number of classes
    return parsed.family() if parsed.family.name == "softmax" else parsed.start(n_classes)


def _suited(method: type[Method], n_classes: int) -> list[str]:
    """Return the names of a method's classification likelihoods that suit the classes."""
    found = []
    for name in method.likelihoods:
        with suppress(SettingsError):
            found += [name] * (not _started(name, n_classes).numeric)
    return found
