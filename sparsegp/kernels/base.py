"""Base class and registry of covariance functions.

A kernel is immutable. The operators ``+`` and ``*`` build a tree (algebra.py), whose text
`sparsegp.kernels.parse` reads back without loss.

Free parameters are the logarithms of the learnt numbers in the text. The gradient of a whole
covariance matrix is never formed: `Kernel.pull_back` contracts it with given weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

import numpy as np

from sparsegp.errors import DataError, SettingsError
from sparsegp.kernels.pair import InputPair
from sparsegp.registry import Registry
from sparsegp.texts import Member
from sparsegp.types import Doubles, Floats

KERNELS: Registry[type["Kernel"]] = Registry("kernel")
"""Kernel classes by the names used in texts."""


@dataclass(frozen=True)
class Kernel(Member, ABC):
    """A positive semidefinite covariance function k(x, z).

    A subclass is a frozen dataclass whose fields are the parameters in the order of the text:
    positive numbers, or one tuple of them, or None until `fill` is called.
    ``class RBF(Kernel, name="rbf")`` registers it in `KERNELS`. The private methods that it
    implements are given checked inputs of one precision.
    """

    family: ClassVar[Registry[Any]] = KERNELS
    n_fixed: ClassVar[int] = 0
    """Number of leading fields that are not learnt."""
    n_distances: ClassVar[int] = 0
    """Number of times that `_matrix` takes the distances from the pair."""
    is_rough: ClassVar[bool] = False
    """Whether latent functions have corners, like those of trees."""
    __array_ufunc__: ClassVar[None] = None  # so that numpy scalars defer `+` and `*` to the kernel

    @abstractmethod
    def _matrix(self, pair: InputPair) -> Floats:
        """Return k(x_i, z_j), (..., n, m), in an array that the caller may overwrite."""

    @abstractmethod
    def _diag(self, X: Floats) -> Floats:
        """Return k(x_i, x_i), (..., n), in an array that the caller may overwrite."""

    @abstractmethod
    def _pull_back(self, pair: InputPair, weights: Doubles) -> tuple[float, Doubles]:
        """Return sum_ij w_ij k(x_i, z_j) and the result of `pull_back`.

        Implementations must not overwrite the arrays.
        """

    @abstractmethod
    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        """Return the result of `pull_back_diag`, without overwriting the arrays."""

    @abstractmethod
    def _slopes(self, X: Doubles, Z: Doubles, factors: Doubles, weights: Doubles) -> Doubles:
        """Return sum_j f_ij w_jr dk(x_i, z_j) / dx_i, (R, n, p), for factors f (n, m).

        Implementations must not overwrite the arrays.
        """

    @abstractmethod
    def slope_variances(self, deviations: Doubles) -> tuple[float, Doubles]:
        """Return the prior variance of the latent function, and the variances of its slopes, (p,).

        Slopes are per standard deviation of a column; `deviations` holds these, (p,). For a rough
        kernel they are those of a smooth one with the same length scales; see `relevances`.
        """

    @property
    def leaves(self) -> "tuple[Kernel, ...]":
        """Kernels that an expression consists of, in the order of the text; else the kernel."""
        return (self,)

    def __call__(self, X: Floats, Z: Floats, half_norms: Floats | None = None) -> Floats:
        """Return the covariance matrix K_ij = k(x_i, z_j).

        Parameters
        ----------
        X : (..., n, p)
        Z : (..., m, p)
            The leading axes of `X` and `Z` are broadcast.
        half_norms : (..., n), optional
            |x_i|^2 / 2, if already known.

        Returns
        -------
        (..., n, m)
            In the wider precision of the two inputs.

        Raises
        ------
        SettingsError
            If a length scale is left out, or parameters do not fit the columns or the precision.
        DataError
            If the arrays are not floats of shape (..., rows, columns) with equally many columns.
        """
        return self._matrix(self._pair(X, Z, half_norms))

    def with_pull_back(self, X: Floats, Z: Floats) -> tuple[Floats, Callable[[Floats], Doubles]]:
        """Return the covariance matrix, and a function from weights to the result of `pull_back`.

        The function keeps and reuses the matrices of all parts, so the covariance matrix must not
        be overwritten. The weights must have the precision of the matrix.

        Parameters
        ----------
        X : (n, p)
        Z : (m, p)
            Preferably the input with more rows, since long rows of the matrix are faster.

        Raises
        ------
        SettingsError, DataError
            As for the covariance matrix.
        """
        pair = self._pair(X, Z, keeps=True)
        return pair.matrix(self), lambda weights: self._pull_back(pair, weights)[1]

    def _pair(
        self, X: Floats, Z: Floats, half_norms: Floats | None = None, keeps: bool = False
    ) -> InputPair:
        self._check(X=X, Z=Z)
        if X.shape[-1] != Z.shape[-1]:
            raise DataError(
                f"X and Z must have the same number of columns, got shapes {X.shape} and {Z.shape}"
            )
        dtype = np.result_type(X, Z)
        X, Z = X.astype(dtype, copy=False), Z.astype(dtype, copy=False)
        return InputPair(X, Z, self._uses_of_distances() * (1 + keeps), half_norms, keeps)

    def _uses_of_distances(self) -> int:
        return sum(leaf.n_distances for leaf in self.leaves)

    def diag(self, X: Floats) -> Floats:
        """Return the variances k(x_i, x_i), (..., n), of X, (..., n, p); raises as `__call__`."""
        self._check(X=X)
        return self._diag(X)

    def pull_back(self, X: Floats, Z: Floats, weights: Doubles) -> Doubles:
        """Return sum_ij w_ij dk(x_i, z_j) / dt for every log parameter t, (q,).

        This is the gradient of a function whose gradient with respect to the covariance matrix is
        w, computed in the precision of the weights.

        Parameters
        ----------
        X : (n, p)
        Z : (m, p)
        weights : (n, m)

        Raises
        ------
        SettingsError, DataError
            As for the covariance matrix, and if the shapes do not match.
        """
        self._check_shapes(X, Z, weights, "(n, m)", (len(X), len(Z)))
        X, Z = np.asarray(X, weights.dtype), np.asarray(Z, weights.dtype)
        return self._pull_back(InputPair(X, Z, 2 * self._uses_of_distances()), weights)[1]

    def slopes(self, X: Floats, Z: Floats, weights: Doubles) -> Doubles:
        """Return sum_j w_jr dk(x_i, z_j) / dx_i, (R, n, p), in float64.

        These are the gradients at x_i of the functions sum_j w_jr k(x, z_j). Where the kernel has a
        corner, its slope is taken as zero.

        Parameters
        ----------
        X : (n, p)
        Z : (m, p)
        weights : (m, R)

        Raises
        ------
        SettingsError, DataError
            As for `pull_back`.
        """
        self._check_shapes(X, Z, weights, "(m, R)", (len(Z), *weights.shape[1:2]))
        X, Z, weights = (np.asarray(array, np.float64) for array in (X, Z, weights))
        return self._slopes(X, Z, np.ones((len(X), len(Z))), weights)

    def _check_shapes(
        self, X: Floats, Z: Floats, weights: Doubles, rule: str, shape: tuple[int, ...]
    ) -> None:
        self._check(X=X, Z=Z)
        if X.ndim != 2 or Z.ndim != 2 or weights.ndim != 2 or weights.shape != shape:
            raise DataError(
                f"X, Z and weights must have shapes (n, p), (m, p) and {rule}, got "
                f"{X.shape}, {Z.shape} and {weights.shape}"
            )

    def pull_back_diag(self, X: Floats, weights: Doubles) -> Doubles:
        """Return sum_i w_i dk(x_i, x_i) / dt for every log parameter t, (q,).

        Like `pull_back`, for a function of the variances: X (n, p), weights (n,).
        """
        self._check(X=X)
        if X.ndim != 2 or weights.shape != (len(X),):
            raise DataError(
                f"X and weights must have shapes (n, p) and (n,), got {X.shape} and {weights.shape}"
            )
        return self._pull_back_diag(np.asarray(X, np.float64), np.asarray(weights, np.float64))

    def _check(self, **inputs: Floats) -> None:
        self._check_complete()
        for name, X in inputs.items():
            if X.ndim < 2 or not np.issubdtype(X.dtype, np.floating):
                raise DataError(
                    f"{name} must be floats of shape (..., rows, columns), got {X.dtype} of shape "
                    f"{X.shape}"
                )
            for leaf in self.leaves:
                leaf._check_columns(X.shape[-1])

    def _check_complete(self) -> None:
        if not self.complete:
            raise SettingsError(
                f"kernel '{self}' has a length scale left out; give it, or call fill with the "
                "column variances of the inputs"
            )

    def _check_columns(self, n_features: int) -> None:
        if self.variadic and self.complete and not self.has_ard(n_features):
            raise SettingsError(
                f"{self.name} has {len(self.parameter_names)} length scales but the inputs have "
                f"{n_features} columns; give one per column, as by name, or leave them out"
            )

    @property
    def complete(self) -> bool:
        """Whether all parameters are given, so that `fill` has nothing to do."""
        return all(None not in vars(leaf).values() for leaf in self.leaves)

    def has_ard(self, n_features: int) -> bool:
        """Whether the kernel itself, not a part of it, has a length scale for every column."""
        return self.variadic and len(self.parameter_names) == n_features

    def fill(self, variances: Doubles) -> "Kernel":
        """Return the kernel with default values for the length scales that are left out.

        With the variances v_j of p columns, rounded to 6 significant digits:

        - one length scale: l^2 = sum_j v_j / 2, so that 1 / (2 l^2) = 1 / (p Var X) with Var X
          the mean column variance; l = 1 if all columns are constant;
        - one per column: l_j = sqrt(v_j p / 2), which is the same if all v_j are equal;
          l_j = sqrt(p / 2) for a constant column, as for one of unit variance;
        - Laplace-type kernels: l^q = 0.8 sum_j v_j^(q/2), which is l = 0.8 sum_j sqrt(v_j)
          for ``laplace``; for ``additive`` three times the mean of sqrt(v_j) over columns that are
          not constant.

        Parameters
        ----------
        variances : Doubles (p,)
            Variances of the columns of the training inputs, after scaling.

        Raises
        ------
        SettingsError
            If the number of length scales given does not match the number of columns.
        """
        self._check_columns(len(variances))
        return self if self.complete else self._filled(variances)

    def _filled(self, variances: Doubles) -> "Kernel":
        """Return the kernel with default length scales; called only if they are left out."""
        return self

    def parameters(self) -> Doubles:
        """Return the logarithms of the parameters in the order of the text, (q,).

        Raises
        ------
        SettingsError
            If a length scale is left out.
        """
        return np.asarray(np.log(self._values()), np.float64)

    def with_parameters(self, logs: Doubles) -> Self:
        """Return the same kernel with other parameters, given by their logarithms, (q,).

        Parameters that do not change stay the same to the last bit.
        """
        former, family = self._values(), cast(Callable[..., Self], type(self))
        values = np.where(logs == np.log(former), former, np.exp(logs)).tolist()
        fixed = (getattr(self, field.name) for field in fields(self)[: self.n_fixed])
        return family(*fixed, *([tuple(values)] if self.variadic else values))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of `parameters`, such as ``rbf.length_scale``."""
        return tuple(name for name, value in self._learnt() for _ in range(np.size(value)))

    def _values(self) -> Doubles:
        """Return the parameters in the order of the text, (q,)."""
        return np.hstack([value for _, value in self._learnt()])

    def _learnt(self) -> list[tuple[str, Any]]:
        """Return the learnt fields of all leaves, with names such as ``rbf.length_scale``."""
        self._check_complete()
        free = [(leaf, each.name) for leaf in self.leaves for each in fields(leaf)[leaf.n_fixed :]]
        return [(f"{leaf.name}.{name}", getattr(leaf, name)) for leaf, name in free]

    def __add__(self, other: object) -> "Kernel":
        return OPERATIONS["+"]((self, other))

    def __radd__(self, other: object) -> "Kernel":
        return OPERATIONS["+"]((other, self))

    def __mul__(self, other: object) -> "Kernel":
        return OPERATIONS["*"]((self, other))

    def __rmul__(self, other: object) -> "Kernel":
        return OPERATIONS["*"]((other, self))

    def to_json(self) -> str:
        """Return the text."""
        return str(self)

    @staticmethod
    def from_json(text: str) -> "Kernel":
        """Return the kernel described by a stored text; raises as `parse`."""
        from sparsegp.kernels.parse import parse  # noqa: PLC0415 - it makes kernels of this file

        return parse(text)


OPERATIONS: Registry[Callable[[Any], Kernel]] = Registry("operation")
"""Classes behind the operators, called with a pair of kernels, or a kernel and a number."""
