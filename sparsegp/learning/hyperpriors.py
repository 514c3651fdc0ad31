"""Hyperpriors, the prior densities of learnt parameters, and their text form.

A text names quantities and their densities: ``v: lognormal(-1, 1); 1/w: gamma(1, 1)``. Quantities
are named as in the papers, and computed from the parameters of the kernels and likelihoods here:

- ``v``: every factor of a kernel, and the variance of ``linear``;
- ``l``: every length scale;
- ``w``: the inverse squared length scale. For p columns it is p / l^2 where all columns share l, as
  in k = v exp(-w |x - z|^2 / (2 p)) (SLH eq. 9), and 1 / l_j^2 for column j of ``ard`` (eq. 10);
- ``noise``: the variance of Gaussian noise;
- ``bias``: what a likelihood adds to a latent value.

If there are several kernels, a quantity refers to all of them. All but the bias are positive, and
may be preceded by ``1/``. For a positive quantity q, the density is that of log q, the
unconstrained parameter that is learnt: the density of q times q. So the most probable parameters do
not depend on whether a text names v, 1/v or log v.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaln

from sparsegp.errors import SettingsError
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Integers

FORM = re.compile(r"\s*(1\s*/\s*)?(\w+)\s*:\s*(\w+)\s*\(([^()]*)\)\s*")
EXAMPLE = "'v: lognormal(-1, 1); 1/w: gamma(1, 1); bias: normal(0, 25)'"

Density: TypeAlias = Callable[[Doubles, float, float], tuple[Doubles, Doubles]]
"""Maps t (any shape) and two parameters to minus the log density and its derivative. The second
parameter is positive; t is the logarithm of the quantity, if that is positive."""

DENSITIES: Registry[Density] = Registry("density")


@DENSITIES.register("normal")
@DENSITIES.register("lognormal")
def normal(t: Doubles, mean: float, variance: float) -> tuple[Doubles, Doubles]:
    """Return (t - m)^2 / (2 s) + log(2 pi s) / 2 and its derivative."""
    residual = t - mean
    constant = 0.5 * math.log(2.0 * math.pi * variance)
    return constant + np.square(residual) / (2.0 * variance), residual / variance


@DENSITIES.register("gamma")
def gamma(t: Doubles, mean: float, freedom: float) -> tuple[Doubles, Doubles]:
    """Return r e^t - k t + log Gamma(k) - k log r and its derivative, k = f / 2, r = k / mean."""
    shape = freedom / 2.0
    rate = shape / mean
    weight = rate * np.exp(t)
    constant = float(gammaln(shape)) - shape * math.log(rate)
    return constant + weight - shape * t, weight - shape


class Quantity(NamedTuple):
    """A quantity q; log q, or q if it may be negative, is factor * parameter (+ log p)."""

    names: str  # regular expression for the names of its parameters
    factor: float = 1.0
    columns: bool = False  # whether log p is added, for p columns
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
    """Density of factor * t + offset for the parameters t at `index`; `numbers` are its own."""

    density: Density
    numbers: tuple[float, float]
    index: Integers
    factor: float
    offset: float


@dataclass(frozen=True)
class Hyperprior:
    """A product of densities."""

    terms: tuple[Term, ...] = ()

    def __call__(self, parameters: Doubles) -> tuple[float, Doubles]:
        """Return -log P and its gradient, (q,), at unconstrained parameters (q,)."""
        total, gradient = 0.0, np.zeros(len(parameters))
        for term in self.terms:
            t = term.factor * parameters[term.index] + term.offset
            value, slope = term.density(t, *term.numbers)
            total += float(value.sum())
            gradient[term.index] += term.factor * slope
        return total, gradient


def parse(text: str, names: Sequence[str], n_features: int) -> Hyperprior:
    """Create the hyperprior that a text describes.

    Parameters
    ----------
    text : str
        See the module docstring; an empty text means no hyperprior.
    names : sequence of str
        Names of the parameters, as from `objective.parameter_names`.
    n_features : int
        Number of input columns.

    Raises
    ------
    SettingsError
        If the text cannot be read, or a quantity has no parameter.
    """
    terms: list[Term] = []
    for piece in filter(str.strip, text.split(";")):
        found = FORM.fullmatch(piece)
        if found is None or found[2] not in QUANTITIES:
            raise SettingsError(
                f"a hyperprior must be a quantity ({', '.join(QUANTITIES)}), a colon and a "
                f"density, got {piece.strip()!r}; write for example {EXAMPLE}"
            )
        density, numbers = DENSITIES[found[3]], _numbers(found[3], found[4], piece)
        bound = [
            Term(density, numbers, *place)
            for place in _places(found[2], found[3], bool(found[1]), names, n_features)
        ]
        if not bound:
            raise SettingsError(
                f"hyperprior {piece.strip()!r} must be of a parameter that is learnt, got "
                f"parameters {', '.join(dict.fromkeys(names))}; leave it out"
            )
        terms += bound
    return Hyperprior(tuple(terms))


def _numbers(density: str, arguments: str, piece: str) -> tuple[float, float]:
    """Return the parameters of a density."""
    try:
        first, second = map(float, arguments.split(","))
    except ValueError:
        raise SettingsError(
            f"a density takes two numbers, got {piece.strip()!r}; write for example {EXAMPLE}"
        ) from None
    if not (math.isfinite(first) and 0 < second < math.inf):
        raise SettingsError(
            "the numbers of a density must be finite, the second one positive, got "
            f"{piece.strip()!r}"
        )
    if density == "gamma" and not first > 0:
        raise SettingsError(f"the mean of gamma must be positive, got {first}")
    return first, second


def _places(
    name: str, density: str, inverted: bool, names: Sequence[str], n_features: int
) -> Iterator[tuple[Integers, float, float]]:
    """Yield index, factor and offset for the parameters of a quantity."""
    sign = -1.0 if inverted else 1.0
    for quantity in QUANTITIES[name]:
        if (density != "normal") != quantity.positive or inverted > quantity.positive:
            kind = "positive, and takes lognormal or gamma" if quantity.positive else "not positive"
            raise SettingsError(
                f"a density must suit its quantity, got {density} of {'1/' * inverted}{name}; "
                f"{name} is {kind}"
            )
        form = re.compile(rf"(\d+:)?({quantity.names})")  # a kernel's number may come first
        index = np.array([i for i, x in enumerate(names) if form.fullmatch(x)], int)
        if len(index):
            offset = math.log(n_features) if quantity.columns else 0.0
            yield index, sign * quantity.factor, sign * offset
