"""The dense methods: their contract, their registry and their texts.

A method takes all rows at once, in O(n^3), and returns a posterior of the latent values of the
rows, as a mixture of Gaussians (component.py). It is a frozen dataclass whose fields are its
options; ``class EP(Method, name="ep")`` enters it in `METHODS`.
"""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.component import Component
from sparsegp.errors import SettingsError
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.likelihoods.parse import parse as parse_likelihood
from sparsegp.registry import Registry
from sparsegp.types import Doubles


@dataclass(frozen=True)
class Problem:
    """What is to be inferred.

    Attributes
    ----------
    x : Doubles (n, p)
        Scaled inputs.
    target : array (n,)
        Class codes 0..K-1, or standardised numbers.
    kernels : sequence of Kernel
        C of them: one for all latent values, or one each.
    likelihood : Likelihood
    n_latent : int
        R, the latent values of a row.
    seed : int
        Key of whatever is random.
    learns_likelihood : bool
        Whether the parameters of the likelihood are among those to be learnt.
    """

    x: Doubles
    target: NDArray[Any]
    kernels: Sequence[Kernel]
    likelihood: Likelihood
    n_latent: int
    seed: int = 0
    learns_likelihood: bool = False

    def covariances(self) -> Doubles:
        """Return the prior covariance of the rows under each kernel, (C, n, n)."""
        return np.stack([np.asarray(kernel(self.x, self.x), np.float64) for kernel in self.kernels])

    def parameters(self) -> Doubles:
        """Return the free parameters of all kernels, then those learnt of the likelihood, (q,)."""
        own = [kernel.parameters() for kernel in self.kernels]
        return np.concatenate([*own, *([self.likelihood.parameters()] * self.learns_likelihood)])

    def with_parameters(self, values: Doubles) -> Self:
        """Return the same problem with other `parameters`, (q,)."""
        ends = np.cumsum([len(kernel.parameters()) for kernel in self.kernels])
        *own, others = np.split(values, ends)
        pairs = zip(self.kernels, own, strict=True)
        kernels = [kernel.with_parameters(some) for kernel, some in pairs]
        if not self.learns_likelihood:
            return replace(self, kernels=kernels)
        likelihood = self.likelihood.with_parameters(others)
        return replace(self, kernels=kernels, likelihood=likelihood)

    def pull_back(self, weights: Sequence[Doubles]) -> Doubles:
        """Return the gradient in the parameters of kernels of a function of the covariances, (q,).

        Parameters
        ----------
        weights : sequence of Doubles (n, n)
            Its gradient in each of the C covariance matrices.
        """
        pairs = zip(self.kernels, weights, strict=True)
        return np.concatenate([kernel.pull_back(self.x, self.x, some) for kernel, some in pairs])


class Watch(Protocol):
    """Who follows a long fit, keeps what it has reached, and may end it.

    Attributes
    ----------
    former : mapping
        Arrays that `say` was given before the fit was interrupted, or empty.
    """

    former: Mapping[str, NDArray[Any]]

    def say(
        self, done: int, total: int, state: Callable[[], dict[str, NDArray[Any]]], **figures: float
    ) -> None:
        """Tell how far the fit is, and how to go on from there; may raise Interrupted.

        Parameters
        ----------
        done, total : int
            Steps; a total of 0 is one that is not known.
        state : callable
            Gives the arrays from which a fit goes on, with the same result to the last bit.
        **figures
            What may be shown: log_evidence, step, accepted, ...
        """

    def map(self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]) -> Any:
        """Yield (number, function(shared, task)) for each task, side by side where that can be.

        `function` is one of a module, and all arguments can be pickled. The order is that in which
        they end.
        """


class Alone:
    """A watch that nobody looks at."""

    former: Mapping[str, NDArray[Any]] = {}

    def say(
        self, done: int, total: int, state: Callable[[], dict[str, NDArray[Any]]], **figures: float
    ) -> None:
        """Do nothing."""

    def map(self, function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any]) -> Any:
        """Yield the results, one after the other."""
        for number, task in enumerate(tasks):
            yield number, function(shared, task)


@dataclass(frozen=True)
class Evidence:
    """The log marginal likelihood, as a method approximates it.

    Attributes
    ----------
    value : float
        In nats.
    gradient : Doubles (q,)
        In `Problem.parameters`.
    start : array
        Where the search for the posterior ended; one for nearby parameters may set out from there.
    """

    value: float
    gradient: Doubles
    start: NDArray[Any]


@dataclass(frozen=True)
class Fit:
    """What a method has found.

    Attributes
    ----------
    components : sequence of Component
        The posterior, as a mixture of them.
    log_evidence : float
        In nats; nan where the method has none.
    trace : sequence of dict
        Figures of each step, plain numbers.
    report : dict
        What happened on the way, plain JSON.
    """

    components: Sequence[Component]
    log_evidence: float = float("nan")
    trace: Sequence[Mapping[str, float]] = ()
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method(ABC):
    """A way to the posterior of all rows; its fields are options: numbers, words, or flags."""

    name: ClassVar[str] = ""
    likelihoods: ClassVar[tuple[str, ...]] = ()
    """Names of those it is for; the first that suits the number of classes is the default."""

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.name = name
            METHODS.register(name)(cls)

    @abstractmethod
    def fit(self, problem: Problem, watch: Watch) -> Fit:
        """Return the posterior.

        Raises
        ------
        NumericalError
            If it does not converge; says what to change.
        Interrupted
            If the watch asks for it.
        """

    @property
    def has_evidence(self) -> bool:
        """Whether `evidence` is there, by which kernels can be learnt."""
        return type(self).evidence is not Method.evidence

    def evidence(self, problem: Problem, start: NDArray[Any] | None = None) -> Evidence:
        """Return the log marginal likelihood and its gradient.

        Parameters
        ----------
        problem : Problem
        start : array, optional
            `Evidence.start` of nearby parameters; it changes the way, not the end.

        Raises
        ------
        SettingsError
            If the method has none.
        """
        having = [name for name in METHODS if METHODS[name]().has_evidence]
        raise SettingsError(
            f"method={self.name} has no gradient of a marginal likelihood; use one of "
            f"{', '.join(having)}"
        )

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices of doubles it holds at a time.

        `likelihood` is a name; the default one if empty.
        """
        return 2 * n_kernels + 3

    def __str__(self) -> str:
        values = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        named = [f"{name}={value!r}" for name, value, default in values if value != default]
        return f"{self.name}({', '.join(named)})" if named else self.name

    def to_json(self) -> dict[str, Any]:
        """Return name and options as plain JSON values."""
        return {"name": self.name, **asdict(self)}


METHODS: Registry[type[Method]] = Registry("method")


def parse_method(text: str) -> Method:
    """Return the method of a text: ``ep`` or ``ep(damping=0.5)``; the inverse of ``str``.

    Raises
    ------
    UnknownNameError
        If there is no method of that name.
    SettingsError
        If the text cannot be read, or an option is not known or out of range.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(text, "expected a name, then name=value in parentheses") from None
    match node:
        case ast.Name(name):
            given: list[ast.keyword] = []
        case ast.Call(ast.Name(name), [], given):
            pass
        case _:
            raise _unreadable(text, "expected a name, then name=value in parentheses")
    family = METHODS[name]
    kinds = {each.name: type(each.default) for each in fields(family)}
    values = {}
    for option in given:
        if option.arg not in kinds:
            known = ", ".join(kinds) or "none"
            raise _unreadable(text, f"{name} has no option {option.arg}; known: {known}")
        values[option.arg] = _value(text, option, kinds[option.arg])
    return family(**values)


def _value(text: str, option: ast.keyword, kind: type) -> Any:
    """Return the value of an option, of the type of its default."""
    try:
        value = ast.literal_eval(option.value)
    except ValueError:
        value = None
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        what = {
            int: "a whole number",
            float: "a number",
            bool: "True or False",
            str: "a word in ''",
        }
        found = ast.unparse(option.value)
        raise _unreadable(text, f"{option.arg} must be {what.get(kind, kind)}, got {found}")
    return value


def _unreadable(text: str, reason: str) -> SettingsError:
    return SettingsError(f"cannot read method {text!r}: {reason}; write for example 'laplace'")


def likelihood_for(method: type[Method], n_classes: int, wanted: str = "") -> Likelihood:
    """Return the likelihood by name, or the first of a method's that suits so many classes.

    Raises
    ------
    SettingsError
        If the method is not for it, or it is not for so many classes.
    """
    named = parse_likelihood(wanted).family.name if wanted else ""
    if wanted and named not in method.likelihoods:
        raise SettingsError(
            f"method={method.name} is for likelihood={' or '.join(method.likelihoods)}, "
            f"got {wanted}"
        )
    refusals = []
    for name in (wanted,) if wanted else method.likelihoods:
        try:
            return _started(name, n_classes)
        except SettingsError as error:
            refusals.append(str(error))
    suited = _suited(method, n_classes)
    others = [name for name in METHODS if _suited(METHODS[name], n_classes)]
    if not others:
        raise SettingsError("; ".join(refusals))
    reasons = "; ".join(text.partition(";")[0] for text in refusals)  # without advice of their own
    advice = f"likelihood={' or '.join(suited)}" if suited else f"method={' or '.join(others)}"
    raise SettingsError(f"method={method.name}: {reasons}; use {advice}")


def _started(text: str, n_classes: int) -> Likelihood:
    """Return a likelihood by its text.

    Raises
    ------
    SettingsError
        If it is not for so many classes.
    """
    wanted = parse_likelihood(text)
    # all that dense methods ask of softmax is its density, for any number of classes
    return wanted.family() if wanted.family.name == "softmax" else wanted.start(n_classes)


def _suited(method: type[Method], n_classes: int) -> list[str]:
    """Return the likelihoods of a method that are for so many classes."""
    found = []
    for name in method.likelihoods:
        with suppress(SettingsError):
            if not _started(name, n_classes).numeric:
                found.append(name)
    return found
