"""Prior densities of the parameters that are learnt, and their texts.

A text names quantities and their densities: ``v: lognormal(-1, 1); 1/w: gamma(1, 1)``. Quantities
are those of the papers, whatever parameter of ours they are functions of:

- ``v``: every factor of a kernel, and the variance of ``linear``;
- ``l``: every length scale;
- ``w``: the inverse squared length scale. For p columns it is p / l^2 where all columns share l, as
  in k = v exp(-w |x - z|^2 / (2 p)) (SLH eq. 9), and 1 / l_j^2 for column j of ``ard`` (eq. 10);
- ``noise``: the variance of Gaussian noise;
- ``bias``: what a likelihood adds to a latent value.

A quantity is that of every kernel, where there are several. All but the bias are positive, and
``1/`` may stand before them. The density of a positive quantity q is that of log q, the free number
in which it is learnt: the density of q times q. With it the most probable parameters do not depend
on whether v, 1/v or log v is what a text names.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from sparsegp.errors import SettingsError
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers

FORM = re.compile(r"\s*(1\s*/\s*)?(\w+)\s*:\s*(\w+)\s*\(([^()]*)\)\s*")
EXAMPLE = "'v: lognormal(-1, 1); 1/w: gamma(1, 1); bias: normal(0, 25)'"


@dataclass(frozen=True)
class Density(ABC):
    """A density with two parameters, the second of them positive."""

    first: float
    second: float
    positive: ClassVar[bool] = True
    """True for densities of positive quantities, given their logarithms."""

    @abstractmethod
    def __call__(self, t: Doubles) -> tuple[Doubles, Doubles]:
        """Return minus the log density at free numbers t, and its derivative; any shape."""


DENSITIES: Registry[type[Density]] = Registry("density")


@DENSITIES.register("normal")
class Normal(Density):
    """normal(mean, variance), of a quantity that may have either sign."""

    positive: ClassVar[bool] = False

    def __call__(self, t: Doubles) -> tuple[Doubles, Doubles]:
        """Return (t - m)^2 / (2 s) + log(2 pi s) / 2 and its derivative."""
        away = t - self.first
        constant = 0.5 * math.log(2.0 * math.pi * self.second)
        return constant + np.square(away) / (2.0 * self.second), away / self.second


@DENSITIES.register("lognormal")
class LogNormal(Normal):
    """lognormal(mean, variance), both of the logarithm."""

    positive: ClassVar[bool] = True


@DENSITIES.register("gamma")
@dataclass(frozen=True)
class Gamma(Density):
    """gamma(mean, degrees of freedom): shape f / 2 and rate f / (2 mean)."""

    def __post_init__(self) -> None:
        if not self.first > 0:
            raise SettingsError(f"the mean of gamma must be positive, got {self.first}")

    def __call__(self, t: Doubles) -> tuple[Doubles, Doubles]:
        """Return rate e^t - shape t + log Gamma(shape) - shape log rate and its derivative."""
        shape = self.second / 2.0
        rate = shape / self.first
        weight = rate * np.exp(t)
        constant = float(gammaln(shape)) - shape * math.log(rate)
        return constant + weight - shape * t, weight - shape


@dataclass(frozen=True)
class Quantity:
    """A quantity whose free number is factor * parameter + (log p, or nothing).

    Attributes
    ----------
    names : str
        Regular expression of the parameters that it is made of.
    factor : float
    columns : bool
        Whether log p is added.
    positive : bool
    """

    names: str
    factor: float = 1.0
    columns: bool = False
    positive: bool = True


QUANTITIES: dict[str, list[Quantity]] = {
    "v": [Quantity(r"constant\.value|linear\.variance")],
    "l": [Quantity(r"\w+\.length_scales?")],
    "w": [
        Quantity(r"\w+\.length_scale", -2.0, columns=True),
        Quantity(r"\w+\.length_scales", -2.0),
    ],
    "noise": [Quantity(r"gaussian\.log_noise_variance")],
    "bias": [Quantity(r"\w+\.bias(_\d+)?", positive=False)],
}


@dataclass(frozen=True)
class Term:
    """The density of some parameters t, through factor * t + offset."""

    density: Density
    index: Integers
    factor: float
    offset: float


@dataclass(frozen=True)
class Hyperprior:
    """A product of densities.

    Parameters
    ----------
    terms : tuple of Term
    """

    terms: tuple[Term, ...] = ()

    def __call__(self, parameters: Doubles) -> tuple[float, Doubles]:
        """Return -log P and its gradient, (q,), at free parameters (q,)."""
        total, gradient = 0.0, np.zeros(len(parameters))
        for term in self.terms:
            value, slope = term.density(term.factor * parameters[term.index] + term.offset)
            total += float(value.sum())
            gradient[term.index] += term.factor * slope
        return total, gradient


def parse(text: str, names: Sequence[str], n_features: int) -> Hyperprior:
    """Return the hyperprior that a text describes.

    Parameters
    ----------
    text : str
        See the head of this file; nothing in it means no hyperprior.
    names : sequence of str
        What the parameters are: `kernel.parameter_names`, behind the number of the kernel and a
        colon where there are several, then those of the likelihood behind its name and a dot.
    n_features : int
        Columns of the inputs.

    Raises
    ------
    SettingsError
        If the text cannot be read, or a quantity is not among the parameters.
    """
    terms: list[Term] = []
    for piece in filter(str.strip, text.split(";")):
        found = FORM.fullmatch(piece)
        if found is None or found[2] not in QUANTITIES:
            raise SettingsError(
                f"a hyperprior must be a quantity ({', '.join(QUANTITIES)}), a colon and a "
                f"density, got {piece.strip()!r}; write for example {EXAMPLE}"
            )
        density = _density(found[3], found[4], piece)
        bound = _bind(density, found[2], bool(found[1]), names, n_features)
        if not bound:
            raise SettingsError(
                f"hyperprior {piece.strip()!r} must be of a parameter that is learnt, got "
                f"parameters {', '.join(dict.fromkeys(names))}; leave it out"
            )
        terms += bound
    return Hyperprior(tuple(terms))


def _density(name: str, arguments: str, piece: str) -> Density:
    numbers = arguments.split(",")
    try:
        first, second = map(float, numbers)
    except ValueError:
        raise SettingsError(
            f"a density takes two numbers, got {piece.strip()!r}; write for example {EXAMPLE}"
        ) from None
    if not (math.isfinite(first) and 0 < second < math.inf):
        raise SettingsError(
            "the numbers of a density must be finite, the second one positive, got "
            f"{piece.strip()!r}"
        )
    return DENSITIES[name](first, second)


def _bind(
    density: Density, name: str, inverted: bool, names: Sequence[str], n_features: int
) -> list[Term]:
    terms = []
    for quantity in QUANTITIES[name]:
        if density.positive != quantity.positive or inverted > quantity.positive:
            kind = "positive, and takes lognormal or gamma" if quantity.positive else "not positive"
            raise SettingsError(
                f"a density must suit its quantity, got {type(density).__name__.lower()} of "
                f"{'1/' * inverted}{name}; {name} is {kind}"
            )
        form = re.compile(rf"(\d+:)?({quantity.names})")  # behind the number of the kernel
        index = np.array([i for i, x in enumerate(names) if form.fullmatch(x)], int)
        if len(index):
            sign = -1.0 if inverted else 1.0
            offset = math.log(n_features) if quantity.columns else 0.0
            terms.append(Term(density, index, sign * quantity.factor, sign * offset))
    return terms
