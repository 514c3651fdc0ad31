"""The dense methods: their contract and their registry.

A method takes all rows at once, in O(n^3), and returns a posterior of the latent values of the
rows, as a mixture of Gaussians (mixture.py). It is a frozen dataclass whose fields are its options;
``class EP(Method, name="ep")`` enters it in `METHODS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sparsegp.dense.driver import Iterative, Session
from sparsegp.dense.mixture import Component, covariances
from sparsegp.errors import SettingsError
from sparsegp.fields import Checked
from sparsegp.kernels import Kernel
from sparsegp.learning.objective import with_parameters
from sparsegp.likelihoods import Likelihood
from sparsegp.likelihoods.parse import parse as parse_likelihood
from sparsegp.registry import Registry
from sparsegp.texts import read
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
        return covariances(self.kernels, self.x, self.x)

    @cached_property
    def prior(self) -> Doubles:
        """The `covariances`, kept."""
        return self.covariances()

    @property
    def biases(self) -> Doubles:
        """What the likelihood adds to latent values, (R,); none is as if all were zero."""
        found = self.likelihood.parameters()
        return found if len(found) else np.zeros(self.n_latent)

    def parameters(self) -> Doubles:
        """Return the free parameters of all kernels, then those learnt of the likelihood, (q,)."""
        own = [kernel.parameters() for kernel in self.kernels]
        return np.concatenate([*own, *([self.likelihood.parameters()] * self.learns_likelihood)])

    def with_parameters(self, values: Doubles) -> Self:
        """Return the same problem with other `parameters`, (q,)."""
        if self.learns_likelihood:
            kernels, likelihood = with_parameters(self.kernels, self.likelihood, values)
            return replace(self, kernels=kernels, likelihood=likelihood)
        every = np.concatenate([values, self.likelihood.parameters()])
        return replace(self, kernels=with_parameters(self.kernels, self.likelihood, every)[0])

    def pull_back(self, parts: Iterable[tuple[int, Doubles]]) -> Doubles:
        """Return the gradient in the parameters of kernels of a function of the covariances, (q,).

        Parameters
        ----------
        parts : iterable of (int, Doubles (n, n))
            Numbers of latent values, and parts of the gradient in their prior covariances.
        """
        weights = np.zeros((len(self.kernels), len(self.x), len(self.x)))
        for r, part in parts:
            weights[r % len(weights)] += part
            del part  # before the next one is made: they are the memory
        pairs = zip(self.kernels, weights, strict=True)
        return np.concatenate([kernel.pull_back(self.x, self.x, some) for kernel, some in pairs])

    def posterior(self, coefficients: Doubles, form: str, precision: Doubles) -> Component:
        """Return a component of the posterior under the prior of this problem; see `Component`."""
        return Component(self.kernels, self.likelihood, coefficients, form, precision)


@dataclass(frozen=True)
class LogEvidence:
    """The log marginal likelihood, as a method approximates it.

    Attributes
    ----------
    value : float
        In nats.
    gradient : Doubles (q,)
        In `Problem.parameters`.
    near : array
        Where the search for the posterior ended; one for nearby parameters may set out from there.
    """

    value: float
    gradient: Doubles
    near: NDArray[Any]


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
class Method(Checked, Iterative[Problem, Fit]):
    """A way to the posterior of all rows; its fields are options: numbers, words, or flags."""

    name: ClassVar[str] = ""
    likelihoods: ClassVar[tuple[str, ...]] = ()
    """Names of those it is for; the first that suits the number of classes is the default."""

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.name = name
            METHODS.register(name)(cls)

    def __str__(self) -> str:  # what `parse_method` reads; reports of samples have it
        pairs = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        options = ", ".join(f"{name}={value!r}" for name, value, at in pairs if value != at)
        return f"{self.name}({options})" if options else self.name

    def start(self, problem: Problem, near: NDArray[Any] | None = None) -> Any:
        """Return the state before the first step.

        Parameters
        ----------
        problem : Problem
        near : array, optional
            `LogEvidence.near` of nearby parameters; it changes the way, not the end.
        """
        raise NotImplementedError

    def evidence(self, problem: Problem, near: NDArray[Any] | None = None) -> LogEvidence:
        """Return the log marginal likelihood and its gradient; parameters as for `start`.

        Raises
        ------
        SettingsError
            If the method has none.
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
        """Whether there is an `evidence`, by which kernels can be learnt."""
        return type(self).gradient is not Method.gradient

    def gradient(self, problem: Problem, state: Any) -> LogEvidence:
        """Return the log marginal likelihood and its gradient, of the last state."""
        raise NotImplementedError

    def matrices(self, n_kernels: int, n_latent: int, likelihood: str = "") -> int:
        """Return how many (n, n) matrices of doubles it holds at a time.

        `likelihood` is a name; the default one if empty.
        """
        return 5 * n_kernels + 3


METHODS: Registry[type[Method]] = Registry("method")


def parse_method(text: str) -> Method:
    """Return the method of a text: ``ep``, or with options ``ep(damping=0.5)``.

    Raises
    ------
    UnknownNameError
        If there is no method of that name.
    SettingsError
        If the text cannot be read, or an option is not known or out of range.
    """
    method, made = read(text, METHODS, "'ep(damping=0.5)'", ["ivm"])  # which is no dense one
    return made or method()


def likelihood_for(method: type[Method], n_classes: int, wanted: str = "") -> Likelihood:
    """Return the likelihood by name, or the first of a method's that suits so many classes.

    Parameters
    ----------
    method : type of Method
    n_classes : int
    wanted : str
        Name of the likelihood, perhaps with its numbers.

    Raises
    ------
    SettingsError
        If the method is not for it, or it is not for so many classes.
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
            refusals.append(str(error).partition(";")[0])  # without advice of its own
    own = _suited(method, n_classes)
    others = [name for name in METHODS if _suited(METHODS[name], n_classes)]
    advice = f"; use {'likelihood' if own else 'method'}={' or '.join(own or others)}"
    raise SettingsError(f"method={method.name}: {'; '.join(refusals)}{advice if others else ''}")


def _started(text: str, n_classes: int) -> Likelihood:
    """Return a likelihood by its text; raises a SettingsError if it is not for so many classes."""
    parsed = parse_likelihood(text)
    # dense methods need no more than the density of softmax, for any number of classes
    return parsed.family() if parsed.family.name == "softmax" else parsed.start(n_classes)


def _suited(method: type[Method], n_classes: int) -> list[str]:
    """Return the likelihoods of a method that are for so many classes."""
    found = []
    for name in method.likelihoods:
        with suppress(SettingsError):
            found += [name] * (not _started(name, n_classes).numeric)
    return found
