"""The parameters of a covariance function, and gradients with respect to them.

Parameters are free numbers here: the logarithms of what the text of a kernel says. A gradient of
the whole covariance matrix is never formed; `pull_back` takes what it is to be multiplied with.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Self, cast

import numpy as np

from sparsegp.errors import DataError
from sparsegp.types import Doubles, Floats


@dataclass(frozen=True)
class Differentiable(ABC):
    """A frozen dataclass whose fields are positive numbers, or one tuple of them."""

    name: ClassVar[str] = ""
    variadic: ClassVar[bool] = False
    """True if the one field is a tuple that a text spells out, number after number."""

    def parameters(self) -> Doubles:
        """Return the logarithms of the parameters in the order of the text, (q,).

        Raises
        ------
        SettingsError
            If a length scale is left out.
        """
        self._check_complete()
        values = np.hstack([getattr(self, field.name) for field in fields(self)])
        return np.asarray(np.log(values), np.float64)

    def with_parameters(self, logs: Doubles) -> Self:
        """Return the same kernel with other parameters, given by their logarithms, (q,)."""
        values, family = np.exp(logs).tolist(), cast(Callable[..., Self], type(self))
        return family(tuple(values)) if self.variadic else family(*values)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What each parameter is, in the order of `parameters`: ``rbf.length_scale``."""
        self._check_complete()
        sizes = [np.size(getattr(self, field.name)) for field in fields(self)]
        pairs = zip(fields(self), sizes, strict=True)
        return tuple(f"{self.name}.{field.name}" for field, size in pairs for _ in range(size))

    def pull_back(self, X: Floats, Z: Floats, weights: Doubles) -> Doubles:
        """Return sum_ij w_ij dk(x_i, z_j) / dt for every log parameter t, (q,).

        It is the gradient of a function of the covariance matrix, of which `weights` is the
        gradient with respect to that matrix. No array is larger than the matrix or the inputs.

        Parameters
        ----------
        X : (n, p)
        Z : (m, p)
        weights : (n, m)

        Returns
        -------
        Doubles (q,)
            In the order of `parameters`. All is evaluated in float64.

        Raises
        ------
        SettingsError, DataError
            As for the covariance matrix, and if the shapes do not match.
        """
        self._check(X, "X")
        self._check(Z, "Z")
        if X.ndim != 2 or Z.ndim != 2 or weights.shape != (len(X), len(Z)):
            raise DataError(
                "X, Z and weights must have shapes (n, p), (m, p) and (n, m), got "
                f"{X.shape}, {Z.shape} and {weights.shape}"
            )
        X, Z, weights = (np.asarray(array, np.float64) for array in (X, Z, weights))
        return self._pull_back(X, Z, weights)

    def pull_back_diag(self, X: Floats, weights: Doubles) -> Doubles:
        """Return sum_i w_i dk(x_i, x_i) / dt for every log parameter t, (q,).

        As `pull_back`, for a function of the variances.

        Parameters
        ----------
        X : (n, p)
        weights : (n,)
        """
        self._check(X, "X")
        if X.ndim != 2 or weights.shape != (len(X),):
            raise DataError(
                f"X and weights must have shapes (n, p) and (n,), got {X.shape} and {weights.shape}"
            )
        return self._pull_back_diag(np.asarray(X, np.float64), np.asarray(weights, np.float64))

    @abstractmethod
    def _pull_back(self, X: Doubles, Z: Doubles, weights: Doubles) -> Doubles:
        """Return what `pull_back` does; the arrays may not be overwritten."""

    @abstractmethod
    def _pull_back_diag(self, X: Doubles, weights: Doubles) -> Doubles:
        """Return what `pull_back_diag` does; the arrays may not be overwritten."""

    @abstractmethod
    def _check_complete(self) -> None:
        """Raise if a parameter is left out."""

    @abstractmethod
    def _check(self, X: Floats, what: str) -> None:
        """Raise if a parameter is left out or the inputs do not fit."""
