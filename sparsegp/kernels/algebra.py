"""Sums and products of kernels, and constants: the nodes of an expression tree."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Self

import numpy as np

from sparsegp.kernels.base import OPERATIONS, Kernel
from sparsegp.kernels.checks import SMALLEST, check_range, positive
from sparsegp.kernels.pair import InputPair
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Constant(Kernel, name="constant"):
    """k(x, z) = value, written as the number itself: ``0.5 + rbf(2)``.

    Parameters
    ----------
    value : float
        Positive, in the unit of the variance of the latent function.
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive(self.value, "a constant kernel"))

    def _matrix(self, pair: InputPair) -> Floats:
        X, Z = pair.X, pair.Z
        batch = np.broadcast_shapes(X.shape[:-2], Z.shape[:-2])
        value = check_range(self.value, X.dtype, self)
        return np.full((*batch, X.shape[-2], Z.shape[-2]), value, X.dtype)

    def _diag(self, X: Floats) -> Floats:
        return np.full(X.shape[:-1], check_range(self.value, X.dtype, self), X.dtype)

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        total = self.value * float(weights.sum())
        return total, np.array([total])

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.array([self.value * weights.sum()])

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        return np.zeros((weights.shape[1], *X.shape))

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return the value and zeros; see `Kernel.slope_variances`."""
        return self.value, np.zeros_like(deviations)

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Combination(Kernel):
    """Kernels joined by one operation, in the order of the text; nested ones are flattened."""

    parts: tuple[Kernel, ...]

    _join: ClassVar[np.ufunc]

    def __post_init__(self) -> None:
        parts = map(_operand, self.parts)
        own = (part.parts if isinstance(part, type(self)) else (part,) for part in parts)
        object.__setattr__(self, "parts", tuple(part for parts in own for part in parts))

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """Leaves of all parts."""
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    def fill(self, variances: Doubles) -> Kernel:
        """Return the same tree with the default length scales filled in; see `Kernel.fill`."""
        return type(self)(tuple(part.fill(variances) for part in self.parts))

    def with_parameters(self, logs: Doubles) -> Self:
        """Return the same tree with other parameters."""
        ends = np.cumsum([len(part.parameters()) for part in self.parts])
        pairs = zip(self.parts, np.split(logs, ends[:-1]), strict=True)
        return type(self)(tuple(part.with_parameters(own) for part, own in pairs))

    def _matrix(self, pair: InputPair) -> Floats:
        return self._reduce(pair.matrix, in_place=not pair.keeps)

    def _diag(self, X: Floats) -> Floats:
        return self._reduce(lambda kernel: kernel._diag(X))

    def _reduce(self, evaluate: Callable[[Kernel], Floats], in_place: bool = True) -> Floats:
        """Combine the parts in one array, and constants first into a single number.

        With `in_place` the array of the first part is overwritten.
        """
        numbers = [part.value for part in self.parts if isinstance(part, Constant)]
        arrays = [part for part in self.parts if not isinstance(part, Constant)]
        first, rest = (arrays[0], arrays[1:]) if arrays else (Constant(numbers.pop()), [])
        total = evaluate(first)
        out = total if in_place else np.empty_like(total)
        for part in rest:
            total = self._join(total, evaluate(part), out=out)
        if numbers:
            with np.errstate(over="ignore"):  # `check_range` raises
                number = float(self._join.reduce(numbers))
            smallest = SMALLEST if self._join is np.multiply else 0.0
            number = check_range(number, total.dtype, self, smallest)
            total = self._join(total, number, out=out)
        return total

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        pairs = zip(self.parts, self._weights(weights, lambda part: part.diag(X)), strict=True)
        return np.concatenate([part.pull_back_diag(X, own) for part, own in pairs])

    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        pairs = zip(self.parts, self._weights(factors, lambda part: part(X, Z)), strict=True)
        return np.asarray(sum(part._slopes(X, Z, own, weights) for part, own in pairs))

    def _weights(self, weights: Doubles, evaluate: Callable[[Kernel], Floats]) -> Iterator[Doubles]:
        """Yield the weights of each part's derivatives; in a product, times the other parts."""
        yield from (weights for _ in self.parts)


@OPERATIONS.register("+")
@dataclass(frozen=True)
class Sum(Combination):
    """k(x, z) = k_1(x, z) + k_2(x, z) + ..."""

    _join: ClassVar[np.ufunc] = np.add

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return the sums of the parts' variances; see `Kernel.slope_variances`."""
        variances, slopes = zip(*(k.slope_variances(deviations) for k in self.parts), strict=True)
        return sum(variances), np.sum(slopes, axis=0)

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        found = [part._pull_back(pair, weights) for part in self.parts]
        return sum(total for total, _ in found), np.concatenate([slopes for _, slopes in found])

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))


@OPERATIONS.register("*")
@dataclass(frozen=True)
class Product(Combination):
    """k(x, z) = k_1(x, z) k_2(x, z) ..."""

    _join: ClassVar[np.ufunc] = np.multiply

    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return the variances by the product rule; see `Kernel.slope_variances`."""
        variance, slopes = 1.0, np.zeros_like(deviations)
        for part in self.parts:
            own, own_slopes = part.slope_variances(deviations)
            variance, slopes = variance * own, slopes * own + variance * own_slopes
        return variance, slopes

    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        # any part times the rest gives the same total, so constants need no separate pass
        wanted = [i for i, part in enumerate(self.parts) if not isinstance(part, Constant)] or [0]
        found = {}
        for i in wanted:
            own = self._times_rest(i, weights, pair.matrix)
            total, found[i] = self.parts[i]._pull_back(pair, own)
        slopes = [found.get(i, np.array([total])) for i in range(len(self.parts))]
        return total, np.concatenate(slopes)

    def _weights(self, weights: Doubles, evaluate: Callable[[Kernel], Floats]) -> Iterator[Doubles]:
        for i in range(len(self.parts)):
            yield self._times_rest(i, weights, evaluate)

    def _times_rest(
        self, i: int, weights: Doubles, evaluate: Callable[[Kernel], Floats]
    ) -> Doubles:
        for other in self.parts[:i] + self.parts[i + 1 :]:
            weights = weights * (other.value if isinstance(other, Constant) else evaluate(other))
        return weights

    def __str__(self) -> str:
        return "*".join(f"({part})" if isinstance(part, Sum) else str(part) for part in self.parts)


def _operand(value: object) -> Kernel:
    """Return a kernel unchanged, and a number as a constant kernel."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"kernels are joined with kernels and numbers, got {value!r}")
    return Constant(positive(value, "a constant kernel"))
