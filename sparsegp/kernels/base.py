"""The covariance function: its contract, its algebra and its registry.

A kernel is immutable data. The operators ``+`` and ``*`` build a tree of `Sum`, `Product` and
`Constant` nodes; the text of the tree is read back by `sparsegp.kernels.parse` without loss.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from sparsegp.errors import DataError, SettingsError
from sparsegp.kernels.gradient import Differentiable
from sparsegp.kernels.pair import Pair
from sparsegp.kernels.scale import InputScale, positive, within
from sparsegp.registry import Registry
from sparsegp.types import Doubles, Floats

MOST_CHARACTERS = 1 << 19
"""Of a kernel that was stored: some 25,000 length scales."""


@dataclass(frozen=True)
class Kernel(Differentiable):
    """A positive semidefinite covariance function k(x, z).

    A subclass is a frozen dataclass whose fields are the parameters in the order of the text;
    ``class RBF(Kernel, name="rbf")`` enters it in `KERNELS`. A parameter is None while it is left
    to `fill`. A subclass defines `_matrix`, `_diag`, `_pull_back` and `_pull_back_diag`, which may
    rely on checked inputs of one precision.
    """

    __array_ufunc__: ClassVar[None] = None  # numpy scalars leave `+` and `*` to the kernel

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.name = name
            KERNELS.register(name)(cls)

    @abstractmethod
    def _matrix(self, pair: Pair) -> Floats:
        """Return k(x_i, z_j), (..., n, m), in an array that the caller may overwrite."""

    @abstractmethod
    def _diag(self, X: Floats) -> Floats:
        """Return k(x_i, x_i), (..., n), in an array that the caller may overwrite."""

    @property
    def n_columns(self) -> int | None:
        """Number of columns that the inputs must have; None if any number will do."""
        return None

    @property
    def n_distances(self) -> int:
        """How often `_matrix` asks for the distances of the pair."""
        return 0

    def __call__(self, X: Floats, Z: Floats, half_norms: Floats | None = None) -> Floats:
        """Return the covariance matrix K_ij = k(x_i, z_j).

        Parameters
        ----------
        X : (..., n, p)
        Z : (..., m, p)
            The leading axes of `X` and `Z` are broadcast.
        half_norms : (..., n), optional
            |x_i|^2 / 2, where that is known already.

        Returns
        -------
        (..., n, m)
            In the precision of the inputs (the wider of the two).

        Raises
        ------
        SettingsError
            If a parameter is left out or does not fit the columns or the precision.
        DataError
            If the arrays are not floats of (..., rows, columns) with the same columns.
        """
        self._check(X, "X")
        self._check(Z, "Z")
        if X.shape[-1] != Z.shape[-1]:
            raise DataError(
                f"X and Z must have the same number of columns, got shapes {X.shape} and {Z.shape}"
            )
        dtype = np.result_type(X, Z)
        X, Z = X.astype(dtype, copy=False), Z.astype(dtype, copy=False)
        return self._matrix(Pair(X, Z, self.n_distances, half_norms))

    def diag(self, X: Floats) -> Floats:
        """Return the variances k(x_i, x_i), (..., n), of inputs X, (..., n, p).

        Raises
        ------
        SettingsError, DataError
            As for the covariance matrix.
        """
        self._check(X, "X")
        return self._diag(X)

    def _check_complete(self) -> None:
        if not self.complete:
            raise SettingsError(
                f"kernel '{self}' has a length scale left out; give it, or call fill with the "
                "scale of the inputs"
            )

    def _check(self, X: Floats, what: str) -> None:
        self._check_complete()
        if X.ndim < 2 or not np.issubdtype(X.dtype, np.floating):
            raise DataError(
                f"{what} must be floats of shape (..., rows, columns), got {X.dtype} of shape "
                f"{X.shape}"
            )
        self._check_columns(X.shape[-1])

    def _check_columns(self, n_features: int) -> None:
        if self.n_columns not in {None, n_features}:
            raise SettingsError(
                f"{self.name} has {self.n_columns} length scales but the inputs have "
                f"{n_features} columns; give one per column or leave them out"
            )

    @property
    def complete(self) -> bool:
        """Whether no parameter is left to `fill`."""
        return all(getattr(self, field.name) is not None for field in fields(self))

    def fill(self, scale: InputScale) -> "Kernel":
        """Return the kernel with the length scales left out replaced by a rule.

        With v_j the column variances of p columns and 6 significant digits kept:

        - one length scale: l^2 = sum_j v_j / 2, so that 1 / (2 l^2) = 1 / (p Var X) with Var X
          the mean column variance; l = 1 if all columns are constant;
        - one per column: l_j = sqrt(v_j p / 2), which is the same where all v_j are equal;
          l_j = sqrt(p / 2) for a constant column, as for one of unit variance.

        Raises
        ------
        SettingsError
            If length scales that were given do not fit the number of columns.
        """
        self._check_columns(len(scale.variances))
        return self

    def __add__(self, other: object) -> "Kernel":
        kernel = _as_kernel(other)
        return NotImplemented if kernel is None else Sum((self, kernel))

    def __radd__(self, other: object) -> "Kernel":
        kernel = _as_kernel(other)
        return NotImplemented if kernel is None else Sum((kernel, self))

    def __mul__(self, other: object) -> "Kernel":
        kernel = _as_kernel(other)
        return NotImplemented if kernel is None else Product((self, kernel))

    def __rmul__(self, other: object) -> "Kernel":
        kernel = _as_kernel(other)
        return NotImplemented if kernel is None else Product((kernel, self))

    def __str__(self) -> str:
        values = [(getattr(self, field.name), field.default) for field in fields(self)]
        while values and values[-1][0] == values[-1][1]:  # defaults at the end are not written
            values.pop()
        arguments = ", ".join(repr(value) for value, _ in values)
        return f"{self.name}({arguments})" if arguments else self.name

    def to_json(self) -> str:
        """Return the text."""
        return str(self)

    @staticmethod
    def from_json(text: str) -> "Kernel":
        """Return the kernel of a text that was stored.

        Raises
        ------
        SettingsError
            If it is no kernel, or longer than one of `MOST_CHARACTERS` is.
        """
        from sparsegp.kernels.parse import parse  # noqa: PLC0415 - it makes kernels of this file

        if len(text) > MOST_CHARACTERS:
            raise SettingsError(f"the text of a kernel must have at most {MOST_CHARACTERS} letters")
        return parse(text)


KERNELS: Registry[type[Kernel]] = Registry("kernel")
"""The kernels that a text can name."""


@dataclass(frozen=True)
class Constant(Kernel, name="constant"):
    """k(x, z) = value. In a text it is the number itself: ``0.5 + rbf(2)``.

    Parameters
    ----------
    value : float
        Positive; the unit is that of the variance of the latent function.
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", positive(self.value, "a constant kernel"))

    def _matrix(self, pair: Pair) -> Floats:
        X, Z = pair.X, pair.Z
        batch = np.broadcast_shapes(X.shape[:-2], Z.shape[:-2])
        value = within(self.value, X.dtype, self)
        return np.full((*batch, X.shape[-2], Z.shape[-2]), value, X.dtype)

    def _diag(self, X: Floats) -> Floats:
        return np.full(X.shape[:-1], within(self.value, X.dtype, self), X.dtype)

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        return np.array([self.value * weights.sum()])

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.array([self.value * weights.sum()])

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Joint(Kernel):
    """Several kernels joined by one operation; nested joints of the same class are flattened.

    Parameters
    ----------
    parts : tuple of Kernel
        At least two, in the order of the text.

    Raises
    ------
    SettingsError
        If there are fewer than two parts.
    """

    parts: tuple[Kernel, ...]

    _join: ClassVar[np.ufunc]

    def __post_init__(self) -> None:
        flat: list[Kernel] = []
        for part in self.parts:
            flat.extend(part.parts if isinstance(part, type(self)) else [part])
        if len(flat) < 2:
            raise SettingsError(
                f"{type(self).__name__} must have at least two kernels, got {len(flat)}"
            )
        object.__setattr__(self, "parts", tuple(flat))

    @property
    def complete(self) -> bool:
        """Whether all parts are."""
        return all(part.complete for part in self.parts)

    def fill(self, scale: InputScale) -> Kernel:
        """Return the same tree with every part filled."""
        return type(self)(tuple(part.fill(scale) for part in self.parts))

    def parameters(self) -> Doubles:
        """Return the logarithms of the parameters of all parts, (q,)."""
        return np.concatenate([part.parameters() for part in self.parts])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Those of all parts."""
        return tuple(name for part in self.parts for name in part.parameter_names)

    def with_parameters(self, logs: Doubles) -> Self:
        """Return the same tree with other parameters."""
        ends = np.cumsum([len(part.parameters()) for part in self.parts])
        pairs = zip(self.parts, np.split(logs, ends[:-1]), strict=True)
        return type(self)(tuple(part.with_parameters(some) for part, some in pairs))

    def _check_columns(self, n_features: int) -> None:
        for part in self.parts:
            part._check_columns(n_features)

    @property
    def n_distances(self) -> int:
        """Those of all parts."""
        return sum(part.n_distances for part in self.parts)

    def _matrix(self, pair: Pair) -> Floats:
        return self._reduce(lambda kernel: kernel._matrix(pair))

    def _diag(self, X: Floats) -> Floats:
        return self._reduce(lambda kernel: kernel.diag(X))

    def _reduce(self, evaluate: Callable[[Kernel], Floats]) -> Floats:
        """Join the parts one after the other in one array; constants join as one number."""
        numbers = [part.value for part in self.parts if isinstance(part, Constant)]
        arrays = [part for part in self.parts if not isinstance(part, Constant)]
        first, rest = (arrays[0], arrays[1:]) if arrays else (Constant(numbers.pop()), [])
        total = evaluate(first)
        for part in rest:
            self._join(total, evaluate(part), out=total)
        if numbers:
            with np.errstate(over="ignore"):  # found by the next line
                number = float(self._join.reduce(numbers))
            number = within(number, total.dtype, self)
            self._join(total, number, out=total)
        return total


@dataclass(frozen=True)
class Sum(Joint):
    """k(x, z) = k_1(x, z) + k_2(x, z) + ..."""

    _join: ClassVar[np.ufunc] = np.add

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        return np.concatenate([part.pull_back(X, Z, weights) for part in self.parts])

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return np.concatenate([part.pull_back_diag(X, weights) for part in self.parts])

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))


@dataclass(frozen=True)
class Product(Joint):
    """k(x, z) = k_1(x, z) k_2(x, z) ..."""

    _join: ClassVar[np.ufunc] = np.multiply

    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        return self._chain(
            weights, lambda part: part(X, Z), lambda part, some: part.pull_back(X, Z, some)
        )

    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        return self._chain(
            weights, lambda part: part.diag(X), lambda part, some: part.pull_back_diag(X, some)
        )

    def _chain(
        self,
        weights: Doubles,
        evaluate: Callable[[Kernel], Floats],
        pull_back: Callable[[Kernel, Doubles], Doubles],
    ) -> Doubles:
        """Return the gradients of the parts, each with weights times all the other parts."""
        gradients = []
        for i, part in enumerate(self.parts):
            others = weights
            for other in self.parts[:i] + self.parts[i + 1 :]:
                others = others * evaluate(other)
            gradients.append(pull_back(part, others))
        return np.concatenate(gradients)

    def __str__(self) -> str:
        return "*".join(f"({part})" if isinstance(part, Sum) else str(part) for part in self.parts)


def _as_kernel(value: object) -> Kernel | None:
    """Return an operand of + or * as a kernel: numbers become constants; None if it is neither."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return Constant(positive(value, "a constant kernel"))
